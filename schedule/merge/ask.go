package merge

import (
	"slices"

	"cellgate/schedule"
)

// askMissing asks the cells that never answered, under the expected statistics.
func (p *Plan) askMissing() bool {
	var missing []int
	for c := range p.cells {
		if !p.cells[c].lost && p.cells[c].answer == nil {
			missing = append(missing, c)
		}
	}
	p.ask(missing, p.expected())
	return len(missing) > 0
}

// askStale asks the cells whose answers are out of date after the picks: they lack picks, or were filtered by other
// affinity hosts. k, the best guess, is what they rank by.
func (p *Plan) askStale(k *schedule.GlobalStats) bool {
	stale := p.cellsWhere(func(c int) bool {
		at := &p.cells[c]
		if at.answer.takes != len(at.takes) || p.affinity && !slices.Equal(at.answer.affinity, k.GroupHosts) {
			return true
		}
		// It listed too few candidates for the alternates: asking now saves a round.
		return p.phase == choosingAlternates && len(at.takes) > 0 &&
			!at.answer.complete() && len(at.answer.Candidates) < p.needed(c)
	})
	return p.askAgain(stale, k)
}

// askAgain asks cells under k. It does nothing if there are none or the rounds are used up; then the plan goes on
// with the answers that it has, and is no longer Exact.
func (p *Plan) askAgain(cells []int, k *schedule.GlobalStats) bool {
	if len(cells) == 0 {
		return false
	}
	if p.rounds >= p.cfg.MaxRounds {
		p.result.Exact = false
		return false
	}
	p.ask(cells, p.statsForCells(k))
	return true
}

func (p *Plan) ask(cells []int, known *schedule.GlobalStats) {
	if len(cells) == 0 {
		return
	}
	p.rounds++
	forecast := p.forecast(len(cells))
	for _, c := range cells {
		takes := p.cells[c].takes
		p.cells[c].open = &Ask{Cell: c, Query: schedule.Query{
			Request:             p.cfg.Request,
			Rules:               p.cfg.Rules,
			Seed:                p.cfg.Seed,
			Limit:               p.needed(c) + spare + forecast,
			Known:               known,
			TentativePlacements: takes[:len(takes):len(takes)],
			// The picks are probably spread over the cells asked.
			Forecast: forecast,
		}}
	}
	p.open = len(cells)
}

// mostForetold bounds the picks in one forecast.
const mostForetold = 16

// forecast is how many picks each of so many cells should forecast: its share of those left, and one more.
func (p *Plan) forecast(cells int) int {
	left := len(p.cfg.Instances) - len(p.result.Picks)
	if left < 2 || p.phase != picking || p.cfg.Request.Group != nil {
		return 0
	}
	return min(left, (left+cells-1)/cells+1, mostForetold)
}

// needed is how many of a cell's best hosts matter: the pick and its alternates. After several picks it is the
// alternates, and the picked hosts that may rank before them.
func (p *Plan) needed(c int) int {
	switch {
	case p.phase == choosingAlternates && len(p.cells[c].takes) > 0:
		return p.cfg.Alternates + len(p.picked(c))
	case len(p.cfg.Instances) == 1:
		return p.cfg.Rules.SubsetSize() + max(0, p.cfg.Alternates)
	}
	return p.cfg.Rules.SubsetSize()
}

// statsForCells is the part of k that asks include; nil for nothing. If at most one host passed in all, the bounds
// say nothing about others.
func (p *Plan) statsForCells(k *schedule.GlobalStats) *schedule.GlobalStats {
	var t schedule.GlobalStats
	if k.Passed > 1 && len(k.Bounds) == len(p.weighers) {
		t.Bounds, t.Passed = k.Bounds, k.Passed
	}
	if p.affinity && k.GroupHostsKnown {
		t.GroupHosts, t.GroupHostsKnown = k.GroupHosts, true
	}
	if t.Bounds == nil && !t.GroupHostsKnown {
		return nil
	}
	return &t
}

// expected is what the first asks include: the caller's expectation, as far as it is plausible.
func (p *Plan) expected() *schedule.GlobalStats {
	if p.cfg.Expected == nil {
		return nil
	}
	h := *p.cfg.Expected
	if slices.ContainsFunc(h.Bounds, func(b schedule.Bounds) bool { return !finite(b) }) {
		h.Bounds = nil
	}
	h.GroupHosts = slices.Clone(h.GroupHosts)
	slices.Sort(h.GroupHosts)
	h.GroupHosts = slices.Compact(h.GroupHosts)
	return p.statsForCells(&h)
}
