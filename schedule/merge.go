package schedule

import "slices"

// scale computes weights from raw weights under some bounds, with exactly the operations, in the same order, that a
// table uses.
type scale struct {
	*multipliers
	bounds []Bounds
	// flat: at most one host passed in all cells, so nothing is weighed.
	flat bool
}

// multipliers are those of the rules, and each weigher's sign. BuildFailureWeigher negates its multiplier
// (nova/scheduler/weights/compute.py).
type multipliers struct {
	rules []float64
	signs []float64
	// zeroMin: the weigher's bounds begin at 0, whatever the least raw weight is.
	zeroMin []bool
}

func multipliersOf(weighers []Weigher) *multipliers {
	m := &multipliers{rules: make([]float64, len(weighers)), signs: make([]float64, len(weighers)), zeroMin: make([]bool, len(weighers))}
	for i, w := range weighers {
		m.rules[i], m.signs[i], m.zeroMin[i] = w.Multiplier, signOf(w.Name), weigherFromZero(w.Name)
	}
	return m
}

// normalised is x within the bounds of weigher i: 0 at Min, 1 at Max.
func (s scale) normalised(i int, x float64) float64 {
	b := s.bounds[i]
	if s.flat || b.Min == b.Max {
		return 0
	}
	return (x - b.Min) / (b.Max - b.Min)
}

// weight is a candidate's weight, by its own multipliers or the rules'.
func (s scale) weight(c *Candidate) float64 {
	of := s.rules
	if c.Multipliers != nil {
		of = c.Multipliers
	}
	sum := 0.0
	for i, x := range c.Raw {
		sum = float64(s.signs[i]*of[i]*s.normalised(i, x)) + sum
	}
	return sum
}

// same reports whether both scales give equal weights to every host that the answer may be about.
func (s scale) same(o scale, a *answer) bool {
	for i := range s.bounds {
		if low, high := a.factors(s, i); low == 0 && high == 0 {
			continue
		}
		b, c := s.bounds[i], o.bounds[i]
		idle := s.flat || b.Min == b.Max
		idleToo := o.flat || c.Min == c.Max
		if idle != idleToo || !idle && b != c {
			return false
		}
	}
	return true
}

// factors are the least and greatest factor of weigher i, over the hosts that passed in the cell.
func (a *answer) factors(s scale, i int) (low, high float64) {
	if a.Multipliers == nil {
		f := s.signs[i] * s.rules[i]
		return f, f
	}
	b := a.Multipliers[i]
	if s.signs[i] < 0 {
		return -b.Max, -b.Min
	}
	return b.Min, b.Max
}

// answer is a cell's newest proposal and the inputs that it was made with. It is never changed.
type answer struct {
	*Proposal
	// scale is the scale that the cell ranked by.
	scale scale
	// takes is how many picks the answer includes: those in the cell's query, and picks from the forecast.
	takes int
	// affinity are the hosts that it filtered by, sorted; only for hard affinity.
	affinity []string
	// now, passed and bounds are the candidates and totals after the picks from the forecast. gone marks candidates
	// that no longer pass. now has the order of Candidates; depth counts the picks of each, nil for none.
	now    []Candidate
	gone   []bool
	depth  []int
	passed int
	bounds []Bounds
}

func newAnswer(pr *Proposal, by scale, takes int) *answer {
	return &answer{Proposal: pr, scale: by, takes: takes, now: pr.Candidates, passed: pr.Passed, bounds: pr.Bounds}
}

// complete reports whether every host that passed is among the candidates.
func (a *answer) complete() bool { return a.Passed <= len(a.Candidates) }

// picked gives the answer after a pick of a host; nil if the forecast does not have that pick.
func (a *answer) picked(host ID) *answer {
	at := slices.IndexFunc(a.Candidates, func(c Candidate) bool { return c.Host == host })
	if a.Forecast == nil || at < 0 {
		return nil
	}
	next := *a
	if next.depth = slices.Clone(a.depth); next.depth == nil {
		next.depth = make([]int, len(a.Candidates))
	}
	next.depth[at]++
	n, step := next.depth[at], (*Step)(nil)
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
func (a *answer) widened() []Bounds {
	bounds := slices.Clone(a.Forecast.Rest)
	for _, step := range a.Forecast.Steps {
		if a.isGone(step.At) {
			continue
		}
		for i, x := range a.now[step.At].Raw {
			bounds[i] = bounds[i].and(Bounds{x, x})
		}
	}
	for i := range bounds {
		if a.scale.zeroMin[i] && a.passed > 0 {
			bounds[i].Min = 0
		}
	}
	return bounds
}

func (a *answer) isGone(at int) bool { return a.gone != nil && a.gone[at] }

// join adds up what all cells that answered reported. The picks' hosts count as group hosts, as in Nova, which
// appends them to the group's hosts (nova/scheduler/manager.py, _consume_selected_host).
func (p *Plan) join() GlobalStats {
	k := GlobalStats{Bounds: make([]Bounds, len(p.weighers.rules))}
	for i := range k.Bounds {
		k.Bounds[i] = NoBounds()
	}
	for c := range p.cells {
		a := p.cells[c].answer
		if a == nil {
			continue
		}
		k.Passed += int64(a.passed)
		for i, b := range a.bounds {
			if b.Min <= b.Max {
				k.Bounds[i] = k.Bounds[i].and(b)
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

// scaleUnder is the scale of one scheduler that knows k.
func (p *Plan) scaleUnder(k *GlobalStats) scale {
	return scale{multipliers: p.weighers, bounds: k.Bounds, flat: k.Passed <= 1}
}

// weighed gives cell c's candidates with their weights under s, best first. If the answer was filtered by other
// affinity hosts, only candidates on k's hosts are given. Do not change the list.
func (p *Plan) weighed(c int, s scale, k *GlobalStats) []Candidate {
	at := &p.cells[c]
	a := at.answer
	others := p.affinity && len(k.GroupHosts) > 0 && !slices.Equal(a.affinity, k.GroupHosts)
	if at.listed == a && at.scale.flat == s.flat && slices.Equal(at.scale.bounds, s.bounds) && !others {
		return at.list
	}
	list := make([]Candidate, 0, len(a.now))
	for i := range a.now {
		if !a.isGone(i) {
			list = append(list, a.now[i])
			last := &list[len(list)-1]
			last.Weight = s.weight(last)
		}
	}
	if others {
		list = slices.DeleteFunc(list, func(c Candidate) bool {
			_, in := slices.BinarySearch(k.GroupHosts, c.ServiceHost)
			return !in
		})
	}
	slices.SortFunc(list, compareCandidates)
	if at.listed = nil; !others {
		at.list, at.listed, at.scale = list, a, s
	}
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
