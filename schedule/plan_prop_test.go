package schedule

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
)

// checkPicks compares a plan's picks with those of one scheduler over all hosts.
func checkPicks(t *rapid.T, s *scenario, r *Result, picks []naivePick, failed int) {
	t.Helper()
	if !r.Exact || r.Failed != failed || len(r.Picks) != len(picks) {
		t.Fatalf("exact %v, failed %d, %d picks; one scheduler: failed %d, %d picks\n%v",
			r.Exact, r.Failed, len(r.Picks), failed, len(picks), s)
	}
	checkLeaders(t, s, r, picks)
	for i, p := range r.Picks {
		want := picks[i]
		if s.cells[p.Cell] != want.Cell || !reflect.DeepEqual(p.Candidate, want.Candidate) {
			t.Fatalf("pick %d: cell %s\n%+v\none scheduler: cell %s\n%+v\n%v", i, s.cells[p.Cell], p.Candidate, want.Cell, want.Candidate, s)
		}
		if len(p.Alternates) != len(want.Alternates) {
			t.Fatalf("pick %d: %d alternates, one scheduler %d\n%v", i, len(p.Alternates), len(want.Alternates), s)
		}
		for j := range p.Alternates {
			if !reflect.DeepEqual(p.Alternates[j], want.Alternates[j]) {
				t.Fatalf("pick %d: alternate %d:\n%+v\none scheduler\n%+v\n%v", i, j, p.Alternates[j], want.Alternates[j], s)
			}
		}
	}
}

// checkLeaders compares the leaders with one scheduler's ranking before the first pick.
func checkLeaders(t *rapid.T, s *scenario, r *Result, picks []naivePick) {
	t.Helper()
	if len(picks) == 0 {
		if len(r.Leaders) > 0 {
			t.Fatalf("leaders without a pick: %+v\n%v", r.Leaders, s)
		}
		return
	}
	if len(r.Leaders) == 0 || len(r.Leaders) > min(mostLeaders, len(picks[0].Ranked)) {
		t.Fatalf("%d leaders of %d hosts\n%v", len(r.Leaders), len(picks[0].Ranked), s)
	}
	for i, l := range r.Leaders {
		if !reflect.DeepEqual(*l.Candidate, picks[0].Ranked[i]) {
			t.Fatalf("leader %d:\n%+v\none scheduler\n%+v\n%v", i, l.Candidate, picks[0].Ranked[i], s)
		}
	}
}

// checkProposals checks that a result's first proposals are of the state before the first pick.
func checkProposals(t *rapid.T, s *scenario, r *Result) {
	t.Helper()
	hosts, passed := 0, 0
	for c, pr := range r.First {
		if pr == nil || r.Last[c] == nil {
			t.Fatalf("cell %d has no proposal in the result", c)
		}
		hosts += pr.Hosts
		passed += pr.Passed
	}
	if hosts != len(s.hosts) || int64(passed) != r.Known.Passed {
		t.Fatalf("first proposals are of %d hosts, %d passed; known %d passed of %d", hosts, passed, r.Known.Passed, len(s.hosts))
	}
}

// wrongStats draws stats that do not match the fleet.
func wrongStats(t *rapid.T, s *scenario, right *GlobalStats) *GlobalStats {
	k := &GlobalStats{Passed: rapid.Int64Range(0, 50).Draw(t, "expected passed")}
	if rapid.Bool().Draw(t, "bounds moved") {
		for _, b := range right.Bounds {
			b.Min += rapid.SampledFrom([]float64{0, -1, 5, 1000}).Draw(t, "min moved")
			b.Max += rapid.SampledFrom([]float64{0, -3, 1, 1000}).Draw(t, "max moved")
			k.Bounds = append(k.Bounds, b)
		}
	} else if rapid.Bool().Draw(t, "bounds of another shape") {
		k.Bounds = []Bounds{{0, 1}}
	}
	if rapid.Bool().Draw(t, "group expected") {
		k.GroupHostsKnown = true
		for _, h := range s.hosts[:min(2, len(s.hosts))] {
			k.GroupHosts = append(k.GroupHosts, h.ServiceHost)
		}
	}
	return k
}

// The merged order is that of one scheduler over all hosts, whatever the split, the expected stats
// and the order of answers.
func TestI5_MergedOrderEqualsSingleScheduler(t *testing.T) {
	norace.Skip(t, norace.Pure)
	for _, of := range []struct {
		name   string
		checks int
		cells  func(*scenario) []proposer
	}{
		{"naive cells", testlong.Or(400, 800), (*scenario).naiveCells},
		{"table cells", testlong.Or(1000, 2000), (*scenario).tableCells},
	} {
		t.Run(of.name, func(t *testing.T) {
			propChecks(t, of.checks)
			var none, right, wrong mergeShare
			rapid.Check(t, func(t *rapid.T) {
				s := drawScenario(t)
				picks, failed := naiveSelect(s.hosts, s.consumers, s.request, s.rules, s.seed, s.instances, s.alternates)
				cells := of.cells(s)
				rng := rand.New(rand.NewPCG(s.seed, 1))
				run := func(share *mergeShare, expected *GlobalStats) *Result {
					p := s.plan(expected, 0)
					rounds, asks := drive(t, p, cells, rng)
					checkPicks(t, s, p.Result(), picks, failed)
					checkProposals(t, s, p.Result())
					share.add(p.Result(), rounds, asks)
					return p.Result()
				}
				known := run(&none, nil).Known
				run(&right, &known)
				run(&wrong, wrongStats(t, s, &known))
			})
			for _, line := range []string{"nothing expected: " + none.String(), "rightly expected: " + right.String(), "wrongly expected: " + wrong.String()} {
				fmt.Printf("I5 %s, %s\n", of.name, line)
				t.Log(line)
			}
		})
	}
}

// Requests for many instances, most of whose picks the cells forecast.
func TestI5_ManyInstancesEqualOneScheduler(t *testing.T) {
	norace.Skip(t, norace.Pure)
	propChecks(t, testlong.Or(1000, 2000))
	var share mergeShare
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		s.request.Group = nil
		for i := range evenly(0, 24).Draw(t, "more instances") {
			s.instances = append(s.instances, testID('j', i))
		}
		picks, failed := naiveSelect(s.hosts, s.consumers, s.request, s.rules, s.seed, s.instances, s.alternates)
		p := s.plan(nil, 0)
		rounds, asks := drive(t, p, s.tableCells(), rand.New(rand.NewPCG(s.seed, 1)))
		checkPicks(t, s, p.Result(), picks, failed)
		share.add(p.Result(), rounds, asks)
	})
	fmt.Printf("I5 many instances: %s\n", share.String())
}

// checkPass checks that each pick passed all filters when it was made.
func checkPass(t *rapid.T, s *scenario, r *Result) {
	t.Helper()
	state, rules := newNaiveState(s.hosts, s.consumers), naiveRules(s.rules)
	for i, p := range r.Picks {
		passed, _ := state.filter(s.request, rules, state.groupHosts(s.request))
		if !slices.ContainsFunc(passed, func(h *Host) bool { return h.UUID == p.Candidate.Host }) {
			t.Fatalf("pick %d: %s does not pass\n%v", i, p.Candidate.ServiceHost, s)
		}
		state.placeInstance(TentativePlacement{Host: p.Candidate.Host, Instance: s.instances[i]}, s.request)
	}
}

// If a plan runs out of rounds, either it is marked as not exact and its picks still pass the
// filters, or its picks are right.
func TestI5_OutOfRoundsIsNotExact(t *testing.T) {
	norace.Skip(t, norace.Pure)
	propChecks(t, 500)
	inexact := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		p := s.plan(nil, 1)
		drive(t, p, s.naiveCells(), rand.New(rand.NewPCG(s.seed, 1)))
		if !p.Result().Exact {
			inexact++
			checkPass(t, s, p.Result())
			return
		}
		picks, failed := naiveSelect(s.hosts, s.consumers, s.request, s.rules, s.seed, s.instances, s.alternates)
		checkPicks(t, s, p.Result(), picks, failed)
	})
	t.Logf("%d plans were not exact", inexact)
	if inexact == 0 {
		t.Error("no plan needed more than one round")
	}
}

// If a plan loses a cell without picks, it goes on like one scheduler that loses that cell's hosts.
// If the cell has picks, it starts again like one scheduler that never had these hosts.
func TestI5_LostCellEqualsSchedulerWithoutIt(t *testing.T) {
	norace.Skip(t, norace.Pure)
	propChecks(t, 2000)
	var before, between, picked, late int
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		cells, rng := s.naiveCells(), rand.New(rand.NewPCG(s.seed, 1))
		p := s.plan(nil, 0)
		cell := evenly(0, len(s.cells)-1).Draw(t, "lost cell")
		at := evenly(0, 6).Draw(t, "lost in round")
		reply := func(asks []Ask) {
			for _, a := range asks {
				pr, _ := cells[a.Cell](&a.Query)
				if err := p.Answer(a.Cell, pr); err != nil {
					t.Fatal(err)
				}
			}
		}
		for round := 0; round < at && p.phase != done; round++ {
			reply(p.Next())
		}
		if open := p.Next(); len(open) > 0 {
			reply(open[:evenly(0, len(open)-1).Draw(t, "answered in that round")])
		}
		known := s.groupHostsFrom(p, cell)
		made, onIt := p.Result().Picks, false
		for _, pick := range made {
			onIt = onIt || pick.Cell == cell
		}
		after := len(made)
		switch {
		case onIt:
			picked++
			after = 0
		case p.phase == done:
			late++
			after = -1
		case after == 0:
			before++
		default:
			between++
		}
		p.Lost(cell)
		drive(t, p, cells, rng)
		request := *s.request
		if g := request.Group; g != nil && known != nil {
			group := *g
			group.Hosts = append(slices.Clone(g.Hosts), known...)
			request.Group = &group
		}
		picks, failed := naiveSelectLosing(s.hosts, s.consumers, &request, s.rules, s.seed, s.instances, s.alternates, after, s.cells[cell])
		checkPicks(t, s, p.Result(), picks, failed)
		if r := p.Result(); r.First[cell] != nil || r.Last[cell] != nil {
			t.Fatal("the lost cell has a proposal")
		}
	})
	t.Logf("lost before the first pick %d, between picks %d, with picks %d, when done %d", before, between, picked, late)
	if before == 0 || between == 0 || picked == 0 || late == 0 {
		t.Error("some kind of loss was not tried")
	}
}

// groupHostsFrom are the service hosts of group members that a cell reported to the plan.
func (s *scenario) groupHostsFrom(p *Plan, cell int) []string {
	if p.Result().Last[cell] == nil || s.request.Group == nil {
		return nil
	}
	q := &Query{Request: s.request, Rules: s.rules, Limit: 1}
	var hosts []string
	for _, g := range naivePropose(s.cellHosts(cell), s.cellConsumers(cell), q).GroupHosts {
		hosts = append(hosts, g.ServiceHost)
	}
	return hosts
}
