package schedule_test

import (
	"fmt"
	"math/rand/v2"

	"cellgate/schedule"
	"cellgate/schedule/merge"
)

func planOf(s *schedule.Scenario, expected *schedule.GlobalStats, maxRounds int) *merge.Plan {
	return merge.NewPlan(merge.Config{
		Request: s.Request, Rules: s.Rules, Seed: s.Seed, Instances: s.Instances,
		Cells: len(s.Cells), Alternates: s.Alternates, Expected: expected, MaxRounds: maxRounds,
	})
}

// testingT has the methods of *testing.T, *testing.B and *rapid.T that drive needs.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// drive asks the cells until the plan is done. It asks those of a round in an order drawn from rng,
// and returns the numbers of rounds and asks.
func drive(t testingT, p *merge.Plan, cells []schedule.Proposer, rng *rand.Rand) (rounds, asks int) {
	t.Helper()
	for open := p.Next(); len(open) > 0; open = p.Next() {
		rounds++
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

func (m *mergeShare) add(r *merge.Result, rounds, asks int) {
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
