package merge

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"cellgate/schedule"
)

func testID(kind byte, n int) schedule.ID { return schedule.ID{kind, 15: byte(n)} }

// ramRules weigh by free RAM alone.
var ramRules = &schedule.Rules{Weighers: []schedule.Weigher{{Name: schedule.RAMWeigher, Multiplier: 1}}}

// ramProposal names hosts with these amounts of free RAM, best first. passed counts all hosts that
// pass, named or not.
func ramProposal(kind byte, passed int, seed uint64, free ...float64) *schedule.Proposal {
	p := &schedule.Proposal{Hosts: passed, Passed: passed, Bounds: []schedule.Bounds{schedule.NoBounds()}}
	for i, x := range free {
		id := testID(kind, i)
		p.Bounds[0] = schedule.Bounds{Min: 0, Max: max(p.Bounds[0].Max, x)}
		p.Candidates = append(p.Candidates, schedule.Candidate{
			Host: id, ServiceHost: fmt.Sprintf("%c%d", kind, i), Raw: []float64{x}, Tie: schedule.Tie(seed, schedule.HostHash(id)),
		})
	}
	return p
}

func ramPlan(cells, instances, maxRounds int) *Plan {
	cfg := Config{Request: &schedule.Request{}, Rules: ramRules, Cells: cells, MaxRounds: maxRounds}
	for i := range instances {
		cfg.Instances = append(cfg.Instances, testID('i', i))
	}
	return NewPlan(cfg)
}

func TestPlanRefusesWhatIsNoAnswer(t *testing.T) {
	good := func() *schedule.Proposal { return ramProposal('a', 2, 0, 9, 5) }
	for _, of := range []struct {
		want string
		cell int
		make func() *schedule.Proposal
	}{
		{"cell 2 was not asked", 2, good},
		{"cell -1 was not asked", -1, good},
		{"there is none", 0, func() *schedule.Proposal { return nil }},
		{"0 bounds for 1 weighers", 0, func() *schedule.Proposal { p := good(); p.Bounds = nil; return p }},
		{"bounds[0] are [+Inf, -Inf]", 0, func() *schedule.Proposal { p := good(); p.Bounds[0] = schedule.NoBounds(); return p }},
		{"bounds[0] are [0, NaN]", 0, func() *schedule.Proposal { p := good(); p.Bounds[0].Max = math.NaN(); return p }},
		{"2 candidates of 1 hosts", 0, func() *schedule.Proposal { p := good(); p.Passed = 1; return p }},
		{"0 candidates of 2 hosts", 0, func() *schedule.Proposal { p := good(); p.Candidates = nil; return p }},
		{"candidates[1]: 0 raw weights", 0, func() *schedule.Proposal { p := good(); p.Candidates[1].Raw = nil; return p }},
		{"raw weight 11 is outside", 0, func() *schedule.Proposal { p := good(); p.Candidates[1].Raw[0] = 11; return p }},
		{"raw weight NaN is outside", 0, func() *schedule.Proposal { p := good(); p.Candidates[1].Raw[0] = math.NaN(); return p }},
		{"candidates, 4 were asked", 0, func() *schedule.Proposal { return ramProposal('a', 5, 0, 9, 8, 7, 6, 5) }},
	} {
		p := ramPlan(2, 1, 0)
		err := p.Answer(of.cell, of.make())
		if err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("error %v, want %q", err, of.want)
		}
		if len(p.Next()) != 2 {
			t.Errorf("%s: %d asks are open after it, want 2", of.want, len(p.Next()))
		}
	}
}

func TestPlanAsksEachCellOnceARound(t *testing.T) {
	p := ramPlan(2, 1, 0)
	for range 2 {
		if n := len(p.Next()); n != 2 {
			t.Fatalf("%d asks are open, want 2 until they are answered", n)
		}
	}
	if err := p.Answer(1, ramProposal('b', 1, 0, 7)); err != nil {
		t.Fatal(err)
	}
	if err := p.Answer(1, ramProposal('b', 1, 0, 7)); err == nil {
		t.Error("a cell may answer twice")
	}
	if open := p.Next(); len(open) != 1 || open[0].Cell != 0 {
		t.Errorf("open are %v", open)
	}
	if err := p.Answer(0, ramProposal('a', 1, 0, 9)); err != nil {
		t.Fatal(err)
	}
	r := p.Result()
	if p.phase != done || r.Failed != -1 || !r.Exact || r.Rounds != 1 || r.Picks[0].Cell != 0 || r.Picks[0].Candidate.Weight != 1 {
		t.Errorf("result %+v", r)
	}
	if r.Known.Passed != 2 || r.Known.Bounds[0] != (schedule.Bounds{Min: 0, Max: 9}) {
		t.Errorf("known %+v", r.Known)
	}
}

func TestPlanOfNothing(t *testing.T) {
	if p := ramPlan(3, 0, 0); p.phase != done || len(p.Next()) != 0 || p.Result().Failed != -1 {
		t.Errorf("no instances: %+v", p.Result())
	}
	if p := ramPlan(0, 2, 0); p.phase != done || p.Result().Failed != 0 {
		t.Errorf("no cells: %+v", p.Result())
	}
	p := ramPlan(2, 2, 0)
	p.Lost(1)
	p.Lost(1)
	p.Lost(7)
	if p.phase == done {
		t.Error("done with a cell to answer")
	}
	p.Lost(0)
	if r := p.Result(); p.phase != done || r.Failed != 0 || len(r.Picks) != 0 || r.First[0] != nil {
		t.Errorf("all cells lost: %+v", r)
	}
}

// If each answer of a cell is of another state of its table, the plan never proves its pick.
func TestPlanGivesUpExactness(t *testing.T) {
	for _, most := range []int{1, 3} {
		p := NewPlan(Config{
			Request: &schedule.Request{}, Rules: &schedule.Rules{Weighers: []schedule.Weigher{{Name: schedule.RAMWeigher, Multiplier: 1}, {Name: schedule.DiskWeigher, Multiplier: 1}}},
			Instances: []schedule.ID{testID('i', 0)}, Cells: 2, MaxRounds: most,
		})
		rounds := 0
		for ; p.phase != done; rounds++ {
			for _, a := range p.Next() {
				top := 100 + float64(10*rounds+a.Cell)
				pr := ramProposal(byte('a'+a.Cell), 50, 0, top, top, top, top)
				pr.Bounds = append(pr.Bounds, schedule.Bounds{Min: 0, Max: 10})
				for i := range pr.Candidates {
					pr.Candidates[i].Raw = append(pr.Candidates[i].Raw, 0)
				}
				if err := p.Answer(a.Cell, pr); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := p.Result()
		if r.Exact || r.Rounds != most || rounds != most || len(r.Picks) != 1 {
			t.Errorf("at most %d rounds: took %d, result %+v", most, rounds, r)
		}
	}
}

// A cell may name fewer candidates than asked for. The plan asks it again only if the missing
// candidates matter.
func TestPlanWithCellsThatNameFew(t *testing.T) {
	cfg := Config{
		Request: &schedule.Request{}, Rules: ramRules, Cells: 1, Alternates: 2,
		Instances: []schedule.ID{testID('i', 0), testID('i', 1)},
	}
	p := NewPlan(cfg)
	asks := 0
	for ; p.phase != done; asks++ {
		if len(p.Next()) == 0 {
			t.Fatal("the plan is stuck")
		}
		if err := p.Answer(0, ramProposal('a', 9, 0, 90, 80)); err != nil {
			t.Fatal(err)
		}
	}
	r := p.Result()
	if r.Exact || len(r.Picks) != 2 || len(r.Picks[0].Alternates) != 1 {
		t.Errorf("result %+v", r)
	}
	if asks != 2+4 {
		t.Errorf("%d asks, want one a pick and the rounds of the alternates", asks)
	}
}

// If a cell is lost after the last answer, the plan starts again only if that cell has picks.
func TestPlanStartsAgainWithoutALostCell(t *testing.T) {
	answer := func(p *Plan) {
		for p.phase != done {
			for _, a := range p.Next() {
				free := float64(90 - 10*a.Cell - len(a.Query.TentativePlacements))
				if err := p.Answer(a.Cell, ramProposal(byte('a'+a.Cell), 1, 0, free)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	p := ramPlan(3, 2, 0)
	answer(p)
	if got := p.Result().Picks; got[0].Cell != 0 || got[1].Cell != 0 {
		t.Fatalf("picks %+v", got)
	}
	p.Lost(2)
	if p.phase != done || len(p.Result().Picks) != 2 {
		t.Error("a cell without picks undoes the plan")
	}
	p.Lost(0)
	if p.phase == done {
		t.Error("the picks on a lost cell stand")
	}
	answer(p)
	r := p.Result()
	if r.Picks[0].Cell != 1 || r.Picks[1].Cell != 1 || r.Known.Passed != 1 || r.Rounds != 1 || !r.Exact {
		t.Errorf("result %+v", r)
	}
}
