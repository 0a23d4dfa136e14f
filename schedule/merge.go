package schedule

import (
	"math"
	"slices"
)

// scale turns raw weights into a weight under some bounds, with the very same
// operations, in the same order, that a table uses.
type scale struct {
	// factors are the multipliers with the weigher's own sign.
	factors []float64
	bounds  []Bounds
	// flat: one host passed in all cells, so nothing is weighed.
	flat bool
}

// factorsOf gives the multipliers as they count. BuildFailureWeigher turns its
// own around (nova/scheduler/weights/compute.py).
func factorsOf(weighers []Weigher) []float64 {
	f := make([]float64, len(weighers))
	for i, w := range weighers {
		f[i] = w.Multiplier
		if w.Name == BuildFailureWeigher {
			f[i] = -f[i]
		}
	}
	return f
}

// normalised is x within the bounds of weigher i: 0 at Min, 1 at Max.
func (s scale) normalised(i int, x float64) float64 {
	b := s.bounds[i]
	if s.flat || b.Min == b.Max {
		return 0
	}
	return (x - b.Min) / (b.Max - b.Min)
}

func (s scale) weight(raw []float64) float64 {
	sum := 0.0
	for i, x := range raw {
		sum = float64(s.factors[i]*s.normalised(i, x)) + sum
	}
	return sum
}

// same reports whether both give every host the same weight.
func (s scale) same(o scale) bool {
	for i, f := range s.factors {
		a, b := s.bounds[i], o.bounds[i]
		idle := s.flat || a.Min == a.Max
		idleToo := o.flat || b.Min == b.Max
		if f != 0 && (idle != idleToo || !idle && a != b) {
			return false
		}
	}
	return true
}

// answer is a cell's newest proposal and what it was made with.
type answer struct {
	*Proposal
	// scale the cell ranked by.
	scale scale
	// takes it counted in.
	takes int
	// affinity hosts it filtered by, sorted; only for hard affinity.
	affinity []string
}

// complete reports whether every host that passed is among the candidates.
func (a *answer) complete() bool { return a.Passed <= len(a.Candidates) }

// join adds up what all cells that answered know. The picks' hosts count as
// group hosts, as in Nova, which appends them to the group's
// (nova/scheduler/manager.py, _consume_selected_host).
func (p *Plan) join() Knowledge {
	k := Knowledge{Bounds: make([]Bounds, len(p.factors))}
	for i := range k.Bounds {
		k.Bounds[i] = Bounds{Min: math.Inf(1), Max: math.Inf(-1)}
	}
	for c := range p.cells {
		a := p.cells[c].answer
		if a == nil {
			continue
		}
		k.Passed += int64(a.Passed)
		for i, b := range a.Bounds {
			if b.Min <= b.Max {
				k.Bounds[i].Min = min(k.Bounds[i].Min, b.Min)
				k.Bounds[i].Max = max(k.Bounds[i].Max, b.Max)
			}
		}
	}
	if p.affinity || (p.cfg.Request.Group != nil && len(p.picks) == 0) {
		k.GroupHosts, k.GroupHostsKnown = p.joinGroup(), true
	}
	return k
}

func (p *Plan) joinGroup() []string {
	hosts := slices.Clone(p.cfg.Request.Group.Hosts)
	for c := range p.cells {
		group := p.cells[c].group
		if a := p.cells[c].answer; a != nil {
			group = a.GroupHosts
		}
		for _, g := range group {
			hosts = append(hosts, g.ServiceHost)
		}
	}
	for _, pick := range p.picks {
		hosts = append(hosts, pick.Candidate.ServiceHost)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// scaleUnder is how one scheduler that knows k weighs.
func (p *Plan) scaleUnder(k *Knowledge) scale {
	return scale{factors: p.factors, bounds: k.Bounds, flat: k.Passed <= 1}
}

// weighed gives cell c's candidates with their weights under s, best first. Of
// an answer that was filtered by other affinity hosts, those that k's allow.
func (p *Plan) weighed(c int, s scale, k *Knowledge) []Candidate {
	a := p.cells[c].answer
	list := slices.Clone(a.Candidates)
	for i := range list {
		list[i].Weight = s.weight(list[i].Raw)
	}
	if p.affinity && len(k.GroupHosts) > 0 && !slices.Equal(a.affinity, k.GroupHosts) {
		list = slices.DeleteFunc(list, func(c Candidate) bool {
			_, in := slices.BinarySearch(k.GroupHosts, c.ServiceHost)
			return !in
		})
	}
	slices.SortFunc(list, compareCandidates)
	return list
}

func compareCandidates(a, b Candidate) int {
	switch {
	case a.Host == b.Host:
		return 0
	case a.Better(&b):
		return -1
	}
	return 1
}
