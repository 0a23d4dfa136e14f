package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Plan merges the cells' proposals into exactly the picks that one scheduler over all hosts would make, one after the
// other, whatever the split into cells. It does no I/O. The caller calls Next, performs the asks that it returns, all
// at once if it likes, reports each answer or loss, and calls Next again, until Next returns none.
//
// The simple way would be to fetch every host that passed. A plan instead lets each cell rank by the bounds that are
// likely right: the expected ones, else its own. It joins the returned bounds, and weighs the candidates again under
// them. Then it asks a cell again only if it cannot prove that every host that the cell did not list ranks after the
// pick (answer.below). A pick changes only its own host. So before the next pick only its cell is asked, with the
// pick, and not even that if the cell's Forecast has the pick. The other cells are asked only if the joined
// statistics, or hard affinity's group hosts, changed too much.
//
// All answers of one cell must be of one version of its table. Else the plan may not converge, and gives up exactness
// after MaxRounds.
type Plan struct {
	cfg      PlanConfig
	weighers *multipliers
	// affinity: the hard affinity filter runs, so group hosts in any cell decide which hosts pass.
	affinity bool
	cells    []planCell
	picks    []Pick
	phase    phase
	failed   int
	// open is the number of open asks; rounds is how many rounds of asks the current pick took.
	open   int
	rounds int
	// restart: a cell with picks was lost.
	restart bool
	result  Result
}

// PlanConfig is the input of a Plan.
type PlanConfig struct {
	Request *Request
	Rules   *Rules
	Seed    uint64
	// Instances to place, one pick each, in this order.
	Instances []ID
	// Cells is the number of cells; their indexes are 0..Cells-1.
	Cells int
	// Alternates is the greatest number of alternates for each pick.
	Alternates int
	// Expected are the last known statistics of this shape (Result.Known), or nil. Wrong ones cost a round, but do
	// not change the result.
	Expected *GlobalStats
	// MaxRounds of asks for one pick; below 1 means 4. If tables do not change, two suffice, with hard affinity
	// three.
	MaxRounds int
}

// Ask is a query to a cell.
type Ask struct {
	Cell  int
	Query Query
}

// Result is the result of a plan. Its slices may be shared with the plan.
type Result struct {
	// Picks are in instance order; they end before the first instance that found no host.
	Picks []Pick
	// Failed is the index of the instance that found no host; -1: all were picked.
	Failed int
	// GroupHosts, with Failed, are the service hosts to which hard affinity bound that instance: those of all
	// members, including the instances picked before it. Empty: it was bound to none.
	GroupHosts []string
	// Exact: each pick is what one scheduler over the hosts of all cells not lost by then would pick.
	Exact bool
	// Rounds is the number of rounds of asks for the first pick.
	Rounds int
	// First are, by cell, the proposals that decided the first pick; Last are the newest. Nil if the cell is lost.
	First []*Proposal
	Last  []*Proposal
	// Known are the joined statistics at the first pick, which the next plan of this shape should expect.
	Known GlobalStats
	// Leaders are the best hosts of the first pick, best first, five at most. They end where the answers no longer
	// prove that no host ranks in between. The pick is among them, unless it is drawn from more than five
	// (Options.SubsetSize).
	Leaders []Leader
	// NovaException is what Nova raises instead of an answer, with Options.StrictNova. Then there are no picks.
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
	// Alternates are hosts of the same cell that no instance was picked for, best first. For one instance they are
	// the runners-up, for several the best after all picks.
	Alternates []Candidate
}

// planCell is the plan's state of a cell.
type planCell struct {
	lost bool
	// group are the members' hosts that a lost cell had reported.
	group []GroupHost
	takes []TentativePlacement
	// open is the ask that is neither answered nor lost.
	open *Ask
	// answer is the newest answer; first is the one that decided the first pick.
	answer *answer
	first  *answer
	// list are the answer's candidates as last ranked, under scale.
	list   []Candidate
	listed *answer
	scale  scale
}

// phase is what a plan currently decides.
type phase int

const (
	picking phase = iota
	choosingAlternates
	done
)

// NewPlan starts a plan, with the first asks open.
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

// Next returns the open asks: neither answered nor lost. When all asks of a round are closed, it returns those of the
// next round, or none if the result is final.
func (p *Plan) Next() []Ask {
	var asks []Ask
	for c := range p.cells {
		if p.cells[c].open != nil {
			asks = append(asks, *p.cells[c].open)
		}
	}
	return asks
}

// Answer closes a cell's ask. If the proposal cannot be an answer to the ask, it returns an error. The ask then stays
// open, to be answered again or lost.
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

// affinityHosts are the hosts by which a cell filtered, if k is Known of its query.
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

// fits returns an error if pr cannot be an answer to q.
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
	if err := p.checkForecast(pr); err != nil {
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

// checkForecast returns an error if a proposal's forecast is invalid.
func (p *Plan) checkForecast(pr *Proposal) error {
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

// multipliersFit returns an error if a candidate's own multipliers are invalid.
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

// Lost reports that a cell does not answer. The plan goes on without it; its reported group members still bind hard
// affinity. If instances were already picked in it, the plan starts again without it. This is possible after the last
// answer too: Next may then return asks again.
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

// Result is the current result; it is final when Next returns no asks.
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

// NearMissQuery makes q the query of a cell after the plan failed. It asks what keeps the cell's hosts from the
// instance that found none.
func (r *Result) NearMissQuery(q Query, cell int, instances []ID) Query {
	for i, pick := range r.Picks {
		if pick.Cell == cell {
			q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: pick.Candidate.Host, Instance: instances[i]})
		}
	}
	if len(r.GroupHosts) > 0 {
		q.Known = &GlobalStats{GroupHosts: r.GroupHosts, GroupHostsKnown: true}
	}
	return q
}
