package schedule

// Score is what a weigher adds to a candidate's weight.
type Score struct {
	Weigher string
	// Multiplier is the rule's or the host's own, with the weigher's sign.
	Multiplier float64
	Raw        float64
	// Normalized is Raw within the bounds of all hosts that passed: 0 to 1.
	Normalized float64
	// Value is Multiplier * Normalized.
	Value float64
}

// Scores gives the parts of a candidate's weight under what is known of all cells, by weigher in the rules' order.
// Added up in this order they are its weight exactly.
func Scores(rules *Rules, known *GlobalStats, c *Candidate) []Score {
	weighers := rules.weighers()
	s := scale{multipliers: multipliersOf(weighers), bounds: known.Bounds, flat: known.Passed <= 1}
	of := s.rules
	if c.Multipliers != nil {
		of = c.Multipliers
	}
	list := make([]Score, len(weighers))
	for i, w := range weighers {
		list[i] = Score{Weigher: w.Name, Multiplier: s.signs[i] * of[i], Raw: c.Raw[i], Normalized: s.normalised(i, c.Raw[i])}
		list[i].Value = list[i].Multiplier * list[i].Normalized
	}
	return list
}
