package schedule

import (
	"cmp"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
)

// sameProposal fails unless two answers are equal to the bit. It ignores warnings, and the order of
// one filter's rejects and of group hosts.
func sameProposal(t failer, q *Query, got, want *Proposal) {
	normal := func(p *Proposal) Proposal {
		n := *p
		order := q.Rules.filters()
		n.Rejects, n.Warnings = slices.Clone(p.Rejects), nil
		for i := range n.Rejects {
			n.Rejects[i].Example, n.Rejects[i].Class, n.Rejects[i].Message = "", "", ""
		}
		slices.SortStableFunc(n.Rejects, func(a, b Reject) int {
			return cmp.Or(slices.Index(order, a.Filter)-slices.Index(order, b.Filter), strings.Compare(a.Detail, b.Detail))
		})
		n.GroupHosts = slices.Clone(p.GroupHosts)
		slices.SortFunc(n.GroupHosts, func(a, b GroupHost) int { return strings.Compare(string(a.Host[:]), string(b.Host[:])) })
		n.Candidates = slices.Clone(p.Candidates)
		for i := range n.Candidates {
			n.Candidates[i].Raw = append([]float64{}, p.Candidates[i].Raw...)
			if math.Signbit(n.Candidates[i].Weight) && n.Candidates[i].Weight == 0 {
				t.Fatalf("weight -0")
			}
		}
		n.Candidates = append([]Candidate{}, n.Candidates...)
		return n
	}
	g, w := normal(got), normal(want)
	if !reflect.DeepEqual(g, w) {
		t.Fatalf("query %+v\nrequest %+v\ngroup %+v\nrules %+v\nknown %+v\ngot  %+v\nwant %+v",
			q, *q.Request, q.Request.Group, *q.Rules, q.Known, g, w)
	}
}

func propose(t failer, table *Table, q *Query) *Proposal {
	p, err := table.Propose(q)
	if err != nil {
		t.Fatalf("Propose: %v", err)
	}
	return p
}

// The fast answer equals the naive one, to the bit.
func TestProposeIsNaive(t *testing.T) {
	norace.Skip(t, norace.Pure)
	var queries, some, known, taken, several int
	propChecks(t, 400)
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		table := f.table()
		for range 3 {
			q := drawQuery(t, f)
			got := propose(t, table, q)
			sameProposal(t, q, got, naivePropose(f.hosts, f.consumers, q))
			sum := got.Passed
			for _, r := range got.Rejects {
				sum += r.Hosts
			}
			if sum != len(f.hosts) || got.Hosts != len(f.hosts) {
				t.Fatalf("%d hosts: %d looked at, %d passed or rejected", len(f.hosts), got.Hosts, sum)
			}
			queries++
			some += bit2int(got.Passed > 0)
			known += bit2int(got.Passed > 0 && q.Known != nil && len(q.Known.Bounds) > 0)
			taken += bit2int(got.Passed > 0 && len(q.TentativePlacements) > 0)
			several += bit2int(got.Passed > q.Limit)
		}
	})
	t.Logf("%d queries: %d passed hosts, %d of them under known bounds, %d with takes, %d with more hosts than the limit",
		queries, some, known, taken, several)
	for _, n := range []int{some, known, taken, several} {
		if n == 0 { // the number is chance: every run draws other fleets
			t.Error("the fleets drawn show too little")
		}
	}
}

func bit2int(b bool) int { return int(bit(b)) }

// The first filter, in configured order, rejects a host.
func TestRejectsFollowConfiguredOrder(t *testing.T) {
	e := NewTable().Edit()
	e.PutHost(Host{UUID: fleetHost(0), ServiceHost: "a", Disabled: true, Down: true})
	table := e.Table()
	q := &Query{
		Request: &Request{Required: []string{"T"}, Resources: []Amount{{"VCPU", 1}}, IgnoreHosts: []string{"A"}},
		Rules:   &Rules{}, Limit: 1,
	}
	for _, c := range []struct {
		filters []string
		want    Reject
	}{
		{nil, Reject{Filter: HostFilter, Detail: "ignored", Hosts: 1}},
		{[]string{ComputeFilter, HostFilter}, Reject{Filter: ComputeFilter, Detail: "disabled", Hosts: 1}},
		{[]string{ResourceFilter, ComputeFilter}, Reject{Filter: HostFilter, Detail: "ignored", Hosts: 1}},
		{[]string{TraitFilter, ResourceFilter, HostFilter}, Reject{Filter: TraitFilter, Detail: "T", Hosts: 1}},
		{[]string{ResourceFilter, HostFilter}, Reject{Filter: ResourceFilter, Detail: "VCPU", Hosts: 1}},
	} {
		q.Rules.Filters = c.filters
		if got := propose(t, table, q).Rejects; !slices.Equal(got, []Reject{c.want}) {
			t.Errorf("filters %v: %v, want %v", c.filters, got, c.want)
		}
	}
}

// Weights computed by hand after Nova's weights.py. The two hosts have 1000 and 3000 MB of RAM
// free, 2 and 0 IO operations, 1 and 0 failed builds.
func TestWeightsByHand(t *testing.T) {
	e := NewTable().Edit()
	e.PutHost(Host{UUID: fleetHost(0), View: View{FreeRAMMB: 1000, NumIOOps: 2, FailedBuilds: 1, VCPUsTotal: 4, CPURatio: 2, VCPUsUsed: 3}})
	e.PutHost(Host{UUID: fleetHost(1), View: View{FreeRAMMB: 3000, FailedBuilds: 0, VCPUsTotal: 5, CPURatio: 1}})
	table := e.Table()
	for _, c := range []struct {
		weigher Weigher
		want    [2]float64
	}{
		{Weigher{RAMWeigher, 1}, [2]float64{1.0 / 3, 1}},
		{Weigher{RAMWeigher, -1}, [2]float64{-1.0 / 3, -1}},
		{Weigher{CPUWeigher, 2}, [2]float64{2, 2}}, // all equal: 1, since the minimum is 0
		{Weigher{DiskWeigher, 1}, [2]float64{0, 0}},
		{Weigher{IoOpsWeigher, -1}, [2]float64{-1, 0}},
		{Weigher{BuildFailureWeigher, 10}, [2]float64{-10, 0}},
		{Weigher{PCIWeigher, 1}, [2]float64{0, 0}}, // all equal without a minimum: 0
	} {
		p := propose(t, table, &Query{Request: &Request{}, Rules: &Rules{Weighers: []Weigher{c.weigher}}, Limit: 2})
		for _, got := range p.Candidates {
			i := slices.Index([]ID{fleetHost(0), fleetHost(1)}, got.Host)
			if got.Weight != c.want[i] {
				t.Errorf("%v: host %d weighs %v, want %v", c.weigher, i, got.Weight, c.want[i])
			}
		}
	}
}

func TestProposeRefusesBadQueries(t *testing.T) {
	ok := func() *Query { return &Query{Request: &Request{}, Rules: &Rules{}, Limit: 1} }
	if _, err := NewTable().Propose(ok()); err != nil {
		t.Fatalf("good query: %v", err)
	}
	for field, spoil := range map[string]func(*Query){
		"Request":                      func(q *Query) { q.Request = nil },
		"Rules":                        func(q *Query) { q.Rules = nil },
		"Limit":                        func(q *Query) { q.Limit = 0 },
		"Rules.Filters[1]":             func(q *Query) { q.Rules.Filters = []string{HostFilter, "NoFilter"} },
		"Rules.Weighers[0].Name":       func(q *Query) { q.Rules.Weighers = []Weigher{{"NoWeigher", 1}} },
		"Rules.Weighers[0].Multiplier": func(q *Query) { q.Rules.Weighers = []Weigher{{PCIWeigher, -1}} },
		"Rules.Weighers[1].Multiplier": func(q *Query) { q.Rules.Weighers = []Weigher{{RAMWeigher, 1}, {CPUWeigher, math.NaN()}} },
		"Known.Bounds":                 func(q *Query) { q.Known = &GlobalStats{Bounds: []Bounds{{0, 1}}} },
		"Known.Bounds[0]": func(q *Query) {
			q.Rules.Weighers, q.Known = []Weigher{{RAMWeigher, 1}}, &GlobalStats{Bounds: []Bounds{{0, math.Inf(1)}}}
		},
		"Request.Resources[0].N":     func(q *Query) { q.Request.Resources = []Amount{{"VCPU", 0}} },
		"Request.Resources[1].Class": func(q *Query) { q.Request.Resources = []Amount{{"VCPU", 1}, {"VCPU", 2}} },
		"Request.Group.Policy":       func(q *Query) { q.Request.Group = &Group{Policy: "near"} },
	} {
		q := ok()
		spoil(q)
		_, err := NewTable().Propose(q)
		var bad *QueryError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("error %v, want one about %s", err, field)
		}
	}
}

// An aggregate may name several zones, as Nova's AvailabilityZoneFilter reads it.
func TestZonesOfAnAggregate(t *testing.T) {
	for value, want := range map[string][]string{
		"az1": {"az1"}, " az1 , az2 ": {"az1", "az2"}, "az1,,az2,": {"az1", "az2"}, "": nil, " , ": nil,
	} {
		if got, zoned := ZonesOf(map[string]string{"availability_zone": value}); !slices.Equal(got, want) || !zoned {
			t.Errorf("%q names %q (zoned: %v), want %q", value, got, zoned, want)
		}
	}
	e := NewTable().Edit()
	e.PutHost(Host{UUID: testID('h', 1), ServiceHost: "h1", Aggregates: []Aggregate{{UUID: "a", Metadata: map[string]string{"availability_zone": "az1, az2"}}}})
	table := e.Table()
	for zone, passed := range map[string]int{"az1": 1, "az2": 1, "az1, az2": 0, "nova": 0} {
		p, err := table.Propose(&Query{Request: &Request{AvailabilityZone: zone}, Rules: &Rules{DefaultAvailabilityZone: "nova"}, Limit: 1})
		if err != nil || p.Passed != passed {
			t.Errorf("zone %q: %v passed, %v; want %d", zone, p, err, passed)
		}
	}
}
