package selection

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// merged is the result of one merge.
type merged struct {
	// cells has, by the plan's index, the index in Cells of each cell that took part.
	cells []int
	// existing are the consumers' live claims, if any beside the source of the move. If there
	// are, the merge stopped and result is nil.
	existing []existingClaim
	result   *merge.Result
	// answers are the cells' first proposals, by the plan's index; nil for a lost cell.
	answers []*schedule.Proposal
	// versions are the versions of the tables that the cells used, by the plan's index.
	versions []string
	// truncated: some cell did not look at all its hosts. mayBeStale: some replica may lack
	// the latest commits of the cell's other replicas. staleClaims: so may one that was asked
	// for claims alone.
	truncated, mayBeStale, staleClaims bool
}

// merge places the instances of the given indices over all cells that are neither left out
// nor lost, in exactly the order that one scheduler over all their hosts would choose. All
// rounds of a merge see one version of each table. If a cell no longer keeps that version,
// the merge starts again. The third attempt uses whatever version there is, and counts as
// inexact. A cell that does not answer is lost for the whole request.
func (s *selection) merge(ctx context.Context, pending []int) (*merged, error) {
	for try := 1; ; try++ {
		m, err := s.mergeOnce(ctx, pending, try < 3)
		if fault.KindOf(err) == fault.Gone && try < 3 {
			continue
		}
		switch {
		case err != nil || m.result == nil:
		case try == 3:
			s.noteInexact(telemetry.InexactVersion)
		case m.truncated:
			s.noteInexact(telemetry.InexactCut)
		case !m.result.Exact:
			s.noteInexact(telemetry.InexactRounds)
		}
		return m, err
	}
}

// noteInexact records why the answer's order may not be that of one scheduler; the first
// reason stays.
func (s *selection) noteInexact(why telemetry.Inexact) { s.inexact = cmp.Or(s.inexact, why) }

func (s *selection) mergeOnce(ctx context.Context, pending []int, pin bool) (m *merged, err error) {
	ctx, step := s.svc.Telemetry.Stage(ctx, telemetry.StageMerge)
	rounds := 0
	defer func() {
		if err == nil && m.result != nil {
			s.svc.Telemetry.Merged(len(pending), rounds)
		}
		step.Span.Int(telemetry.AttrRounds, rounds)
		step.End(err)
	}()
	m = &merged{cells: s.askable()}
	m.answers = make([]*schedule.Proposal, len(m.cells))
	instances := make([]schedule.ID, 0, len(pending))
	for _, i := range pending {
		instances = append(instances, s.instances[i])
	}
	request := s.planned()
	placement := placementBytes(request, s.rules, s.moving())
	key := shapeOf(placement)
	s.widen(key)
	plan := merge.NewPlan(merge.Config{
		Request: request, Rules: s.rules, Seed: s.seed, Instances: instances,
		Cells: len(m.cells), Alternates: s.planAlternates(), Expected: s.svc.shapes.get(key),
	})
	var consumers []string
	if s.asksForClaims() {
		consumers = wire.IDTexts(instances)
	}
	m.versions = make([]string, len(m.cells))
	elsewhere := s.heldElsewhere(ctx, m, pending, placement)
	for asks := plan.Next(); len(asks) > 0; asks = plan.Next() {
		rounds++
		s.rounds++
		answers, took := s.round(ctx, rounds, m.cells, asks, s.queries(m, asks, placement, consumers))
		step.Without(took)
		for i, got := range answers {
			if err := s.takeAnswer(ctx, m, plan, asks[i].Cell, got, pin); err != nil {
				return nil, err
			}
		}
		others, err := elsewhere()
		if err != nil {
			return nil, err
		}
		m.existing = slices.DeleteFunc(append(m.existing, others...), s.hasEnded)
		if s.hasForeignClaims(m.existing) {
			return m, nil
		}
		m.existing = nil
	}
	m.result = plan.Result()
	if r := m.result.NovaException; r != nil {
		return nil, fault.New(fault.InvalidRequest, "strict_nova is set and Nova fails such a request: %s", r)
	}
	step.Span.Bool(telemetry.AttrExact, m.result.Exact && !m.truncated)
	if !m.truncated {
		s.svc.shapes.put(key, m.result.Known)
	}
	return m, nil
}

// queries are the messages of a round, in the order of asks. A cell's first one asks for the consumers' claims too.
func (s *selection) queries(m *merged, asks []merge.Ask, placement []byte, consumers []string) []*cellv1.Query {
	out := make([]*cellv1.Query, len(asks))
	for i, a := range asks {
		out[i] = wire.EncodeQuery(&a.Query, placement)
		out[i].TableVersion, out[i].UpToDate = m.versions[a.Cell], s.upToDate
		if m.answers[a.Cell] == nil {
			out[i].ConsumerUuids = consumers
		}
	}
	return out
}

// takeAnswer gives the answer of the plan's cell k to the plan. A cell without a usable answer is lost; an error ends
// the merge.
func (s *selection) takeAnswer(ctx context.Context, m *merged, plan *merge.Plan, k int, got cellclient.Answer, pin bool) error {
	cell := m.cells[k]
	state := &s.cells[cell]
	state.gate = cmp.Or(got.Proposal.GetGate(), state.gate)
	if got.Err != nil {
		if err := fatalError(ctx, got.Err, pin); err != nil {
			return err
		}
		if err := s.incompleteSearch(cell, got.Err); err != nil {
			return err
		}
		s.markUnavailable(ctx, cell, got.Err)
		plan.Lost(k)
		return nil
	}
	state.answered = true
	if got.By != nil {
		state.nextReplica = got.By
	}
	if pin {
		m.versions[k] = got.Proposal.GetTableVersion()
	}
	m.truncated, m.mayBeStale = m.truncated || got.Proposal.GetTruncated(), m.mayBeStale || got.Proposal.GetMayBeStale()
	m.existing = append(m.existing, existingClaimsIn(cell, got.Proposal)...)
	p, err := wire.DecodeProposal(got.Proposal)
	if err == nil {
		err = plan.Answer(k, p)
	}
	if err != nil {
		s.markUnavailable(ctx, cell, fault.Wrap(fault.Internal, err, "the cell's answer is malformed"))
		plan.Lost(k)
		return nil
	}
	if m.answers[k] == nil {
		m.answers[k] = p
	}
	return nil
}

// round asks all cells of a round at once. It gives their answers in the order of asks, and
// the time until the slowest one. n counts the rounds of a merge from 1.
//
// The first round asks every cell. If none answers in time, it asks them all once more, for
// as long as a claim may take, since there is no answer without them. So a pause of the only
// cell does not fail requests.
func (s *selection) round(ctx context.Context, n int, cells []int, asks []merge.Ask, queries []*cellv1.Query) ([]cellclient.Answer, time.Duration) {
	ctx, step := s.svc.Telemetry.Stage(ctx, telemetry.StagePropose)
	step.Span.Int(telemetry.AttrRound, n)
	got := make([]cellclient.Answer, len(asks))
	askWithin := func(budget func(*cellclient.Cell) time.Duration) {
		var all sync.WaitGroup
		for i, a := range asks {
			all.Go(func() {
				cell := cells[a.Cell]
				c := s.svc.Cells.All[cell]
				got[i] = s.askCell(ctx, cell, cellclient.StepBudget(ctx, budget(c)), queries[i], c.OrderFrom(s.cells[cell].nextReplica, strconv.FormatUint(s.seed, 36)))
				got[i].Err = s.ownField(got[i].Err)
			})
		}
		all.Wait()
	}
	askWithin((*cellclient.Cell).ProposeBudget)
	longer := cellclient.StepBudget(ctx, s.svc.Cells.ClaimBudget)
	if n == 1 && longer > s.svc.Cells.ProposeBudget && !slices.ContainsFunc(got, func(a cellclient.Answer) bool { return !errors.Is(a.Err, cellclient.ErrTooSlow) }) {
		askWithin(func(*cellclient.Cell) time.Duration { return longer })
	}
	return got, step.End(nil)
}

// askCell asks one cell. An answer that Gates does not accept is an error.
func (s *selection) askCell(ctx context.Context, cell int, budget time.Duration, q *cellv1.Query, order []*cellclient.Replica) (got cellclient.Answer) {
	c := s.svc.Cells.All[cell]
	got.Proposal, got.By, got.Err = c.Propose(ctx, budget, q, order)
	if got.Err == nil {
		got.Err = s.svc.Gates.Accept(c, got.Proposal)
	}
	return got
}

// fatalError gives the error that ends a merge, nil when only one cell is lost.
func fatalError(ctx context.Context, err error, pin bool) error {
	kind := fault.KindOf(err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case kind == fault.InvalidRequest, kind == fault.Gone && pin:
		return err
	}
	return nil
}

// askable lists the cells that are neither left out nor lost.
func (s *selection) askable() []int {
	var cells []int
	for i := range s.svc.Cells.All {
		if s.cells[i].skip == "" && s.cells[i].lost == nil {
			cells = append(cells, i)
		}
	}
	return cells
}

// markUnavailable leaves a cell out of the rest of the request.
func (s *selection) markUnavailable(ctx context.Context, cell int, err error) {
	if s.cells[cell].lost != nil {
		return
	}
	s.cells[cell].lost = err
	if errors.Is(err, &fault.Error{Kind: fault.Internal}) {
		s.svc.Log.ErrorContext(ctx, "cell lost for a request", "cell", s.svc.Cells.All[cell].Name(), "error", err)
	}
}

// lost gives the cells that are left out of the rest of the request.
func (s *selection) lost() *cellclient.Missing {
	var out cellclient.Missing
	for i, c := range s.svc.Cells.All {
		if err := s.cells[i].lost; err != nil {
			out.Add(c, err)
		}
	}
	return &out
}
