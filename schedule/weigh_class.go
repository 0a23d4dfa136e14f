package schedule

import "slices"

// class is the hosts with one list of multipliers. The first class has those of the rules; others come from
// aggregates' metadata (nova/scheduler/utils.py, get_weight_multiplier).
type class struct {
	multipliers []float64 // one a weigher
	factors     []float64 // with the weighers' signs
	passed      bool      // some host of the class passed
	// active has a share for each active weigher, under the bounds to rank by; nil until it is needed.
	active []share
}

// share is a weigher's part of a host's weight: exactly factor * (x - min) / span, approximately slope * x +
// intercept.
type share struct {
	factor, min, span float64
	slope, intercept  float64
}

// setClasses makes the rules' class, and finds out whether any host may have other multipliers.
func (s *scan) setClasses() {
	rules := class{multipliers: make([]float64, len(s.weighers)), factors: make([]float64, len(s.weighers))}
	for i := range s.weighers {
		w := &s.weighers[i]
		rules.multipliers[i], rules.factors[i] = w.multiplier, w.sign*w.multiplier
		if s.t.names.metadata.id(w.override) >= 0 {
			s.overridden = append(s.overridden, i)
		}
	}
	s.classes = append(s.classes, rules)
	if s.varied = len(s.overridden) > 0; s.varied {
		s.ofSet = make([]int, s.t.names.overrides.n)
	}
}

// classOf gives the class of the hosts with these overrides. A value that is not a number overrides nothing.
func (s *scan) classOf(set *overrides) int {
	if !s.varied {
		return 0
	}
	if k := s.ofSet[set.id]; k != 0 {
		return k - 1
	}
	s.scratch = append(s.scratch[:0], s.classes[0].multipliers...)
	for _, i := range s.overridden {
		if o := set.find(s.weighers[i].override); o != nil && o.ok {
			s.scratch[i] = o.least
		}
	}
	k := slices.IndexFunc(s.classes, func(c class) bool { return slices.Equal(c.multipliers, s.scratch) })
	if k < 0 {
		k = len(s.classes)
		own := class{multipliers: slices.Clone(s.scratch), factors: slices.Clone(s.scratch)}
		for i := range own.factors {
			own.factors[i] *= s.weighers[i].sign
		}
		s.classes = append(s.classes, own)
	}
	s.ofSet[set.id] = k + 1
	return k
}

// prepare computes a class's shares for the bounds to rank by.
func (s *scan) prepare(k int) *class {
	c := &s.classes[k]
	if c.active != nil {
		return c
	}
	c.active = make([]share, len(s.active))
	for i, at := range s.active {
		w := &s.weighers[at]
		slope := c.factors[at] / w.span
		c.active[i] = share{factor: c.factors[at], min: w.min, span: w.span, slope: slope, intercept: -slope * w.min}
	}
	return c
}

// multipliers gives the bounds of the multipliers of the hosts that passed; nil if all have the rules'.
func (s *scan) multipliers() []Bounds {
	own := false
	for i := 1; i < len(s.classes); i++ {
		own = own || s.classes[i].passed
	}
	if !own {
		return nil
	}
	list := make([]Bounds, len(s.weighers))
	for i := range list {
		list[i] = NoBounds()
		for k := range s.classes {
			if c := &s.classes[k]; c.passed {
				list[i] = list[i].Union(Bounds{c.multipliers[i], c.multipliers[i]})
			}
		}
	}
	return list
}
