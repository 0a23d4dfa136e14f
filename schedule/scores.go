package schedule

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
func ColumnsOf(rules *Rules, known *GlobalStats, candidates []Leader) ScoreColumns {
	var of ScoreColumns
	if known.Passed <= 1 {
		return of
	}
	weighers := rules.weighers()
	counting := make([]int, 0, len(weighers))
	numbers := make([]float64, 0, (3+len(candidates))*len(weighers))
	column := func(add func(weigher int)) []float64 {
		begin := len(numbers)
		for _, i := range counting {
			add(i)
		}
		return numbers[begin:len(numbers):len(numbers)]
	}
	for i, b := range known.Bounds {
		if b.Min != b.Max {
			counting, of.Weighers = append(counting, i), append(of.Weighers, weighers[i].Name)
		}
	}
	of.Multipliers = column(func(i int) { numbers = append(numbers, signOf(weighers[i].Name)*weighers[i].Multiplier) })
	of.Min = column(func(i int) { numbers = append(numbers, known.Bounds[i].Min) })
	of.Max = column(func(i int) { numbers = append(numbers, known.Bounds[i].Max) })
	begin := len(numbers)
	own := false
	for _, c := range candidates {
		own = own || c.Candidate.Multipliers != nil
		column(func(i int) { numbers = append(numbers, c.Candidate.Raw[i]) })
	}
	of.Raw = numbers[begin:]
	if !own {
		return of
	}
	for _, c := range candidates {
		for k, i := range counting {
			x := of.Multipliers[k]
			if c.Candidate.Multipliers != nil {
				x = signOf(weighers[i].Name) * c.Candidate.Multipliers[i]
			}
			of.Own = append(of.Own, x)
		}
	}
	return of
}
