package merge

import (
	"slices"

	"cellgate/schedule"
)

// answer is a cell's newest proposal and the inputs that it was made with. It is never changed.
type answer struct {
	*schedule.Proposal
	// scale is the scale that the cell ranked by.
	scale schedule.Scale
	// takes is how many picks the answer includes: those in the cell's query, and picks from the forecast.
	takes int
	// affinity are the hosts that it filtered by, sorted; only for hard affinity.
	affinity []string
	// now, passed and bounds are the candidates and totals after the picks from the forecast. gone marks candidates
	// that no longer pass. now has the order of Candidates; depth counts the picks of each, nil for none.
	now    []schedule.Candidate
	gone   []bool
	depth  []int
	passed int
	bounds []schedule.Bounds
}

// complete reports whether every host that passed is among the candidates.
func (a *answer) complete() bool { return a.Passed <= len(a.Candidates) }

// picked gives the answer after a pick of a host; nil if the forecast does not have that pick.
func (a *answer) picked(host schedule.ID) *answer {
	at := slices.IndexFunc(a.Candidates, func(c schedule.Candidate) bool { return c.Host == host })
	if a.Forecast == nil || at < 0 {
		return nil
	}
	next := *a
	if next.depth = slices.Clone(a.depth); next.depth == nil {
		next.depth = make([]int, len(a.Candidates))
	}
	next.depth[at]++
	n, step := next.depth[at], (*schedule.Step)(nil)
	for i := range a.Forecast.Steps {
		if a.Forecast.Steps[i].At != at {
			continue
		}
		if n--; n == 0 {
			step = &a.Forecast.Steps[i]
			break
		}
	}
	if step == nil {
		return nil
	}
	next.takes++
	if step.Passes {
		next.now = slices.Clone(a.now)
		next.now[at].Raw = step.Raw
	} else {
		if next.gone = slices.Clone(a.gone); next.gone == nil {
			next.gone = make([]bool, len(a.Candidates))
		}
		next.gone[at] = true
		next.passed--
	}
	next.bounds = next.widened()
	return &next
}

// widened are the bounds of the forecast's rest together with the candidates in its steps.
func (a *answer) widened() []schedule.Bounds {
	bounds := slices.Clone(a.Forecast.Rest)
	for _, step := range a.Forecast.Steps {
		if a.isGone(step.At) {
			continue
		}
		for i, x := range a.now[step.At].Raw {
			bounds[i] = bounds[i].Union(schedule.Bounds{Min: x, Max: x})
		}
	}
	for i := range bounds {
		if a.scale.Weighers[i].FromZero && a.passed > 0 {
			bounds[i].Min = 0
		}
	}
	return bounds
}

func (a *answer) isGone(at int) bool { return a.gone != nil && a.gone[at] }
