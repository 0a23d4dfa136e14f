package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// checkPicks compares a plan's picks with those of one scheduler over all hosts.
func checkPicks(t *rapid.T, s *schedule.Scenario, r *merge.Result, picks []schedule.NaivePick, failed int) {
	t.Helper()
	if !r.Exact || r.Failed != failed || len(r.Picks) != len(picks) {
		t.Fatalf("exact %v, failed %d, %d picks; one scheduler: failed %d, %d picks\n%v",
			r.Exact, r.Failed, len(r.Picks), failed, len(picks), s)
	}
	checkLeaders(t, s, r, picks)
	for i, p := range r.Picks {
		want := picks[i]
		if s.Cells[p.Cell] != want.Cell || !reflect.DeepEqual(p.Candidate, want.Candidate) {
			t.Fatalf("pick %d: cell %s\n%+v\none scheduler: cell %s\n%+v\n%v", i, s.Cells[p.Cell], p.Candidate, want.Cell, want.Candidate, s)
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
func checkLeaders(t *rapid.T, s *schedule.Scenario, r *merge.Result, picks []schedule.NaivePick) {
	t.Helper()
	if len(picks) == 0 {
		if len(r.Leaders) > 0 {
			t.Fatalf("leaders without a pick: %+v\n%v", r.Leaders, s)
		}
		return
	}
	if len(r.Leaders) == 0 || len(r.Leaders) > min(5, len(picks[0].Ranked)) {
		t.Fatalf("%d leaders of %d hosts\n%v", len(r.Leaders), len(picks[0].Ranked), s)
	}
	for i, l := range r.Leaders {
		if !reflect.DeepEqual(*l.Candidate, picks[0].Ranked[i]) {
			t.Fatalf("leader %d:\n%+v\none scheduler\n%+v\n%v", i, l.Candidate, picks[0].Ranked[i], s)
		}
	}
}

// checkProposals checks that a result's first proposals are of the state before the first pick.
func checkProposals(t *rapid.T, s *schedule.Scenario, r *merge.Result) {
	t.Helper()
	hosts, passed := 0, 0
	for c, pr := range r.First {
		if pr == nil || r.Last[c] == nil {
			t.Fatalf("cell %d has no proposal in the result", c)
		}
		hosts += pr.Hosts
		passed += pr.Passed
	}
	if hosts != len(s.Hosts) || int64(passed) != r.Known.Passed {
		t.Fatalf("first proposals are of %d hosts, %d passed; known %d passed of %d", hosts, passed, r.Known.Passed, len(s.Hosts))
	}
}

// wrongStats draws stats that do not match the fleet.
func wrongStats(t *rapid.T, s *schedule.Scenario, right *schedule.GlobalStats) *schedule.GlobalStats {
	k := &schedule.GlobalStats{Passed: rapid.Int64Range(0, 50).Draw(t, "expected passed")}
	if rapid.Bool().Draw(t, "bounds moved") {
		for _, b := range right.Bounds {
			b.Min += rapid.SampledFrom([]float64{0, -1, 5, 1000}).Draw(t, "min moved")
			b.Max += rapid.SampledFrom([]float64{0, -3, 1, 1000}).Draw(t, "max moved")
			k.Bounds = append(k.Bounds, b)
		}
	} else if rapid.Bool().Draw(t, "bounds of another shape") {
		k.Bounds = []schedule.Bounds{{0, 1}}
	}
	if rapid.Bool().Draw(t, "group expected") {
		k.GroupHostsKnown = true
		for _, h := range s.Hosts[:min(2, len(s.Hosts))] {
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
		cells  func(*schedule.Scenario) []schedule.Proposer
	}{
		{"naive cells", testlong.Or(400, 800), (*schedule.Scenario).NaiveCells},
		{"table cells", testlong.Or(1000, 2000), (*schedule.Scenario).TableCells},
	} {
		t.Run(of.name, func(t *testing.T) {
			schedule.PropChecks(t, of.checks)
			var none, right, wrong mergeShare
			rapid.Check(t, func(t *rapid.T) {
				s := schedule.DrawScenario(t)
				picks, failed := s.OneScheduler()
				cells := of.cells(s)
				rng := rand.New(rand.NewPCG(s.Seed, 1))
				run := func(share *mergeShare, expected *schedule.GlobalStats) *merge.Result {
					p := planOf(s, expected, 0)
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
	schedule.PropChecks(t, testlong.Or(1000, 2000))
	var share mergeShare
	rapid.Check(t, func(t *rapid.T) {
		s := schedule.DrawScenario(t)
		s.Request.Group = nil
		for i := range schedule.Evenly(0, 24).Draw(t, "more instances") {
			s.Instances = append(s.Instances, schedule.TestID('j', i))
		}
		picks, failed := s.OneScheduler()
		p := planOf(s, nil, 0)
		rounds, asks := drive(t, p, s.TableCells(), rand.New(rand.NewPCG(s.Seed, 1)))
		checkPicks(t, s, p.Result(), picks, failed)
		share.add(p.Result(), rounds, asks)
	})
	fmt.Printf("I5 many instances: %s\n", share.String())
}

// If a plan runs out of rounds, either it is marked as not exact and its picks still pass the
// filters, or its picks are right.
func TestI5_OutOfRoundsIsNotExact(t *testing.T) {
	norace.Skip(t, norace.Pure)
	schedule.PropChecks(t, 500)
	inexact := 0
	rapid.Check(t, func(t *rapid.T) {
		s := schedule.DrawScenario(t)
		p := planOf(s, nil, 1)
		drive(t, p, s.NaiveCells(), rand.New(rand.NewPCG(s.Seed, 1)))
		if !p.Result().Exact {
			inexact++
			var picks []schedule.ID
			for _, pick := range p.Result().Picks {
				picks = append(picks, pick.Candidate.Host)
			}
			if i := s.FirstRejected(picks); i >= 0 {
				t.Fatalf("pick %d does not pass\n%v", i, s)
			}
			return
		}
		picks, failed := s.OneScheduler()
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
	schedule.PropChecks(t, 2000)
	var before, between, picked, late int
	rapid.Check(t, func(t *rapid.T) {
		s := schedule.DrawScenario(t)
		cells, rng := s.NaiveCells(), rand.New(rand.NewPCG(s.Seed, 1))
		p := planOf(s, nil, 0)
		cell := schedule.Evenly(0, len(s.Cells)-1).Draw(t, "lost cell")
		at := schedule.Evenly(0, 6).Draw(t, "lost in round")
		reply := func(asks []merge.Ask) {
			for _, a := range asks {
				pr, _ := cells[a.Cell](&a.Query)
				if err := p.Answer(a.Cell, pr); err != nil {
					t.Fatal(err)
				}
			}
		}
		for round := 0; round < at && len(p.Next()) > 0; round++ {
			reply(p.Next())
		}
		if open := p.Next(); len(open) > 0 {
			reply(open[:schedule.Evenly(0, len(open)-1).Draw(t, "answered in that round")])
		}
		var known []string
		if p.Result().Last[cell] != nil {
			known = s.GroupHosts(cell)
		}
		made, onIt := p.Result().Picks, false
		for _, pick := range made {
			onIt = onIt || pick.Cell == cell
		}
		after := len(made)
		switch {
		case onIt:
			picked++
			after = 0
		case len(p.Next()) == 0:
			late++
			after = -1
		case after == 0:
			before++
		default:
			between++
		}
		p.Lost(cell)
		drive(t, p, cells, rng)
		picks, failed := s.OneSchedulerLosing(cell, known, after)
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
