package schedule

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// proposer answers queries as a cell does.
type proposer func(q *Query) (*Proposal, error)

// naiveCells gives for each of the scenario's cells an oracle that answers.
func (s *scenario) naiveCells() []proposer {
	cells := make([]proposer, len(s.cells))
	for c := range s.cells {
		hosts, consumers := s.cellHosts(c), s.cellConsumers(c)
		cells[c] = func(q *Query) (*Proposal, error) { return naivePropose(hosts, consumers, q), nil }
	}
	return cells
}

// tableCells gives for each of the scenario's cells a Table that answers.
func (s *scenario) tableCells() []proposer {
	cells := make([]proposer, len(s.cells))
	for c := range s.cells {
		e := NewTable().Edit()
		for _, h := range s.cellHosts(c) {
			e.PutHost(h)
		}
		for _, x := range s.cellConsumers(c) {
			x.put(e)
		}
		cells[c] = e.Table().Propose
	}
	return cells
}

func (s *scenario) plan(expected *GlobalStats, maxRounds int) *Plan {
	return NewPlan(PlanConfig{
		Request: s.request, Rules: s.rules, Seed: s.seed, Instances: s.instances,
		Cells: len(s.cells), Alternates: s.alternates, Expected: expected, MaxRounds: maxRounds,
	})
}

// testingT has the methods of *testing.T, *testing.B and *rapid.T that drive needs.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// drive asks the cells until the plan is done. It asks those of a round in an order drawn from rng,
// and returns the numbers of rounds and asks.
func drive(t testingT, p *Plan, cells []proposer, rng *rand.Rand) (rounds, asks int) {
	t.Helper()
	for ; p.phase != done; rounds++ {
		open := p.Next()
		if len(open) == 0 {
			t.Fatalf("the plan is not done and asks nothing")
		}
		asks += len(open)
		rng.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		for _, a := range open {
			pr, err := cells[a.Cell](&a.Query)
			if err != nil {
				t.Fatalf("cell %d: %v", a.Cell, err)
			}
			if err := p.Answer(a.Cell, pr); err != nil {
				t.Fatalf("%v", err)
			}
		}
	}
	return rounds, asks
}

// mergeShare sums up plans that expected the same kind of stats.
type mergeShare struct{ plans, oneRound, worst, picks, rounds, asks int }

func (m *mergeShare) add(r *Result, rounds, asks int) {
	m.plans++
	if r.Rounds == 1 {
		m.oneRound++
	}
	m.worst = max(m.worst, r.Rounds)
	m.picks += len(r.Picks)
	m.rounds += rounds
	m.asks += asks
}

func (m *mergeShare) String() string {
	return fmt.Sprintf("%d plans, first pick in one round %.1f%% (at most %d); %.2f rounds and %.1f asks a pick",
		m.plans, 100*float64(m.oneRound)/float64(m.plans), m.worst,
		float64(m.rounds)/float64(m.picks), float64(m.asks)/float64(m.picks))
}

// propChecks sets how many cases rapid tries in this test: -rapid.checks when
// given, else CELLGATE_PROP_CHECKS, else n.
func propChecks(t *testing.T, n int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	given := false
	flag.Visit(func(v *flag.Flag) { given = given || v.Name == f.Name })
	if given {
		return
	}
	value, before := fmt.Sprint(n), f.Value.String()
	if env := os.Getenv("CELLGATE_PROP_CHECKS"); env != "" {
		value = env
	}
	if err := f.Value.Set(value); err != nil {
		t.Fatalf("CELLGATE_PROP_CHECKS: %v", err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}
