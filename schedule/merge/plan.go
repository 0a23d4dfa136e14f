package merge

import (
	"cmp"
	"fmt"

	"cellgate/schedule"
)

// Plan merges the cells' proposals into exactly the picks that one scheduler over all hosts would make, one after the
// other, whatever the split into cells. It does no I/O. The caller calls Next, performs the asks that it returns, all
// at once if it likes, reports each answer or loss, and calls Next again, until Next returns none.
//
// All answers of one cell must be of one version of its table. Else the plan may not converge, and gives up exactness
// after MaxRounds.
type Plan struct {
	cfg      Config
	weighers []schedule.SignedWeigher
	// affinity: the hard affinity filter runs, so group hosts in any cell decide which hosts pass.
	affinity bool
	cells    []planCell
	phase    phase
	// open is the number of open asks; rounds is how many rounds of asks the current pick took.
	open   int
	rounds int
	// restart: a cell with picks was lost.
	restart bool
	// result lacks First and Last.
	result Result
}

// Config is the input of a Plan.
type Config struct {
	Request *schedule.Request
	Rules   *schedule.Rules
	Seed    uint64
	// Instances to place, one pick each, in this order.
	Instances []schedule.ID
	// Cells is the number of cells; their indexes are 0..Cells-1.
	Cells int
	// Alternates is the greatest number of alternates for each pick.
	Alternates int
	// Expected are the last known statistics of this shape (Result.Known), or nil. Wrong ones cost a round, but do
	// not change the result.
	Expected *schedule.GlobalStats
	// MaxRounds of asks for one pick; below 1 means 4. If tables do not change, two suffice, with hard affinity
	// three.
	MaxRounds int
}

// Ask is a query to a cell.
type Ask struct {
	Cell  int
	Query schedule.Query
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
	First []*schedule.Proposal
	Last  []*schedule.Proposal
	// Known are the joined statistics at the first pick, which the next plan of this shape should expect.
	Known schedule.GlobalStats
	// Leaders are the best hosts of the first pick, best first, five at most. They end where the answers no longer
	// prove that no host ranks in between. The pick is among them, unless it is drawn from more than five
	// (Options.SubsetSize).
	Leaders []Leader
	// NovaException is what Nova raises instead of an answer, with Options.StrictNova. Then there are no picks.
	NovaException *schedule.NovaException
}

// Leader is one of the best hosts of the first pick.
type Leader struct {
	Cell int
	// Candidate is never changed.
	Candidate *schedule.Candidate
}

// Pick is a host for an instance.
type Pick struct {
	Cell      int
	Candidate schedule.Candidate
	// Alternates are hosts of the same cell that no instance was picked for, best first. For one instance they are
	// the runners-up, for several the best after all picks.
	Alternates []schedule.Candidate
}

// planCell is the plan's state of a cell.
type planCell struct {
	lost bool
	// group are the members' hosts that a lost cell had reported.
	group []schedule.GroupHost
	takes []schedule.TentativePlacement
	// open is the ask that is neither answered nor lost.
	open *Ask
	// answer is the newest answer; first is the one that decided the first pick.
	answer *answer
	first  *answer
	// list are the answer's candidates as last ranked, under scale.
	list   []schedule.Candidate
	listed *answer
	scale  schedule.Scale
}

// phase is what a plan currently decides.
type phase int

const (
	picking phase = iota
	choosingAlternates
	done
)

// NewPlan starts a plan, with the first asks open.
func NewPlan(cfg Config) *Plan {
	if cfg.MaxRounds < 1 {
		cfg.MaxRounds = 4
	}
	g := cfg.Request.Group
	p := &Plan{
		cfg:      cfg,
		weighers: cfg.Rules.SignedWeighers(),
		affinity: g != nil && g.Policy == schedule.Affinity && !cfg.Request.Forced() && cfg.Rules.HasFilter(schedule.AffinityFilter),
		cells:    make([]planCell, cfg.Cells),
		result:   Result{Exact: true, Failed: -1},
	}
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
func (p *Plan) Answer(cell int, pr *schedule.Proposal) error {
	if cell < 0 || cell >= len(p.cells) || p.cells[cell].open == nil {
		return fmt.Errorf("cell %d was not asked", cell)
	}
	at := &p.cells[cell]
	if err := p.fits(&at.open.Query, pr); err != nil {
		return fmt.Errorf("proposal of cell %d: %w", cell, err)
	}
	k := at.open.Query.Known
	by := schedule.GlobalStats{Bounds: pr.Bounds, Passed: int64(pr.Passed)}
	if k != nil && len(k.Bounds) > 0 {
		by = *k
	}
	a := &answer{
		Proposal: pr, scale: p.scaleUnder(&by), takes: len(at.open.Query.TentativePlacements),
		now: pr.Candidates, passed: pr.Passed, bounds: pr.Bounds,
	}
	if p.affinity {
		a.affinity = affinityHosts(p.cfg.Request.Group, k, pr)
	}
	at.answer, at.open = a, nil
	p.open--
	p.advance()
	return nil
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
	if a := cmp.Or(p.cells[cell].first, p.cells[cell].answer); a != nil {
		gone.group = a.GroupHosts
	}
	p.cells[cell] = gone
	p.advance()
}

// Result is the current result; it is final when Next returns no asks.
func (p *Plan) Result() *Result {
	r := p.result
	r.First, r.Last = make([]*schedule.Proposal, len(p.cells)), make([]*schedule.Proposal, len(p.cells))
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
func (r *Result) NearMissQuery(q schedule.Query, cell int, instances []schedule.ID) schedule.Query {
	for i, pick := range r.Picks {
		if pick.Cell == cell {
			q.TentativePlacements = append(q.TentativePlacements, schedule.TentativePlacement{Host: pick.Candidate.Host, Instance: instances[i]})
		}
	}
	if len(r.GroupHosts) > 0 {
		q.Known = &schedule.GlobalStats{GroupHosts: r.GroupHosts, GroupHostsKnown: true}
	}
	return q
}
