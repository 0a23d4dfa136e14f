package schedule

import (
	"cmp"
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
	// Changes of the request let some host pass, each by itself; those of the least cost first. Each is of another kind: it has
	// conditions of which no cheaper one has a part alone. MostKinds at most.
	Changes []Change
	// Openings are set when the query asked for them, the least change first.
	Openings []Opening
}

// Change is a change of a request (Request.Relaxed with Misses). Cost is the sum of the Misses' costs, and Zone that of a host
// which passes then; empty where there are several.
type Change struct {
	Misses []Miss
	Cost   float64
	Zone   string
}

// Condition is one thing that a filter asks. Other than in Proposal.Rejects, a host counts under every condition
// that it does not meet.
type Condition struct {
	Filter, Detail string
	// Hosts do not meet it; Alone of them meet all other conditions.
	Hosts, Alone int
	// Bounds are of an amount: those of inventories that it does not keep, those of the most hosts first.
	Bounds []BoundCount
}

// BoundCount counts hosts on which an amount does not keep a bound of the inventory.
type BoundCount struct {
	Bound Bound
	Hosts int
	// Nearest is the bound on the host where it is nearest to what is Asked.
	Nearest, Asked int64
}

// Bound is what an inventory bounds amounts by, by Placement's names.
type Bound string

// The bounds. BoundFree is what is not used yet.
const (
	BoundFree Bound = "free"
	BoundMax  Bound = "max_unit"
	BoundMin  Bound = "min_unit"
	BoundStep Bound = "step_size"
)

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
	// Placed is how many instances of the request the host has already (Query.TentativePlacements).
	Placed int
}

// Miss is a condition that a host does not meet.
type Miss struct {
	Filter, Detail string
	// Asked, Most and MostWhenEmpty are set for ResourceFilter on one class: what the request asks, and the most that
	// would fit on the host now and on the empty host, up to Asked; 0 when nothing would. On a host that has instances
	// of the request (Query.TentativePlacements) it is the most for each of them and one more.
	Asked, Most, MostWhenEmpty int64
	// Bound is the one that Asked does not keep on the host, and BoundAt its value there.
	Bound   Bound
	BoundAt int64
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

// findNearMisses checks every host of the table against every condition of the query. Unlike Propose it does not stop
// at the first condition that a host does not meet. Errors are Propose's.
func (t *Table) findNearMisses(q *Query) (*NearMisses, error) {
	n, err := t.newNearMissSearch(q, 0)
	if err != nil {
		return nil, err
	}
	out := &NearMisses{Hosts: t.n}
	if out.Passed, err = n.search(); err != nil {
		return nil, err
	}
	near := n.nearMisses()
	out.Conditions, out.Nearest = n.conditions(), nearest(near, q.NearMisses)
	elsewhere, err := n.onOtherHosts()
	if err != nil {
		return nil, err
	}
	out.Changes = LeastOfEachKind(append(changesFrom(near), elsewhere...), MostKinds)
	if q.Openings > 0 {
		out.Openings, err = n.openings()
	}
	return out, err
}

// MostKinds is how many changes there are at most.
const MostKinds = 5

func changesFrom(near []NearMiss) (list []Change) {
	for i := range near {
		if m := &near[i]; m.Changeable {
			list = append(list, Change{m.Misses, m.Cost, m.Zone})
		}
	}
	return list
}

// onOtherHosts gives changes that let other hosts pass than those that the request names.
func (n *nearMissSearch) onOtherHosts() ([]Change, error) {
	named := Miss{Filter: HostFilter, Detail: namedHosts, Changeable: true}
	if !n.s.q.Request.canRelax(&named) {
		return nil, nil
	}
	q := *n.s.q
	q.Request, q.Known = q.Request.Relaxed([]Miss{named}), nil
	other, err := n.s.before.newNearMissSearch(&q, 0)
	if err != nil {
		return nil, err
	}
	passed, err := other.search()
	if err != nil || passed > 0 {
		return []Change{{Misses: []Miss{named}, Cost: named.cost()}}, err
	}
	list := changesFrom(other.nearMisses())
	for i := range list {
		list[i].Misses = append(slices.Clip(list[i].Misses), named)
		list[i].Cost += named.cost()
	}
	return list, nil
}

// LeastOfEachKind gives the changes of the least cost of each kind, most at most, in order of cost: those of which no
// cheaper one changes a part of the same conditions alone.
func LeastOfEachKind(list []Change, most int) (kept []Change) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), slices.CompareFunc(a.Misses, b.Misses, compareMisses))
	})
	for _, c := range list {
		if len(kept) < most && !slices.ContainsFunc(kept, func(k Change) bool { return sameConditions(c.Misses, k.Misses) }) {
			kept = append(kept, c)
		}
	}
	return kept
}

// sameConditions reports whether a change changes all conditions that another does. CPUs that are not more, and not dedicated
// any more, are the same.
func sameConditions(a, b []Miss) bool {
	return !slices.ContainsFunc(b, func(m Miss) bool {
		return !slices.ContainsFunc(a, func(x Miss) bool {
			return compareMisses(x, m) == 0 || m.Filter == ResourceFilter && x.Filter == ResourceFilter && x.Detail == fallbackClass[m.Detail] && x.Most <= m.Most
		})
	})
}
