package schedule

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// checkSet is a set of checks by index. Indexes beyond its size share the last bit.
type checkSet [4]uint64

func (s *checkSet) add(check int) {
	check = min(check, 64*len(s)-1)
	s[check/64] |= 1 << (check % 64)
}

// nearMissSearch is the work of findNearMisses.
type nearMissSearch struct {
	s *scan
	// passed are, by check, the hosts of the current chunk that meet it.
	passed        []uint64
	failed, alone []int
	bounds        map[int][]BoundCount
	// amounts are the indexes of ResourceFilter's checks of one class.
	amounts []int
	// withoutPCI is NUMATopologyFilter alone, without the request's devices, if the request has both. freed are the
	// hosts of the current chunk that pass it.
	withoutPCI *scan
	freed      uint64
	// alike are the hosts by the checks that they fail.
	alike map[failure]*alikeHosts
	// mostNear bounds the hosts that are kept for each set of failed checks.
	mostNear int
	// amountTries counts the trials of other amounts on hosts.
	amountTries int
}

// failure is what a host fails. freed: the host would pass NUMATopologyFilter if the request had no devices.
type failure struct {
	checks checkSet
	freed  bool
}

// alikeHosts are hosts that fail the same checks; the nearest one represents them.
type alikeHosts struct {
	checks []int
	hosts  int
	// near are the hosts with the least shortage of amounts.
	near []nearHost
}

// mostNear is how many hosts are tried for each set of failed checks. One may not suffice: if a filter cannot read a
// host's data, no change of the request helps.
const mostNear = 8

// nearHost is a host that does not pass.
type nearHost struct {
	shortage float64
	at       int
	chunk    *chunk
	slot     int
}

// add keeps a host if it is among the nearest, of which there are at most most.
func (a *alikeHosts) add(h nearHost, most int) {
	a.hosts++
	if len(a.near) == most && h.shortage >= a.near[most-1].shortage {
		return
	}
	at, _ := slices.BinarySearchFunc(a.near, h.shortage, func(x nearHost, shortage float64) int {
		if x.shortage <= shortage {
			return -1
		}
		return 1
	})
	a.near = slices.Insert(a.near[:min(len(a.near), most-1)], at, h)
}

// newNearMissSearch prepares a search on a table without the query's tentative placements.
func (t *Table) newNearMissSearch(q *Query) (*nearMissSearch, error) {
	s, err := t.taken(q).compile(q, t)
	if err != nil {
		return nil, err
	}
	n := &nearMissSearch{
		s: s, passed: make([]uint64, len(s.checks)), failed: make([]int, len(s.checks)), alone: make([]int, len(s.checks)),
		alike: map[failure]*alikeHosts{}, bounds: map[int][]BoundCount{}, mostNear: mostNear,
	}
	if q.Request.triesAmounts() {
		n.mostNear = math.MaxInt // the missing amounts are not known yet
	}
	if r := s.q.Request; r.nova().NUMA != nil && len(r.nova().PCI) > 0 {
		q, rules := *s.q, *s.q.Rules
		rules.Filters, rules.Weighers = []string{NUMAFilter}, []Weigher{}
		q.Request, q.Rules = r.Relaxed([]Miss{{Filter: PCIFilter}}), &rules
		n.withoutPCI, _ = s.t.compile(&q, s.before) // it only names an existing filter, so it compiles
	}
	for i := range s.checks {
		if k := &s.checks[i]; k.filter == ResourceFilter && slices.ContainsFunc(s.q.Request.Resources, func(a Amount) bool { return a.Class == k.detail }) {
			n.amounts = append(n.amounts, i)
		}
	}
	return n, nil
}

// search checks all hosts and gives how many pass.
func (n *nearMissSearch) search() (passed int, err error) {
	for i, c := range n.s.t.chunks {
		if n.s.q.stopped(i) {
			return 0, ErrStopped
		}
		passed += n.searchChunk(i, c)
		switch {
		case n.s.halted:
			return 0, ErrStopped
		case n.s.spent > ExpressionBudget:
			return 0, ErrCostly
		}
	}
	return passed, nil
}

// searchChunk checks a chunk's hosts and gives how many pass.
func (n *nearMissSearch) searchChunk(at int, c *chunk) int {
	all := c.valid
	n.s.spread = 0
	for i := range n.s.checks {
		p := c.valid & n.s.checks[i].pass(at, c, c.valid)
		n.s.unreadable = 0
		if n.repeats(i) {
			p |= c.valid &^ n.passedCompute(i)
		}
		n.passed[i] = p
		n.failed[i] += bits.OnesCount64(c.valid &^ p)
		all &= p
	}
	if n.freed = 0; n.withoutPCI != nil {
		n.freed = n.withoutPCI.filter(at, c)
	}
	for m := c.valid &^ all; m != 0; m &= m - 1 {
		n.addHost(at, c, bits.TrailingZeros64(m))
	}
	return bits.OnesCount64(all & c.valid)
}

// disabledTrait is the detail of Placement's trait on the hosts that ComputeFilter rejects as disabled.
const disabledTrait = "!COMPUTE_STATUS_DISABLED"

// repeats reports whether a check rejects again what ComputeFilter already rejected with another detail.
func (n *nearMissSearch) repeats(check int) bool {
	k := &n.s.checks[check]
	return k.filter == ComputeFilter && k.detail == otherReasons || k.filter == TraitFilter && k.detail == disabledTrait
}

// passedCompute gives the hosts that passed ComputeFilter's checks before an index, whether they are up or not.
func (n *nearMissSearch) passedCompute(before int) uint64 {
	m := ^uint64(0)
	for i := range n.s.checks[:before] {
		if k := &n.s.checks[i]; k.filter == ComputeFilter && k.detail != "down" {
			m &= n.passed[i]
		}
	}
	return m
}

// addHost counts the checks that a host fails, and keeps the host if it is among the nearest of its kind.
func (n *nearMissSearch) addHost(at int, c *chunk, slot int) {
	set := failure{freed: n.freed>>slot&1 != 0}
	count, last := 0, 0
	for i, passed := range n.passed {
		if passed>>slot&1 == 0 {
			set.checks.add(i)
			count, last = count+1, i
		}
	}
	if count == 1 {
		n.alone[last]++
	}
	shortage := 0.0
	for _, i := range n.amounts {
		if n.passed[i]>>slot&1 == 0 {
			m := n.miss(i, c.rows.v[slot])
			shortage += m.cost()
			n.countBound(i, &m)
		}
	}
	like := n.alike[set]
	if like == nil {
		like = &alikeHosts{}
		for i, passed := range n.passed {
			if passed>>slot&1 == 0 {
				like.checks = append(like.checks, i)
			}
		}
		n.alike[set] = like
	}
	like.add(nearHost{shortage, at, c, slot}, n.mostNear)
}

// nearMisses gives, for each set of failed checks, the nearest host, and others if they pass with another change; the
// least change first. Hosts that the request itself leaves out are not among them.
func (n *nearMissSearch) nearMisses() []NearMiss {
	var list []NearMiss
	groups := slices.SortedFunc(maps.Values(n.alike), func(a, b *alikeHosts) int { // tries may be bounded
		return cmp.Or(cmp.Compare(len(a.checks), len(b.checks)), slices.Compare(a.checks, b.checks))
	})
	for _, like := range groups {
		if !slices.ContainsFunc(like.checks, func(i int) bool { return n.s.checks[i].filter == HostFilter }) {
			list = append(list, n.nearMissesOf(like)...)
		}
	}
	slices.SortFunc(list, func(a, b NearMiss) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), slices.Compare(a.Host[:], b.Host[:]), slices.CompareFunc(a.Misses, b.Misses, compareMisses))
	})
	return list
}

// nearMissesOf gives the near misses of alike hosts. Only the first one has the count Alike.
func (n *nearMissSearch) nearMissesOf(like *alikeHosts) (list []NearMiss) {
	if n.s.q.Request.triesAmounts() {
		list = n.changesByAmounts(like)
		slices.SortFunc(list, func(a, b NearMiss) int { return cmp.Compare(a.Cost, b.Cost) })
	}
	if len(list) == 0 {
		var m NearMiss
		var others [][]Miss
		for i := range like.near[:min(len(like.near), mostNear)] {
			if m.Changeable && (len(m.Misses) == len(like.checks) || like.near[i].shortage >= m.Cost) {
				break // the others need no smaller change
			}
			if near, also := n.nearMiss(like, &like.near[i]); i == 0 || near.Changeable && (!m.Changeable || near.Cost < m.Cost) {
				m, others = near, also
			}
		}
		list = []NearMiss{m}
		for _, misses := range others {
			m.Misses, m.Cost = misses, costOf(misses)
			list = append(list, m)
		}
	}
	for i := range list[1:] {
		list[1+i].Alike = 0
	}
	return list
}

// nearest gives the least near miss of each set of failed checks, limit at most. It includes one that only operators
// can change, if there is any.
func nearest(list []NearMiss, limit int) []NearMiss {
	list = slices.DeleteFunc(slices.Clone(list), func(m NearMiss) bool { return m.Alike == 0 })
	if len(list) <= limit {
		return list
	}
	kept := list[:limit:limit]
	if operator := slices.IndexFunc(list, func(m NearMiss) bool { return !m.Changeable }); operator >= limit {
		kept[limit-1] = list[operator]
	}
	return kept
}

// nearMiss says what a host does not meet; others are alternative changes that let it pass as well.
func (n *nearMissSearch) nearMiss(like *alikeHosts, h *nearHost) (m NearMiss, others [][]Miss) {
	m = n.describe(like, h)
	for _, i := range like.checks {
		m.Misses = append(m.Misses, n.miss(i, h.chunk.rows.v[h.slot]))
		m.Cost += m.Misses[len(m.Misses)-1].cost()
	}
	return m, n.reduce(&m, h)
}

// describe makes a NearMiss, without Misses, for one of the alike hosts.
func (n *nearMissSearch) describe(like *alikeHosts, h *nearHost) NearMiss {
	r := h.chunk.rows.v[h.slot]
	return NearMiss{
		Host: r.host.UUID, ServiceHost: r.host.ServiceHost, NodeName: r.host.NodeName,
		Zone: cmp.Or(r.zone, n.s.q.Rules.DefaultAvailabilityZone), Alike: like.hosts,
	}
}

// miss makes the Miss of a check that a host does not pass.
func (n *nearMissSearch) miss(check int, host *row) Miss {
	k := &n.s.checks[check]
	return n.s.q.Request.miss(k.filter, k.detail, host)
}

// reduce says whether a change of the request would let a host pass. If so, it reduces the misses to the cheapest
// sufficient subset; others are the other ones. Filters overlap: NUMATopologyFilter checks PCI devices too,
// TreeFilter everything in a tree.
func (n *nearMissSearch) reduce(m *NearMiss, h *nearHost) (others [][]Miss) {
	could := slices.DeleteFunc(slices.Clone(m.Misses), func(x Miss) bool { return !x.Changeable })
	if m.Changeable = len(could) > 0 && n.passes(could, h); !m.Changeable {
		if len(could) == len(m.Misses) {
			m.Cost += operatorCost
		}
		return nil
	}
	enough := n.least(could, h)
	m.Misses, m.Cost = enough[0], costOf(enough[0])
	return enough[1:]
}

// mostTried bounds the sets of misses that least tries for a host.
const mostTried = 64

// least gives the minimal sufficient subsets of a sufficient set of misses, the cheapest first. A subset of an
// insufficient set is insufficient. So if each miss alone is needed, the set itself is minimal. After mostTried sets
// it may miss some.
func (n *nearMissSearch) least(misses []Miss, h *nearHost) (enough [][]Miss) {
	tried := 0
	var try func(misses []Miss, from int)
	try = func(misses []Miss, from int) {
		needed := true
		for i := from; i < len(misses) && len(misses) > 1; i++ {
			if tried++; tried > mostTried && len(enough) > 0 {
				return
			}
			if fewer := slices.Delete(slices.Clone(misses), i, i+1); n.passes(fewer, h) {
				needed = false
				try(fewer, i)
			}
		}
		if needed {
			enough = append(enough, misses)
		}
	}
	try(misses, 0)
	slices.SortStableFunc(enough, func(a, b []Miss) int { return cmp.Compare(costOf(a), costOf(b)) })
	return enough
}

// passes reports whether a host would pass the request without some conditions.
func (n *nearMissSearch) passes(without []Miss, h *nearHost) bool {
	return h.passes(n.scanWithout(without))
}

// scanWithout compiles the request without some conditions; nil if it cannot be compiled, or was stopped.
func (n *nearMissSearch) scanWithout(without []Miss) *scan {
	if n.s.stop() {
		return nil
	}
	q := *n.s.q
	q.Request = q.Request.Relaxed(without)
	s, err := n.s.t.compile(&q, n.s.before)
	if err != nil {
		return nil
	}
	return s
}

// passes reports whether the host passes a scan of its table; false for nil.
func (h *nearHost) passes(s *scan) bool {
	one := *h.chunk
	one.valid = 1 << h.slot
	return s != nil && s.filter(h.at, &one) != 0
}

// conditions joins checks with equal filter and detail.
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
		if list[at].Bounds == nil {
			list[at].Bounds = n.bounds[i]
		}
		slices.SortStableFunc(list[at].Bounds, func(a, b BoundCount) int { return cmp.Compare(b.Hosts, a.Hosts) })
	}
	return list
}

// countBound counts the bound that an amount does not keep on a host.
func (n *nearMissSearch) countBound(check int, m *Miss) {
	list := n.bounds[check]
	at := slices.IndexFunc(list, func(b BoundCount) bool { return b.Bound == m.Bound })
	if at < 0 {
		n.bounds[check] = append(list, BoundCount{m.Bound, 1, m.BoundAt, m.Asked})
		return
	}
	b := &list[at]
	b.Hosts++
	if m.Bound == BoundFree || m.Bound == BoundMax {
		b.Nearest = max(b.Nearest, m.BoundAt)
	} else {
		b.Nearest = min(b.Nearest, m.BoundAt)
	}
}
