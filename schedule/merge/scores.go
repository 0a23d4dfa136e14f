package merge

import (
	"slices"

	"cellgate/schedule"
)

// Score is a weigher's contribution to a candidate's weight.
type Score struct {
	Weigher string
	// Multiplier is the rules' or the host's own, with the weigher's sign.
	Multiplier float64
	Raw        float64
	// Normalized is Raw within the bounds of all hosts that passed: 0 to 1.
	Normalized float64
	// Value is Multiplier * Normalized.
	Value float64
}

// Scores gives the parts of a candidate's weight under the statistics of all cells, by weigher in the rules' order.
// Added in this order, they are exactly its weight.
func Scores(rules *schedule.Rules, known *schedule.GlobalStats, c *schedule.Candidate) []Score {
	s := schedule.Scale{Weighers: rules.SignedWeighers(), Bounds: known.Bounds, Flat: known.Passed <= 1}
	list := make([]Score, len(s.Weighers))
	for i, w := range s.Weighers {
		list[i] = Score{Weigher: w.Name, Multiplier: s.Factor(i, c), Raw: c.Raw[i], Normalized: s.Normalized(i, c.Raw[i])}
		list[i].Value = list[i].Multiplier * list[i].Normalized
	}
	return list
}

// ScoreColumns are the inputs of candidates' scores, in columns.
type ScoreColumns struct {
	// By weigher. Multipliers have the weigher's sign. Weighers whose raw weights are equal on all hosts that passed
	// are left out: they add nothing.
	Weighers              []string
	Multipliers, Min, Max []float64
	// Raw is by candidate, then by weigher.
	Raw []float64
	// Own are the candidates' multipliers, in the order of Raw; nil if no candidate has its own.
	Own []float64
}

// ColumnsOf gives the inputs of several candidates' Scores: Normalized is (Raw - Min) / (Max - Min).
func ColumnsOf(rules *schedule.Rules, known *schedule.GlobalStats, candidates []Leader) ScoreColumns {
	var of ScoreColumns
	if known.Passed <= 1 {
		return of
	}
	s, n := schedule.Scale{Weighers: rules.SignedWeighers(), Bounds: known.Bounds}, len(known.Bounds)
	of = ScoreColumns{Weighers: make([]string, 0, n), Multipliers: make([]float64, 0, n), Min: make([]float64, 0, n), Max: make([]float64, 0, n)}
	for i, b := range known.Bounds {
		if b.Min != b.Max {
			w := &s.Weighers[i]
			of.Weighers, of.Multipliers = append(of.Weighers, w.Name), append(of.Multipliers, w.Sign*w.Multiplier)
			of.Min, of.Max = append(of.Min, b.Min), append(of.Max, b.Max)
		}
	}
	own := slices.ContainsFunc(candidates, func(c Leader) bool { return c.Candidate.Multipliers != nil })
	of.Raw = make([]float64, 0, len(candidates)*len(of.Weighers))
	for _, c := range candidates {
		for i, b := range known.Bounds {
			if b.Min == b.Max {
				continue
			}
			if of.Raw = append(of.Raw, c.Candidate.Raw[i]); own {
				of.Own = append(of.Own, s.Factor(i, c.Candidate))
			}
		}
	}
	return of
}
