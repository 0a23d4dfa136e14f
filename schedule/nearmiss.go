package schedule

import (
	"cmp"
	"slices"
)

// NearMisses say why the hosts of a table do not pass a query, and which changes would let some pass.
type NearMisses struct {
	// Hosts is how many were judged, Passed how many of them passed.
	Hosts  int
	Passed int
	// Conditions are those that some host does not meet, in filter order.
	Conditions []Condition
	// Nearest are hosts that do not pass; those that the least change would let pass come first. Of hosts with the
	// same Misses, amounts aside, only the nearest is listed. Hosts that the request itself leaves out (HostFilter)
	// are not.
	Nearest []NearMiss
	// Changes are changes of the request, each of which alone lets some host pass, in order of cost. Each is of
	// another kind: no cheaper change drops only some of its conditions. MostKinds at most.
	Changes []Change
}

// Change is a change of a request (Request.Relaxed with Misses). Cost is the sum of the Misses' costs. Zone is the
// zone of a host that then passes; empty if there are several.
type Change struct {
	Misses []Miss
	Cost   float64
	Zone   string
}

// Condition is one requirement of a filter. Unlike in Proposal.Rejects, a host counts under every condition that it
// does not meet.
type Condition struct {
	Filter, Detail string
	// Hosts is how many hosts do not meet it; Alone is how many of them meet all other conditions.
	Hosts, Alone int
	// Bounds, for an amount, are the bounds of inventories that the amount does not keep, those of the most hosts
	// first.
	Bounds []BoundCount
}

// BoundCount counts hosts where an amount does not keep a bound of the inventory.
type BoundCount struct {
	Bound Bound
	Hosts int
	// Nearest is the bound's value on the host where it is nearest to Asked, the requested amount.
	Nearest, Asked int64
}

// Bound is a field of an inventory that bounds amounts, by Placement's names.
type Bound string

// The bounds. BoundFree is the unused amount.
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
	// Misses, in filter order, are what keeps the host from passing. If Changeable, none of them can be left out.
	Misses []Miss
	// Cost is the sum of the Misses' costs (Miss.cost); Nearest is in its order.
	Cost float64
	// Changeable: the changed request (Request.Relaxed with Misses) would pass. Else operators would have to act:
	// enable a host, free room, add a host to an aggregate.
	Changeable bool
	// Alike is how many hosts have the same Misses, amounts aside, this one included.
	Alike int
}

// Miss is a condition that a host does not meet.
type Miss struct {
	Filter, Detail string
	// Asked, Most and MostWhenEmpty are set for ResourceFilter on one class. Asked is the requested amount. Most is
	// the greatest amount up to Asked that fits on the host now, MostWhenEmpty on the empty host; 0 for none.
	Asked, Most, MostWhenEmpty int64
	// Bound is the bound of the host that Asked does not keep, BoundAt its value.
	Bound   Bound
	BoundAt int64
	// Changeable: the request could do without the condition.
	Changeable bool
}

// operatorCost is higher than the cost of all conditions that a request can change.
const operatorCost = 1000

// cost of an amount is the missing part of it, 0 to 1; of another condition 1; of a condition that the request cannot
// change operatorCost.
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
// at the first condition that a host does not meet. It has the errors of Propose.
func (t *Table) findNearMisses(q *Query) (*NearMisses, error) {
	n, err := t.newNearMissSearch(q)
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
	return out, nil
}

// MostKinds bounds the number of changes.
const MostKinds = 5

func changesFrom(near []NearMiss) (list []Change) {
	for i := range near {
		if m := &near[i]; m.Changeable {
			list = append(list, Change{m.Misses, m.Cost, m.Zone})
		}
	}
	return list
}

// onOtherHosts gives changes that let hosts pass other than those that the request names.
func (n *nearMissSearch) onOtherHosts() ([]Change, error) {
	named := Miss{Filter: HostFilter, Detail: namedHosts, Changeable: true}
	if !n.s.q.Request.canRelax(&named) {
		return nil, nil
	}
	q := *n.s.q
	q.Request, q.Known = q.Request.Relaxed([]Miss{named}), nil
	other, err := n.s.before.newNearMissSearch(&q)
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

// LeastOfEachKind gives the cheapest change of each kind, at most most, in order of cost. It leaves out a change if a
// cheaper one changes only some of the same conditions.
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

func compareMisses(a, b Miss) int {
	return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Detail, b.Detail))
}

func costOf(misses []Miss) float64 {
	sum := 0.0
	for i := range misses {
		sum += misses[i].cost()
	}
	return sum
}

// sameConditions reports whether change a includes all conditions of change b. Asking for no more CPUs, no longer
// dedicated, counts as the same condition.
func sameConditions(a, b []Miss) bool {
	return !slices.ContainsFunc(b, func(m Miss) bool {
		return !slices.ContainsFunc(a, func(x Miss) bool {
			return compareMisses(x, m) == 0 || m.Filter == ResourceFilter && x.Filter == ResourceFilter && x.Detail == fallbackClass[m.Detail] && x.Most <= m.Most
		})
	})
}
