package schedule

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
	// Openings are set when the query asked for them, the least change first.
	Openings []Opening
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
	// Placed is how many instances of the request the host has already (Query.Takes).
	Placed int
}

// Miss is a condition that a host does not meet.
type Miss struct {
	Filter, Detail string
	// Asked, Most and MostWhenEmpty are set for ResourceFilter on one class: what the request asks, and the most that
	// would fit on the host now and on the empty host, up to Asked; 0 when nothing would. On a host that has instances
	// of the request (Query.Takes) it is the most for each of them and one more.
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

// findNearMisses looks at every host of the table with every condition of the query. Unlike Propose it does not stop
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
	out.Conditions, out.Nearest = n.conditions(), n.nearest(q.NearMisses)
	if q.Openings > 0 {
		out.Openings, err = n.openings()
	}
	return out, err
}
