package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// selecting is one request on its way. It belongs to one goroutine.
type selecting struct {
	g       *Gateway
	req     *cellgatev1.SelectDestinationsRequest
	request *schedule.Request
	rules   *schedule.Rules
	// expressionFields are where the request has its expressions.
	expressionFields []string
	project          string
	user             string
	// operation is never OPERATION_UNSPECIFIED.
	operation cellgatev1.Operation
	// source is the claim that a move takes over from; nil until it is found, and
	// when there is none.
	source *held
	// began is when the request came; rounds counts those of its merges.
	began  time.Time
	rounds int
	// ignored are the request's fields without a bearing, by path.
	ignored     []string
	instances   []schedule.ID
	seed        uint64
	fingerprint []byte
	alternates  int
	ttl         time.Duration
	// decision is set by the first pick of the first round that places something, or
	// by a kept claim.
	decision string
	// inexact is why the answer says exact=false; empty when it is exact.
	inexact telemetry.Inexact
	// rejections are claims that their hosts rejected; plans leave these hosts out.
	rejections []*cellgatev1.RejectedClaim

	// By cell, in the order of configuration: why it was left out and whether
	// that is final; why it did not answer; what is reported of it.
	skip  []string
	final []bool
	lost  []error
	// views says who answers for the cell; gateMoves counts the moves of gates that the
	// request met.
	views     []gateView
	gateMoves int
	// fuller says of cells that the stand-in answers for what their shards refused.
	fuller map[int]*fuller
	// avoid are service hosts that legacy rows have pass and the shard does not, and why:
	// the filter.
	avoid map[string]string
	// absent counts, by cell, how often the request chose a host that the shard lacks and that
	// cannot be imported; nil before the first.
	absent []int
	// answered: the cell has answered something.
	answered []bool
	// via is the replica to ask next: which answered last, and has the version of the
	// table, or which refused a claim last, and has the newest rows. chances counts
	// how often the request went on in the cell after a claim with an unknown outcome.
	via     []*replica
	chances []int
	reports []*cellgatev1.CellReport

	// shape is the request's, and width among how many hosts its picks are chosen by
	// what was seen of it; both of the last merge.
	shape shape
	width int

	// losses counts the attempts at which some claim lost a race, restarts how
	// often everything was given back to start over.
	losses   int
	restarts int
	// asked is the request as it was before a pin narrowed it.
	asked *schedule.Request
	// attempt names this run of the request (keep.go), later ones after earlier ones:
	// the first claim_id that it mints, or an id of its own; empty before. gone are
	// claims of earlier runs that have ended.
	attempt string
	gone    map[string]bool
	// upToDate: cells are asked for an answer that no replica's table is late for.
	upToDate bool
	// others: the cells left out were asked for claims the consumers hold.
	others bool

	// By instance; nil where it has no place yet.
	places []*place
	// doubts are the claims whose outcome is unknown, being released.
	doubts []*doubt
}

// place is where an instance went.
type place struct {
	cell   int
	answer *cellgatev1.Destinations
	// claim is nil in a dry run.
	claim *cellgatev1.Claim
	// kept: made by an earlier call of the same request, so not ours to release.
	kept bool
	// attempt is the one that made it; empty when it was kept.
	attempt string
}

// selectDestinations is the life of one request. Naively: rank all hosts, take
// the best for each instance, write the claims. What differs: the hosts are in
// cells that may not answer, others claim at the same time, and the same request
// may come twice.
//
//  1. Translate to a schedule.Request; fix the seed and the fingerprint. For a
//     rebuild, find the instance's host. Wait while the same request runs
//     already (flight.go). (The server bounded the deadline, checked the rules of fields
//     and waited for the request's turn: admit.go.)
//  2. Route: leave out the cells that cannot hold it, whatever their load.
//  3. Propose and merge: ask the others, in rounds. Claims that the consumers
//     hold already are kept when they are this request's own (keep.go), and left in place
//     when it is a move; else it ends here.
//  4. Claim the picks, each in its cell; pin the group first when it has hard
//     affinity. Instances that lost a race, or whose cell did not answer, go
//     back to 3 alone, until the deadline; see contend.go for how they keep out
//     of each other's way.
//  5. Answer; or give everything back. What was decided is written down after it
//     (decision.go).
func (g *Gateway) selectDestinations(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	// 1
	_, translate := g.tel.Stage(ctx, telemetry.StageTranslate)
	s, err := g.newSelecting(req)
	translate.End(err)
	if err != nil {
		return nil, err
	}
	land, err := s.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer land()
	resp, err := s.decide(ctx)
	if err == nil {
		s.shadow()
	}
	return resp, s.record(ctx, resp, err)
}

// decide is the life of a request from step 2 on.
func (s *selecting) decide(ctx context.Context) (*cellgatev1.SelectDestinationsResponse, error) {
	g := s.g
	s.see()
	if s.rebuilds() {
		if err := s.toRebuild(ctx); err != nil {
			return nil, s.explain(ctx, err)
		}
	}
	// 2
	_, route := g.tel.Stage(ctx, telemetry.StageRoute)
	s.skip, s.final = g.route(s.request, s.views)
	route.End(nil)
	for i, c := range g.cells {
		if err := cmp.Or(s.views[i].err, c.unusable()); err != nil && s.skip[i] == "" {
			s.lose(ctx, i, err)
		}
	}
	// 3, 4
	if err := s.place(ctx); err != nil {
		return nil, s.giveUp(ctx, err)
	}
	// 5
	_, answer := g.tel.Stage(ctx, telemetry.StageAnswer)
	resp := s.respond()
	answer.End(ctx.Err())
	if err := ctx.Err(); err != nil {
		return nil, s.giveUp(ctx, err) // nobody would hear the answer
	}
	s.tell(ctx, resp)
	return resp, nil
}

// giveUp gives back what was claimed, and gives the error to answer with.
func (s *selecting) giveUp(ctx context.Context, err error) error {
	// Logged there; what is left ends with its lease.
	_ = s.undo(ctx)
	s.tell(ctx, nil)
	return s.explain(ctx, err)
}

// place finds a place for every instance, or fails with what was claimed so far
// still in s.places.
func (s *selecting) place(ctx context.Context) error {
	for {
		began := time.Now()
		pending := s.pending()
		m, err := s.propose(ctx, pending)
		if err != nil {
			return err
		}
		if len(m.held) > 0 {
			if err := s.keep(ctx, m.held); err != nil {
				return err
			}
			if len(s.pending()) == 0 {
				s.report(m)
				return nil
			}
			continue
		}
		s.report(m)
		if m.result.Failed >= 0 {
			again, err := s.startOver(ctx)
			if err != nil {
				return err
			}
			if again {
				continue
			}
			return s.noHost(ctx, m, pending)
		}
		s.scatter(m)
		if err := s.sourceVisible(); err != nil {
			return err
		}
		if err := s.confirmedVisible(); err != nil {
			return err
		}
		if err := s.membersVisible(m); err != nil {
			return err
		}
		if s.decision == "" {
			s.decision = s.g.cells[m.cells[m.result.Picks[0].Cell]].cfg.Name + "." + s.g.newID()
		}
		lost, moves, rejections := len(s.lostReasons()), s.gateMoves, len(s.rejections)
		chances, absent := slices.Clone(s.chances), slices.Clone(s.absent)
		if err := s.claim(ctx, s.orders(m, pending)); err != nil {
			return err
		}
		if len(s.pending()) == 0 {
			return nil
		}
		if len(s.pending()) == len(s.places) {
			s.decision = "" // nothing has it, and the next pick may be in a cell that answers
		}
		if len(s.lostReasons()) > lost || !slices.Equal(s.chances, chances) || s.gateMoves > moves || len(s.rejections) > rejections || !slices.Equal(s.absent, absent) {
			// Each cell is lost once, and has a chance for each of its other replicas; a gate
			// that moves is followed so many times, and so is a shard that lacks hosts; a host that
			// rejects a claim is not chosen again.
			continue
		}
		s.losses++
		s.g.tel.RaceLost()
		if s.outOfTime(ctx, time.Since(began)) {
			return s.contended()
		}
		if err := s.rest(ctx); err != nil {
			return err
		}
	}
}

// propose merges; before it lets "no host" stand it asks the cells too that were
// left out by their summaries, which may be late, and all cells for what is there by
// the last that any of their replicas did.
func (s *selecting) propose(ctx context.Context, pending []int) (*merged, error) {
	m, err := s.merge(ctx, pending)
	if err != nil || len(m.held) > 0 || m.result.Failed < 0 {
		return m, err
	}
	doubtful := false
	for i := range s.skip {
		if s.skip[i] != "" && !s.final[i] {
			s.skip[i], doubtful = "", true
		}
	}
	if !doubtful && !m.lags {
		return m, nil
	}
	s.upToDate = true
	defer func() { s.upToDate = false }()
	return s.merge(ctx, pending)
}

// pending lists the instances without a place.
func (s *selecting) pending() []int {
	var out []int
	for i, p := range s.places {
		if p == nil {
			out = append(out, i)
		}
	}
	return out
}

// membersVisible refuses to place the first visible member of a group with hard
// affinity while a cell does not answer: its other members could be there.
func (s *selecting) membersVisible(m *merged) error {
	if !hardAffinity(s.request) || len(s.request.Group.Hosts) > 0 || len(s.lostReasons()) == 0 {
		return nil
	}
	for _, p := range m.result.First {
		if p != nil && len(p.GroupHosts) > 0 {
			return nil
		}
	}
	if e := tooMuch(s.lost, "members of server group %s may be in cells that do not answer: %s", s.request.Group.UUID, strings.Join(s.lostReasons(), "; ")); e != nil {
		return e.With("cells", s.lostNames())
	}
	return fault.New(fault.CellUnavailable, "members of server group %s may be in cells that do not answer: %s",
		s.request.Group.UUID, strings.Join(s.lostReasons(), "; ")).With("cells", s.lostNames())
}

// explain gives the error to answer with. A deadline that passed is reported as
// the cells that were waited for.
func (s *selecting) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if e := s.contended(); e != nil && len(s.lostReasons()) == 0 {
			return e
		}
		message := "the request's deadline passed"
		if lost := s.lostReasons(); len(lost) > 0 {
			message += "; " + strings.Join(lost, "; ")
		}
		err = fault.Wrap(fault.CellUnavailable, err, "%s", message).With("cells", s.lostNames())
	case errors.Is(err, context.Canceled):
		return err
	}
	if kind := fault.KindOf(err); kind == fault.CellUnavailable || kind == fault.Overloaded {
		if unknown := s.stillUnknown(ctx); len(unknown) > 0 {
			return fault.Wrap(fault.OutcomeUnknown, err, "a claim may have been made in %s, and could not be released there: %s",
				strings.Join(unknown, ", "), reasonOf(err)).With("cells", strings.Join(unknown, ","))
		}
	}
	return err
}

// newID makes an id that sorts by time.
func (g *Gateway) newID() string {
	return ulid.MustNew(ulid.Timestamp(g.now()), ulid.DefaultEntropy()).String()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
