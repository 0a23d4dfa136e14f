package schedule

import "slices"

// spare is how many candidates are asked beyond those needed: the last one
// named then lies further behind, and proves more (answer.below).
const spare = 3

// advance goes on for as long as no ask is open:
//
//  1. Cells that never answered are asked under the hint.
//  2. Cells whose answer lacks takes, or was filtered by other affinity hosts
//     than those now known, are asked under what is known.
//  3. All answers are true now, and so is what they say together. The best
//     candidate under it is the pick, unless a cell may hold a better one that
//     it did not name: such cells are asked again, under what is now known.
//  4. The pick's host is taken, and the next instance starts at 2.
//  5. With several instances, alternates are chosen after all picks, in the
//     same way.
func (p *Plan) advance() {
	for p.open == 0 && (p.phase != done || p.restart) {
		if p.restart {
			p.startAgain()
		}
		switch {
		case len(p.cfg.Instances) == 0:
			p.phase = done
		case p.askMissing():
		case p.phase == choosingAlternates:
			p.stepAlternates()
		default:
			p.stepPick()
		}
	}
}

// startAgain drops all picks. The answers from before the first one still hold.
func (p *Plan) startAgain() {
	for c := range p.cells {
		at := &p.cells[c]
		at.takes, at.answer = nil, at.first
	}
	p.picks, p.phase, p.failed, p.rounds, p.restart = nil, picking, -1, 0, false
	p.result.Exact = true
}

// stepPick asks what the next pick needs, or makes it.
func (p *Plan) stepPick() {
	k := p.join()
	if p.askStale(&k) {
		return
	}
	s := p.scaleUnder(&k)
	lists := p.lists(s, &k)
	winner := -1
	for c, list := range lists {
		if len(list) > 0 && (winner < 0 || list[0].Better(&lists[winner][0])) {
			winner = c
		}
	}
	alternates := 0
	if len(p.cfg.Instances) == 1 {
		alternates = p.cfg.Alternates
	}
	again := p.cellsWhere(func(c int) bool {
		a := p.cells[c].answer
		if winner < 0 {
			return a.Passed > 0
		}
		needed := &lists[winner][0]
		if c == winner && alternates > 0 {
			if len(lists[c]) <= alternates && !a.complete() {
				return true
			}
			needed = &lists[c][min(alternates, len(lists[c])-1)]
		}
		return !a.below(needed, s)
	})
	if p.askAgain(again, &k) {
		return
	}
	p.pick(winner, lists, alternates, &k)
}

// pick takes the best candidate of the winning cell; -1: none.
func (p *Plan) pick(winner int, lists [][]Candidate, alternates int, k *Knowledge) {
	if len(p.picks) == 0 {
		p.result.Rounds += p.rounds
		p.result.Known = *k
		for c := range p.cells {
			p.cells[c].first = p.cells[c].answer
		}
	}
	p.rounds = 0
	if winner < 0 {
		p.failed, p.phase = len(p.picks), done
		return
	}
	best := lists[winner]
	pick := Pick{Cell: winner, Candidate: best[0]}
	if n := min(alternates, len(best)-1); n > 0 {
		pick.Alternates = best[1 : 1+n : 1+n]
	}
	at := &p.cells[winner]
	at.takes = append(at.takes, Take{Host: best[0].Host, Instance: p.cfg.Instances[len(p.picks)]})
	p.picks = append(p.picks, pick)
	if len(p.picks) < len(p.cfg.Instances) {
		return
	}
	p.phase = done
	if len(p.picks) > 1 && p.cfg.Alternates > 0 {
		p.phase = choosingAlternates
	}
}

// stepAlternates asks what the alternates of all picks need, or chooses them.
func (p *Plan) stepAlternates() {
	k := p.join()
	if p.askStale(&k) {
		return
	}
	s := p.scaleUnder(&k)
	lists := p.lists(s, &k)
	again := p.cellsWhere(func(c int) bool {
		return len(p.cells[c].takes) > 0 && p.lacksAlternates(c, lists[c], s)
	})
	if p.askAgain(again, &k) {
		return
	}
	free := make([][]Candidate, len(lists))
	for i := range p.picks {
		c := p.picks[i].Cell
		if free[c] == nil {
			free[c] = p.unpicked(c, lists[c])
		}
		p.picks[i].Alternates = slices.Clip(free[c][:min(p.cfg.Alternates, len(free[c]))])
	}
	p.phase = done
}

// lacksAlternates reports whether a host that cell c did not name could be
// among its alternates.
func (p *Plan) lacksAlternates(c int, list []Candidate, s scale) bool {
	a := p.cells[c].answer
	free := p.unpicked(c, list)
	if len(free) < p.cfg.Alternates {
		return !a.complete()
	}
	return !a.below(&free[p.cfg.Alternates-1], s)
}

// unpicked are the candidates of cell c that no instance was picked for.
func (p *Plan) unpicked(c int, list []Candidate) []Candidate {
	picked := p.picked(c)
	return slices.DeleteFunc(slices.Clone(list), func(x Candidate) bool { return picked[x.Host] })
}

func (p *Plan) picked(c int) map[ID]bool {
	hosts := make(map[ID]bool, len(p.cells[c].takes))
	for _, t := range p.cells[c].takes {
		hosts[t.Host] = true
	}
	return hosts
}

// lists gives each cell's candidates under s, best first.
func (p *Plan) lists(s scale, k *Knowledge) [][]Candidate {
	lists := make([][]Candidate, len(p.cells))
	for c := range p.cells {
		if p.cells[c].answer != nil {
			lists[c] = p.weighed(c, s, k)
		}
	}
	return lists
}

// cellsWhere lists the cells that answered and of which f is true.
func (p *Plan) cellsWhere(f func(c int) bool) []int {
	var cells []int
	for c := range p.cells {
		if p.cells[c].answer != nil && f(c) {
			cells = append(cells, c)
		}
	}
	return cells
}
