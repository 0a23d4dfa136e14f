package schedule

// Scale turns raw weights into weights, as Nova does once it knows all hosts that passed. It does exactly the
// operations of a Table, in the same order: equal inputs give equal weights to the last bit.
type Scale struct {
	// Weighers and Bounds have one element for each of Rules.Weighers.
	Weighers []SignedWeigher
	Bounds   []Bounds
	// Flat: at most one host passed in all cells, so nothing is weighed and every weight is 0.
	Flat bool
}

// SignedWeigher is a weigher of the rules, with what its name says of its weights.
type SignedWeigher struct {
	Weigher
	// Sign is -1 for BuildFailureWeigher, whose multiplier Nova negates (nova/scheduler/weights/compute.py), else 1.
	Sign float64
	// FromZero: the bounds begin at 0 as soon as a host passes, whatever the least raw weight is.
	FromZero bool
}

// SignedWeighers are the rules' weighers, or the default ones, in order.
func (r *Rules) SignedWeighers() []SignedWeigher {
	named := r.weighers()
	list := make([]SignedWeigher, len(named))
	for i, w := range named {
		k := weighers[w.Name]
		list[i] = SignedWeigher{Weigher: w, Sign: k.sign(), FromZero: k.zeroMin}
	}
	return list
}

// Normalized is the raw weight x of weigher i within its bounds: 0 at Min, 1 at Max.
func (s *Scale) Normalized(i int, x float64) float64 {
	b := s.Bounds[i]
	if s.Flat || b.Min == b.Max {
		return 0
	}
	return (x - b.Min) / (b.Max - b.Min)
}

// Factor is what weigher i multiplies a candidate's normalized weight by: its sign, and the candidate's own
// multiplier or the rules'.
func (s *Scale) Factor(i int, c *Candidate) float64 {
	w := &s.Weighers[i]
	if c.Multipliers != nil {
		return w.Sign * c.Multipliers[i]
	}
	return w.Sign * w.Multiplier
}

// Weight is a candidate's weight.
func (s *Scale) Weight(c *Candidate) float64 {
	sum := 0.0
	for i, x := range c.Raw {
		sum = float64(s.Factor(i, c)*s.Normalized(i, x)) + sum
	}
	return sum
}
