package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// selection is the state of one SelectDestinations call. One goroutine owns it.
type selection struct {
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
	source *existingClaim
	// began is when the request came; rounds counts the proposal rounds of all its merges.
	began  time.Time
	rounds int
	// ignored are the paths of fields that do not matter to placement.
	ignored     []string
	instances   []schedule.ID
	seed        uint64
	fingerprint []byte
	alternates  int
	// dryRun: nothing is claimed.
	dryRun bool
	ttl         time.Duration
	// decision is the decision id: of the first pick that places something, or of a claim
	// that an earlier call made.
	decision string
	// inexact is why the answer says exact=false; empty when it is exact.
	inexact telemetry.Inexact
	// rejections are claims that their hosts rejected; plans leave these hosts out.
	rejections []*cellgatev1.RejectedClaim

	// By cell, in the order of configuration: skip says why routing left the cell out, final
	// whether that cannot change; lost why the cell did not answer; reports what the answer
	// tells of it.
	skip  []string
	final []bool
	lost  []error
	// gates are where the cells' gates are, by their answers; unspecified before.
	gates []cellgatev1.Gate_State
	// answered, by cell: it has answered something.
	answered []bool
	// nextReplica, by cell, is the replica to ask next: the one that answered last has this version
	// of the table, the one that refused a claim last has the newest rows.
	// retriesAfterUnknown counts the retries in the cell after a claim of unknown outcome.
	nextReplica         []*cellclient.Replica
	retriesAfterUnknown []int
	reports             []*cellgatev1.CellReport

	// shape is the request's, and width among how many hosts its picks are chosen by
	// what was seen of it; both of the last merge.
	shape shape
	width int

	// losses counts the rounds in which some claim lost a race, restarts how often all claims
	// were released to start over.
	losses   int
	restarts int
	// originalRequest is the request before an affinity pin narrowed it.
	originalRequest *schedule.Request
	// attemptID orders the runs of one request (takeover.go): the first claim_id that this run
	// mints, or an id of its own; empty before. endedClaims are claims of earlier runs that
	// have ended.
	attemptID   string
	endedClaims map[string]bool
	// upToDate: replicas read their journal before they answer.
	upToDate bool
	// askedSkippedCells: cells that routing left out were asked for existing claims.
	askedSkippedCells bool

	// By instance; nil where it has no place yet.
	places []*place
	// doubts are claims of unknown outcome, which are being released.
	doubts []*doubt
}

// place is where an instance went.
type place struct {
	cell   int
	answer *cellgatev1.Destinations
	// claim is nil in a dry run.
	claim *cellgatev1.Claim
	// fromEarlierCall: an earlier call of the same request made it, so this one does not
	// release it.
	fromEarlierCall bool
	// attempt is the id of the run that made it; empty with fromEarlierCall.
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
//     hold already are taken over when they are this request's own (takeover.go), and left in
//     place when it is a move; else it ends here.
//  4. Claim the picks, each in its cell; pin the group first when it has hard
//     affinity. Instances that lost a race, or whose cell did not answer, go
//     back to 3 alone, until the deadline; see contend.go for how they keep out
//     of each other's way.
//  5. Answer, or release all claims. The decision is recorded after the answer
//     (decision.go).
func (g *Gateway) selectDestinations(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	// 1
	_, translate := g.tel.Stage(ctx, telemetry.StageTranslate)
	s, err := g.newSelection(req)
	translate.End(err)
	if err != nil {
		return nil, err
	}
	releaseTurn, err := s.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer releaseTurn()
	resp, err := s.decide(ctx)
	return resp, s.record(ctx, resp, err)
}

// decide is the life of a request from step 2 on.
func (s *selection) decide(ctx context.Context) (*cellgatev1.SelectDestinationsResponse, error) {
	g := s.g
	if s.rebuilds() {
		if err := s.toRebuild(ctx); err != nil {
			return nil, s.explain(ctx, err)
		}
	}
	// 2
	s.routeToCells(ctx)
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
	s.recordMetrics(ctx, resp)
	return resp, nil
}

// routeToCells leaves out the cells that cannot hold the instances, and those that cannot be used.
func (s *selection) routeToCells(ctx context.Context) {
	_, route := s.g.tel.Stage(ctx, telemetry.StageRoute)
	s.skip, s.final = s.g.route(s.request)
	route.End(nil)
	for i, c := range s.g.cells.All {
		if err := c.Unusable(); err != nil && s.skip[i] == "" {
			s.markUnavailable(ctx, i, err)
		}
	}
}

// giveUp releases what was claimed, and gives the error to answer with.
func (s *selection) giveUp(ctx context.Context, err error) error {
	// Logged there; what is left ends with its lease.
	_ = s.undo(ctx)
	s.recordMetrics(ctx, nil)
	return s.explain(ctx, err)
}

// place finds a place for every instance, or fails with what was claimed so far
// still in s.places.
func (s *selection) place(ctx context.Context) error {
	for {
		began := time.Now()
		pending := s.pending()
		m, err := s.propose(ctx, pending)
		if err != nil {
			return err
		}
		if len(m.existing) > 0 {
			if err := s.takeOver(ctx, m.existing); err != nil {
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
		s.spreadPicks(m)
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
			s.decision = s.g.cells.All[m.cells[m.result.Picks[0].Cell]].Name() + "." + s.g.newID()
		}
		before := s.progress()
		if err := s.claim(ctx, s.orders(m, pending)); err != nil {
			return err
		}
		if len(s.pending()) == 0 {
			return nil
		}
		if len(s.pending()) == len(s.places) {
			s.decision = "" // nothing has it, and the next pick may be in a cell that answers
		}
		if !s.progress().equal(before) {
			continue // without counting a lost race
		}
		s.losses++
		s.g.tel.RaceLost()
		if s.outOfTime(ctx, time.Since(began)) {
			return s.contended()
		}
		if err := s.backOff(ctx); err != nil {
			return err
		}
	}
}

// progress is what a round of claims may change beside the places. A request that
// progressed goes on at once. Each part is bounded: a cell is lost once and has one retry for each of
// its other replicas, and a host that rejected a claim is not chosen again.
type progress struct {
	lost, rejections    int
	retriesAfterUnknown []int
}

func (s *selection) progress() progress {
	return progress{len(s.lostReasons()), len(s.rejections), slices.Clone(s.retriesAfterUnknown)}
}

func (p progress) equal(o progress) bool {
	return p.lost == o.lost && p.rejections == o.rejections &&
		slices.Equal(p.retriesAfterUnknown, o.retriesAfterUnknown)
}

// propose merges; before it lets "no host" stand it asks the cells too that were
// left out by their summaries, which may be late, and all cells for what is there by
// the last that any of their replicas did.
func (s *selection) propose(ctx context.Context, pending []int) (*merged, error) {
	m, err := s.merge(ctx, pending)
	if err != nil || len(m.existing) > 0 || m.result.Failed < 0 {
		return m, err
	}
	doubtful := false
	for i := range s.skip {
		if s.skip[i] != "" && !s.final[i] {
			s.skip[i], doubtful = "", true
		}
	}
	if !doubtful && !m.mayBeStale {
		return m, nil
	}
	s.upToDate = true
	defer func() { s.upToDate = false }()
	return s.merge(ctx, pending)
}

// pending lists the instances without a place.
func (s *selection) pending() []int {
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
func (s *selection) membersVisible(m *merged) error {
	if !hardAffinity(s.request) || len(s.request.Group.Hosts) > 0 || len(s.lostReasons()) == 0 {
		return nil
	}
	for _, p := range m.result.First {
		if p != nil && len(p.GroupHosts) > 0 {
			return nil
		}
	}
	if e := cellclient.Overloaded(s.lost, "members of server group %s may be in cells that do not answer: %s", s.request.Group.UUID, strings.Join(s.lostReasons(), "; ")); e != nil {
		return e.With("cells", s.lostNames())
	}
	return fault.New(fault.CellUnavailable, "members of server group %s may be in cells that do not answer: %s",
		s.request.Group.UUID, strings.Join(s.lostReasons(), "; ")).With("cells", s.lostNames())
}

// explain gives the error to answer with. A deadline that passed is reported as
// the cells that were waited for.
func (s *selection) explain(ctx context.Context, err error) error {
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
				strings.Join(unknown, ", "), cellclient.ReasonOf(err)).With("cells", strings.Join(unknown, ","))
		}
	}
	return err
}

// newID makes an id that sorts by time.
func (g *Gateway) newID() string {
	return ulid.MustNew(ulid.Timestamp(g.now()), ulid.DefaultEntropy()).String()
}
