package merge

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cellgate/schedule"
)

// fits returns an error if pr cannot be an answer to q.
func (p *Plan) fits(q *schedule.Query, pr *schedule.Proposal) error {
	switch {
	case pr == nil:
		return errors.New("there is none")
	case len(pr.Bounds) != len(p.weighers):
		return fmt.Errorf("%d bounds for %d weighers", len(pr.Bounds), len(p.weighers))
	case pr.Passed < len(pr.Candidates) || pr.Passed > 0 && len(pr.Candidates) == 0:
		return fmt.Errorf("%d candidates of %d hosts that passed", len(pr.Candidates), pr.Passed)
	case len(pr.Candidates) > q.Limit:
		return fmt.Errorf("%d candidates, %d were asked", len(pr.Candidates), q.Limit)
	case pr.Multipliers != nil && len(pr.Multipliers) != len(p.weighers):
		return fmt.Errorf("%d multipliers for %d weighers", len(pr.Multipliers), len(p.weighers))
	}
	for i, b := range pr.Multipliers {
		if !finite(b) {
			return fmt.Errorf("multipliers[%d] are [%v, %v]", i, b.Min, b.Max)
		}
	}
	for i, b := range pr.Bounds {
		if pr.Passed > 0 && !finite(b) {
			return fmt.Errorf("bounds[%d] are [%v, %v]", i, b.Min, b.Max)
		}
	}
	if err := p.checkForecast(pr); err != nil {
		return err
	}
	for i := range pr.Candidates {
		if len(pr.Candidates[i].Raw) != len(p.weighers) {
			return fmt.Errorf("candidates[%d]: %d raw weights for %d weighers", i, len(pr.Candidates[i].Raw), len(p.weighers))
		}
		for j, x := range pr.Candidates[i].Raw {
			if math.IsNaN(x) || x < pr.Bounds[j].Min || x > pr.Bounds[j].Max {
				return fmt.Errorf("candidates[%d]: raw weight %v is outside of bounds[%d]", i, x, j)
			}
		}
		if err := multipliersFit(pr, i); err != nil {
			return err
		}
	}
	return nil
}

// checkForecast returns an error if a proposal's forecast is invalid.
func (p *Plan) checkForecast(pr *schedule.Proposal) error {
	if pr.Forecast == nil {
		return nil
	}
	if len(pr.Forecast.Rest) != len(p.weighers) {
		return fmt.Errorf("forecast: %d bounds for %d weighers", len(pr.Forecast.Rest), len(p.weighers))
	}
	for i, step := range pr.Forecast.Steps {
		if step.At < 0 || step.At >= len(pr.Candidates) {
			return fmt.Errorf("forecast.steps[%d]: there is no candidate %d", i, step.At)
		}
		if step.Passes && len(step.Raw) != len(p.weighers) {
			return fmt.Errorf("forecast.steps[%d]: %d raw weights for %d weighers", i, len(step.Raw), len(p.weighers))
		}
		if slices.ContainsFunc(step.Raw, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			return fmt.Errorf("forecast.steps[%d]: raw weights must be numbers", i)
		}
	}
	return nil
}

// multipliersFit returns an error if a candidate's own multipliers are invalid.
func multipliersFit(pr *schedule.Proposal, i int) error {
	own := pr.Candidates[i].Multipliers
	if own == nil {
		return nil
	}
	if len(own) != len(pr.Multipliers) {
		return fmt.Errorf("candidates[%d]: %d multipliers, the cell's hosts have %d", i, len(own), len(pr.Multipliers))
	}
	for j, m := range own {
		if math.IsNaN(m) || m < pr.Multipliers[j].Min || m > pr.Multipliers[j].Max {
			return fmt.Errorf("candidates[%d]: multiplier %v is outside of multipliers[%d]", i, m, j)
		}
	}
	return nil
}

func finite(b schedule.Bounds) bool {
	return b.Min <= b.Max && !math.IsInf(b.Min, 0) && !math.IsInf(b.Max, 0)
}
