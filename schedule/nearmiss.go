package schedule

import (
	"cmp"
	"math/bits"
	"slices"
)

// NearMisses say why the hosts of a table do not pass a query, and what would have to change.
type NearMisses struct {
	// Hosts looked at, and how many of them passed.
	Hosts  int
	Passed int
	// Conditions are those that some host does not meet, in filter order.
	Conditions []Condition
	// Nearest are hosts that do not pass, those that the least change would let pass first; of hosts with the
	// same Misses, amounts apart, only the nearest one. Hosts that the request itself leaves out (HostFilter)
	// are not among them.
	Nearest []NearMiss
}

// Condition is one thing that a filter asks. Other than in Proposal.Rejects, a host counts under every condition
// that it does not meet.
type Condition struct {
	Filter, Detail string
	// Hosts do not meet it; Alone of them meet all other conditions.
	Hosts, Alone int
}

// NearMiss is a host that does not pass.
type NearMiss struct {
	Host                        ID
	ServiceHost, NodeName, Zone string
	// Misses in filter order. With all of them changed the host passes; where Changeable, not with one fewer.
	Misses []Miss
	// Cost is the sum of the Misses' costs (Miss.cost): the order of Nearest.
	Cost float64
	// Changeable: another request (Request.Relaxed with Misses) would pass. Else operators would have to do
	// something: enable a host, free room, add a host to an aggregate.
	Changeable bool
	// Alike is how many hosts have the same Misses, amounts apart, this one included.
	Alike int
}

// Miss is a condition that a host does not meet.
type Miss struct {
	Filter, Detail string
	// Asked and Most are set for ResourceFilter on one class: what the request asks, and the most that would fit
	// on the host now; 0 when nothing would.
	Asked, Most int64
	// Changeable: the request could do without.
	Changeable bool
}

// operatorCost is above any cost of conditions that a request can change.
const operatorCost = 1000

// cost of an amount is by how much of it the host falls short, 0 to 1; of another condition 1; of one that the
// request cannot change operatorCost.
func (m *Miss) cost() float64 {
	switch {
	case !m.Changeable:
		return operatorCost
	case m.Asked > 0:
		return float64(m.Asked-m.Most) / float64(m.Asked)
	}
	return 1
}

// NearMisses looks at every host of the table with every condition of the query; limit bounds Nearest. Unlike
// Propose it does not stop at the first condition that a host does not meet, and costs several times as much.
// Errors are Propose's.
func (t *Table) NearMisses(q *Query, limit int) (*NearMisses, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	before := t
	t = t.taken(q)
	s, err := t.compile(q, before)
	if err != nil {
		return nil, err
	}
	n := &nearMissSearch{s: s, passed: make([]uint64, len(s.checks)), best: map[string]*NearMiss{}, alone: make([]int, len(s.checks)), failed: make([]int, len(s.checks))}
	out := &NearMisses{Hosts: t.n}
	for i, c := range t.chunks {
		if q.stopped(i) {
			return nil, ErrStopped
		}
		out.Passed += n.chunk(i, c)
		if s.spent > ExpressionBudget {
			return nil, ErrCostly
		}
	}
	out.Conditions = n.conditions()
	for _, m := range n.best {
		out.Nearest = append(out.Nearest, *m)
	}
	slices.SortFunc(out.Nearest, func(a, b NearMiss) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), slices.Compare(a.Host[:], b.Host[:]))
	})
	out.Nearest = out.Nearest[:min(len(out.Nearest), limit)]
	return out, nil
}

// nearMissSearch is the work of NearMisses.
type nearMissSearch struct {
	s *scan
	// passed has, by check, the hosts of the chunk at hand that meet it.
	passed        []uint64
	failed, alone []int
	// best by the checks that a host fails, as bytes.
	best map[string]*NearMiss
}

// chunk looks at a chunk's hosts and gives how many pass.
func (n *nearMissSearch) chunk(at int, c *chunk) int {
	all := c.valid
	n.s.spread = 0
	for i := range n.s.checks {
		n.passed[i] = c.valid & n.s.checks[i].pass(at, c, c.valid)
		n.s.unreadable = 0
		all &= n.passed[i]
	}
	for m := c.valid &^ all; m != 0; m &= m - 1 {
		n.host(at, c, m&-m)
	}
	return bits.OnesCount64(all)
}

// host counts what one host fails, and keeps it where it is the nearest of its like.
func (n *nearMissSearch) host(at int, c *chunk, bit uint64) {
	r := c.rows.v[bits.TrailingZeros64(bit)]
	var misses []Miss
	var fails []byte
	excluded := false
	for i := range n.s.checks {
		if n.passed[i]&bit != 0 {
			continue
		}
		k := &n.s.checks[i]
		excluded = excluded || k.filter == HostFilter
		// A host that operators keep instances from fails the check of its reason and the one of all others.
		if len(misses) > 0 && k.filter == ComputeFilter && k.detail == otherReasons && misses[len(misses)-1].Filter == ComputeFilter {
			continue
		}
		n.failed[i]++
		fails = append(fails, byte(i), byte(i>>8))
		misses = append(misses, n.s.q.Request.miss(k.filter, k.detail, r))
	}
	if len(misses) == 1 {
		n.alone[int(fails[0])|int(fails[1])<<8]++
	}
	if excluded {
		return
	}
	cost := 0.0
	for i := range misses {
		cost += misses[i].cost()
	}
	known := n.best[string(fails)]
	if known == nil {
		known = &NearMiss{Cost: cost + 1}
		n.best[string(fails)] = known
	}
	known.Alike++
	if cost >= known.Cost && known.Misses != nil {
		return
	}
	zone := r.zone
	if zone == "" {
		zone = n.s.q.Rules.DefaultAvailabilityZone
	}
	*known = NearMiss{
		Host: r.host.UUID, ServiceHost: r.host.ServiceHost, NodeName: r.host.NodeName, Zone: zone,
		Misses: misses, Cost: cost, Alike: known.Alike,
	}
	n.reduce(known, at, c, bit)
}

// reduce says whether the request could do without the misses of a host, and leaves out those that it need not do
// without: filters overlap (NUMATopologyFilter asks for PCI devices too, TreeFilter for all that a tree has).
func (n *nearMissSearch) reduce(m *NearMiss, at int, c *chunk, bit uint64) {
	if slices.ContainsFunc(m.Misses, func(m Miss) bool { return !m.Changeable }) {
		return
	}
	if m.Changeable = n.passes(m.Misses, at, c, bit); !m.Changeable {
		m.Cost += operatorCost
		return
	}
	for i := 0; i < len(m.Misses) && len(m.Misses) > 1; {
		fewer := slices.Delete(slices.Clone(m.Misses), i, i+1)
		if !n.passes(fewer, at, c, bit) {
			i++
			continue
		}
		m.Cost -= m.Misses[i].cost()
		m.Misses = fewer
	}
}

// passes reports whether one host would pass the request without some conditions.
func (n *nearMissSearch) passes(without []Miss, at int, c *chunk, bit uint64) bool {
	q := *n.s.q
	q.Request = q.Request.Relaxed(without)
	s, err := n.s.t.compile(&q, n.s.before)
	if err != nil {
		return false
	}
	one := *c
	one.valid = bit
	return s.filter(at, &one) != 0
}

// conditions joins what counts under one filter and detail.
func (n *nearMissSearch) conditions() []Condition {
	var list []Condition
	for i := range n.s.checks {
		k := &n.s.checks[i]
		if n.failed[i] == 0 {
			continue
		}
		at := slices.IndexFunc(list, func(c Condition) bool { return c.Filter == k.filter && c.Detail == k.detail })
		if at < 0 {
			list = append(list, Condition{Filter: k.filter, Detail: k.detail})
			at = len(list) - 1
		}
		list[at].Hosts += n.failed[i]
		list[at].Alone += n.alone[i]
	}
	return list
}
