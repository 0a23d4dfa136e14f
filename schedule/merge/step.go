package merge

import (
	"slices"

	"cellgate/schedule"
)

// spare is the number of candidates requested beyond those needed: a lower last candidate proves more about the hosts
// that were not returned (answer.below).
const spare = 3

// advance runs the plan while no ask is open:
//
//  1. Cells that never answered are asked under the expected statistics.
//  2. Cells whose answers lack picks, or were filtered by other affinity hosts
//     than are now known, are asked under the joined statistics.
//  3. Now all answers, and so the joined statistics, are up to date. The best
//     candidate under them is the pick. If a cell may hold a better host that
//     it did not list, it is asked again under these statistics first.
//  4. The pick takes its host, and the next instance starts at 2.
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

// startAgain drops all picks. The answers from before the first pick are still valid.
func (p *Plan) startAgain() {
	for c := range p.cells {
		at := &p.cells[c]
		at.takes, at.answer = nil, at.first
	}
	p.result = Result{Exact: true, Failed: -1, Rounds: p.result.Rounds}
	p.phase, p.rounds, p.restart = picking, 0, false
}

// stepPick asks for what the next pick needs, or makes the pick.
func (p *Plan) stepPick() {
	k := p.join()
	if p.askStale(&k) {
		return
	}
	if p.raises(&k) {
		return
	}
	s := p.scaleUnder(&k)
	lists := p.lists(s, &k)
	subset := p.cfg.Rules.SubsetSize()
	best := best(lists, subset)
	alternates := 0
	if len(p.cfg.Instances) == 1 {
		alternates = p.cfg.Alternates
	}
	again := p.cellsWhere(func(c int) bool {
		a := p.cells[c].answer
		if len(best) == 0 {
			// The cells themselves must say why no host is left after the picks; a forecast does not.
			return a.passed > 0 || a.depth != nil
		}
		if len(best) < subset && !a.complete() {
			// Fewer hosts are known than wanted, so any of its hosts may be among them.
			return true
		}
		last := &lists[best[len(best)-1].cell][best[len(best)-1].at]
		if !a.below(last, s) {
			return true
		}
		if alternates == 0 || c != p.chosen(best).cell {
			return false
		}
		// The picked host is removed from the list before alternates are chosen, whatever its rank.
		return a.mayLack(lists[c], max(alternates, p.chosen(best).at)+1, s)
	})
	if p.askAgain(again, &k) {
		return
	}
	p.pick(best, lists, alternates, &k)
}

// spot is the position of a candidate in a cell's list.
type spot struct{ cell, at int }

// best gives the n best candidates of all lists, in order.
func best(lists [][]schedule.Candidate, n int) []spot {
	next := make([]int, len(lists))
	best := make([]spot, 0, n)
	for len(best) < n {
		top := -1
		for c := range lists {
			if next[c] < len(lists[c]) && (top < 0 || lists[c][next[c]].Better(&lists[top][next[top]])) {
				top = c
			}
		}
		if top < 0 {
			break
		}
		best = append(best, spot{top, next[top]})
		next[top]++
	}
	return best
}

// mostLeaders bounds Result.Leaders.
const mostLeaders = 5

// leaders gives the best of all lists, as far as the answers prove their order.
func (p *Plan) leaders(lists [][]schedule.Candidate, s schedule.Scale) []Leader {
	leaders := make([]Leader, 0, mostLeaders)
	for _, x := range best(lists, mostLeaders) {
		c := &lists[x.cell][x.at]
		if len(leaders) > 0 && len(p.cellsWhere(func(cell int) bool { return !p.cells[cell].answer.below(c, s) })) > 0 {
			break
		}
		leaders = append(leaders, Leader{x.cell, c})
	}
	return leaders
}

// chosen is the one of the best that is picked: Nova's random choice. It depends on the seed and the instance's
// index, so it is the same for any split into cells.
func (p *Plan) chosen(best []spot) spot {
	if len(best) == 1 {
		return best[0]
	}
	draw := schedule.Draw(p.cfg.Seed, len(p.result.Picks))
	return best[draw%uint64(len(best))]
}

// raises ends the plan if Nova would raise an exception instead of picking.
func (p *Plan) raises(k *schedule.GlobalStats) bool {
	for c := range p.cells {
		a := p.cells[c].answer
		if a == nil || a.NovaException == nil || a.NovaException.Stage == schedule.StageWeigh && k.Passed <= 1 {
			continue
		}
		if r := p.result.NovaException; r == nil || p.cfg.Rules.RaisedAt(a.NovaException) < p.cfg.Rules.RaisedAt(r) {
			p.result.NovaException = a.NovaException
		}
	}
	if p.result.NovaException == nil {
		return false
	}
	p.result.Picks, p.result.Failed, p.phase = nil, 0, done
	return true
}

// pick picks one of the best candidates; if there are none, the instance finds no host.
func (p *Plan) pick(best []spot, lists [][]schedule.Candidate, alternates int, k *schedule.GlobalStats) {
	if len(p.result.Picks) == 0 {
		p.result.Rounds += p.rounds
		p.result.Known = *k
		p.result.Leaders = p.leaders(lists, p.scaleUnder(k))
		for c := range p.cells {
			p.cells[c].first = p.cells[c].answer
		}
	}
	p.rounds = 0
	if len(best) == 0 {
		p.result.Failed, p.phase = len(p.result.Picks), done
		if p.affinity {
			p.result.GroupHosts = k.GroupHosts
		}
		return
	}
	chosen := p.chosen(best)
	list := lists[chosen.cell]
	pick := Pick{Cell: chosen.cell, Candidate: list[chosen.at]}
	if alternates > 0 {
		others := slices.Delete(slices.Clone(list), chosen.at, chosen.at+1)
		pick.Alternates = slices.Clip(others[:min(alternates, len(others))])
	}
	at := &p.cells[chosen.cell]
	at.takes = append(at.takes, schedule.TentativePlacement{Host: pick.Candidate.Host, Instance: p.cfg.Instances[len(p.result.Picks)]})
	if after := at.answer.picked(pick.Candidate.Host); after != nil {
		at.answer = after
	}
	p.result.Picks = append(p.result.Picks, pick)
	if len(p.result.Picks) < len(p.cfg.Instances) {
		return
	}
	p.phase = done
	if len(p.result.Picks) > 1 && p.cfg.Alternates > 0 {
		p.phase = choosingAlternates
	}
}

// stepAlternates asks for what the alternates of all picks need, or chooses them.
func (p *Plan) stepAlternates() {
	k := p.join()
	if p.askStale(&k) {
		return
	}
	s := p.scaleUnder(&k)
	lists := p.lists(s, &k)
	again := p.cellsWhere(func(c int) bool {
		return len(p.cells[c].takes) > 0 && p.cells[c].answer.mayLack(p.unpicked(c, lists[c]), p.cfg.Alternates, s)
	})
	if p.askAgain(again, &k) {
		return
	}
	free := make([][]schedule.Candidate, len(lists))
	for i := range p.result.Picks {
		pick := &p.result.Picks[i]
		c := pick.Cell
		if free[c] == nil {
			free[c] = p.unpicked(c, lists[c])
		}
		pick.Alternates = slices.Clip(free[c][:min(p.cfg.Alternates, len(free[c]))])
	}
	p.phase = done
}

// unpicked are the candidates of cell c that were not picked for any instance.
func (p *Plan) unpicked(c int, list []schedule.Candidate) []schedule.Candidate {
	picked := p.picked(c)
	return slices.DeleteFunc(slices.Clone(list), func(x schedule.Candidate) bool { return picked[x.Host] })
}

func (p *Plan) picked(c int) map[schedule.ID]bool {
	hosts := make(map[schedule.ID]bool, len(p.cells[c].takes))
	for _, t := range p.cells[c].takes {
		hosts[t.Host] = true
	}
	return hosts
}

// lists gives each cell's candidates under s, best first.
func (p *Plan) lists(s schedule.Scale, k *schedule.GlobalStats) [][]schedule.Candidate {
	lists := make([][]schedule.Candidate, len(p.cells))
	for c := range p.cells {
		if p.cells[c].answer != nil {
			lists[c] = p.weighed(c, s, k)
		}
	}
	return lists
}

// cellsWhere lists the cells that answered and for which f is true.
func (p *Plan) cellsWhere(f func(c int) bool) []int {
	var cells []int
	for c := range p.cells {
		if p.cells[c].answer != nil && f(c) {
			cells = append(cells, c)
		}
	}
	return cells
}
