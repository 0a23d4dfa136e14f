package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Plan merges the cells' proposals into exactly the picks that one scheduler
// over all hosts would make, one after the other, whatever the split into
// cells. It does no IO: the caller performs the asks that Next returns, at once
// if it likes, hands back each answer or loss, and calls Next again, until it
// returns none.
//
// The simple way would be to fetch every host that passed. A plan instead lets
// each cell rank by the bounds that are likely right (the expected ones; else its own),
// joins the bounds that come back, weighs the candidates anew under the joined
// ones, and asks again only those cells of which it cannot prove that no host
// they did not name comes before the pick (answer.below). A pick changes its own
// host only, so before the next one just its cell is asked, with the takes, and not
// even that when the cell has foretold the pick (Forecast); the
// others only when what is known of all cells has moved too far, or when hard
// affinity's group hosts have.
//
// Answers of one cell must be of one version of its table; else the plan may
// not come to rest, and gives up exactness after MaxRounds.
type Plan struct {
	cfg      PlanConfig
	weighers *multipliers
	// affinity: the hard affinity filter runs, so that group hosts anywhere
	// decide who passes.
	affinity bool
	cells    []planCell
	picks    []Pick
	phase    phase
	failed   int
	// open is how many asks are; rounds how many of them the pick being made
	// took.
	open   int
	rounds int
	// restart: a cell with picks was lost.
	restart bool
	result  Result
}

// PlanConfig is what to plan.
type PlanConfig struct {
	Request *Request
	Rules   *Rules
	Seed    uint64
	// Instances to place, one pick each, in this order.
	Instances []ID
	// Cells is how many there are; they are named 0..Cells-1.
	Cells int
	// Alternates wanted for each pick, at most.
	Alternates int
	// Expected is what was last known of this shape (Result.Known), or nil. A wrong
	// one costs a round and changes no result.
	Expected *GlobalStats
	// MaxRounds of asks for one pick; below 1 means 4. A still table needs two,
	// with hard affinity three.
	MaxRounds int
}

// Ask is a query to a cell.
type Ask struct {
	Cell  int
	Query Query
}

// Result is what was planned. Its slices may be shared with the plan.
type Result struct {
	// Picks in instance order; they stop before the first that found no host.
	Picks []Pick
	// Failed is the index of the instance that found none; -1: all were picked.
	Failed int
	// GroupHosts are, with Failed, what hard affinity bound that instance to: the service hosts of all members, those
	// picked before it included. Empty: to none, or there is no such filter.
	GroupHosts []string
	// unbound: hard affinity binds the instances, and no member bound the first.
	unbound bool
	// Exact: each pick is what one scheduler over the hosts of the cells not
	// lost by then would pick.
	Exact bool
	// Rounds of asks the first pick took.
	Rounds int
	// First is, by cell, the proposal the first pick was decided on; Last the
	// newest. Nil when the cell is lost.
	First []*Proposal
	Last  []*Proposal
	// Known is what the cells knew together at the first pick: what the next plan
	// for this shape expects.
	Known GlobalStats
	// Leaders are the best hosts of the first pick, best first: those of which the answers prove that no host
	// stands before or between them, five at most. The pick is among them, unless it is drawn from more than
	// five (Options.SubsetSize).
	Leaders []Leader
	// NovaException is what Nova raises instead of an answer, with
	// Options.StrictNova: there are no picks then.
	NovaException *NovaException
}

// Leader is one of the best hosts of the first pick.
type Leader struct {
	Cell int
	// Candidate is never changed.
	Candidate *Candidate
}

// Pick is a host for an instance.
type Pick struct {
	Cell      int
	Candidate Candidate
	// Alternates are of the same cell and picked for no instance, best first:
	// with one instance the runners-up, with several the best after all picks.
	Alternates []Candidate
}

// planCell is what the plan holds of a cell.
type planCell struct {
	lost bool
	// group: the members' hosts that a lost cell had reported.
	group []GroupHost
	takes []TentativePlacement
	// open is the ask that is neither answered nor lost.
	open *Ask
	// answer is the newest; first the one the first pick was decided on.
	answer *answer
	first  *answer
	// list is the answer's candidates as ranked under scale last.
	list   []Candidate
	listed *answer
	scale  scale
}

// phase is what a plan is about.
type phase int

const (
	picking phase = iota
	choosingAlternates
	done
)

// NewPlan starts a plan; the first asks are open.
func NewPlan(cfg PlanConfig) *Plan {
	if cfg.MaxRounds < 1 {
		cfg.MaxRounds = 4
	}
	g := cfg.Request.Group
	p := &Plan{
		cfg:      cfg,
		weighers: multipliersOf(cfg.Rules.weighers()),
		affinity: g != nil && g.Policy == Affinity && !cfg.Request.Forced() && slices.Contains(cfg.Rules.filters(), AffinityFilter),
		cells:    make([]planCell, cfg.Cells),
		failed:   -1,
	}
	p.result.Exact = true
	p.advance()
	return p
}

// Next returns the asks that are open: not answered and not lost yet. When all
// of a round are closed it returns the next round's; none when the result is final.
func (p *Plan) Next() []Ask {
	var asks []Ask
	for c := range p.cells {
		if p.cells[c].open != nil {
			asks = append(asks, *p.cells[c].open)
		}
	}
	return asks
}

// Answer closes a cell's ask. An error means that the proposal does not answer
// it; the ask stays open, to be answered again or lost.
func (p *Plan) Answer(cell int, pr *Proposal) error {
	if cell < 0 || cell >= len(p.cells) || p.cells[cell].open == nil {
		return fmt.Errorf("cell %d was not asked", cell)
	}
	at := &p.cells[cell]
	if err := p.fits(&at.open.Query, pr); err != nil {
		return fmt.Errorf("proposal of cell %d: %w", cell, err)
	}
	a := newAnswer(pr, scale{multipliers: p.weighers, bounds: pr.Bounds, flat: pr.Passed <= 1}, len(at.open.Query.TentativePlacements))
	k := at.open.Query.Known
	if k != nil && len(k.Bounds) > 0 {
		a.scale = p.scaleUnder(k)
	}
	if p.affinity {
		a.affinity = affinityHosts(p.cfg.Request.Group, k, pr)
	}
	at.answer, at.open = a, nil
	p.open--
	p.advance()
	return nil
}

// affinityHosts are the hosts by which a cell filtered that had k of the ask.
func affinityHosts(g *Group, k *GlobalStats, pr *Proposal) []string {
	if k != nil && k.GroupHostsKnown {
		return k.GroupHosts
	}
	hosts := slices.Clone(g.Hosts)
	for _, h := range pr.GroupHosts {
		hosts = append(hosts, h.ServiceHost)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// fits says why pr cannot be an answer to q.
func (p *Plan) fits(q *Query, pr *Proposal) error {
	switch {
	case pr == nil:
		return errors.New("there is none")
	case len(pr.Bounds) != len(p.weighers.rules):
		return fmt.Errorf("%d bounds for %d weighers", len(pr.Bounds), len(p.weighers.rules))
	case pr.Passed < len(pr.Candidates) || pr.Passed > 0 && len(pr.Candidates) == 0:
		return fmt.Errorf("%d candidates of %d hosts that passed", len(pr.Candidates), pr.Passed)
	case len(pr.Candidates) > q.Limit:
		return fmt.Errorf("%d candidates, %d were asked", len(pr.Candidates), q.Limit)
	case pr.Multipliers != nil && len(pr.Multipliers) != len(p.weighers.rules):
		return fmt.Errorf("%d multipliers for %d weighers", len(pr.Multipliers), len(p.weighers.rules))
	}
	for i, b := range pr.Multipliers {
		if !finite(b) {
			return fmt.Errorf("multipliers[%d] are [%v, %v]", i, b.Min, b.Max)
		}
	}
	for i, b := range pr.Bounds {
		if pr.Passed > 0 && !finite(b) {
			return fmt.Errorf("bounds[%d] are [%v, %v]", i, b.Min, b.Max)
		}
	}
	if err := p.foretells(pr); err != nil {
		return err
	}
	for i := range pr.Candidates {
		if len(pr.Candidates[i].Raw) != len(p.weighers.rules) {
			return fmt.Errorf("candidates[%d]: %d raw weights for %d weighers", i, len(pr.Candidates[i].Raw), len(p.weighers.rules))
		}
		for j, x := range pr.Candidates[i].Raw {
			if math.IsNaN(x) || x < pr.Bounds[j].Min || x > pr.Bounds[j].Max {
				return fmt.Errorf("candidates[%d]: raw weight %v is outside of bounds[%d]", i, x, j)
			}
		}
		if err := pr.multipliersFit(i); err != nil {
			return err
		}
	}
	return nil
}

// foretells says what is wrong with a proposal's forecast.
func (p *Plan) foretells(pr *Proposal) error {
	if pr.Forecast == nil {
		return nil
	}
	if len(pr.Forecast.Rest) != len(p.weighers.rules) {
		return fmt.Errorf("forecast: %d bounds for %d weighers", len(pr.Forecast.Rest), len(p.weighers.rules))
	}
	for i, step := range pr.Forecast.Steps {
		if step.At < 0 || step.At >= len(pr.Candidates) {
			return fmt.Errorf("forecast.steps[%d]: there is no candidate %d", i, step.At)
		}
		if step.Passes && len(step.Raw) != len(p.weighers.rules) {
			return fmt.Errorf("forecast.steps[%d]: %d raw weights for %d weighers", i, len(step.Raw), len(p.weighers.rules))
		}
		if slices.ContainsFunc(step.Raw, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			return fmt.Errorf("forecast.steps[%d]: raw weights must be numbers", i)
		}
	}
	return nil
}

// multipliersFit says what is wrong with a candidate's own multipliers.
func (pr *Proposal) multipliersFit(i int) error {
	own := pr.Candidates[i].Multipliers
	if own == nil {
		return nil
	}
	if len(own) != len(pr.Multipliers) {
		return fmt.Errorf("candidates[%d]: %d multipliers, the cell's hosts have %d", i, len(own), len(pr.Multipliers))
	}
	for j, m := range own {
		if math.IsNaN(m) || m < pr.Multipliers[j].Min || m > pr.Multipliers[j].Max {
			return fmt.Errorf("candidates[%d]: multiplier %v is outside of multipliers[%d]", i, m, j)
		}
	}
	return nil
}

func finite(b Bounds) bool {
	return b.Min <= b.Max && !math.IsInf(b.Min, 0) && !math.IsInf(b.Max, 0)
}

// Lost says that a cell does not answer. The plan goes on without it; the group
// members it reported still bind hard affinity. When instances were already
// picked on it, the plan starts again without it; that holds after the last answer
// too: Next may then return asks again.
func (p *Plan) Lost(cell int) {
	if cell < 0 || cell >= len(p.cells) || p.cells[cell].lost {
		return
	}
	if p.cells[cell].open != nil {
		p.open--
	}
	p.restart = p.restart || len(p.cells[cell].takes) > 0
	gone := planCell{lost: true}
	if a := p.cells[cell].first; a != nil {
		gone.group = a.GroupHosts
	} else if a := p.cells[cell].answer; a != nil {
		gone.group = a.GroupHosts
	}
	p.cells[cell] = gone
	p.advance()
}

// Result is what is planned so far; final when Next asks for nothing more.
func (p *Plan) Result() *Result {
	r := p.result
	r.Picks, r.Failed = p.picks, p.failed
	r.First, r.Last = make([]*Proposal, len(p.cells)), make([]*Proposal, len(p.cells))
	for c := range p.cells {
		if a := p.cells[c].first; a != nil {
			r.First[c] = a.Proposal
		}
		if a := p.cells[c].answer; a != nil {
			r.Last[c] = a.Proposal
		}
	}
	return &r
}

// NearMissQuery is q asked of a cell after the failed plan for some instances: for what keeps its hosts from the one that
// found none, and where there are several, for openings for those without a host.
func (r *Result) NearMissQuery(q Query, cell int, instances []ID) Query {
	for i, pick := range r.Picks {
		if pick.Cell == cell {
			q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: pick.Candidate.Host, Instance: instances[i]})
		}
	}
	if len(r.GroupHosts) > 0 {
		q.Known = &GlobalStats{GroupHosts: r.GroupHosts, GroupHostsKnown: true}
	}
	if n := len(instances); n > 1 {
		q.Openings = n - r.Failed
		if r.unbound {
			q.Together = n
		}
	}
	return q
}
