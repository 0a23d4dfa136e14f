package selection

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
	svc *Service
	callerInput
	// request is the request to plan: originalRequest, or that narrowed to the host of an affinity pin.
	request, originalRequest *schedule.Request
	rules                    *schedule.Rules
	// cells are in the order of configuration, places in that of the instances; a place is nil until the instance has
	// one.
	cells  []cellState
	places []*place
	// source is the claim that a move replaces; nil until it is found, and
	// when there is none.
	source *existingClaim
	// decision is the decision id: from the first pick that places an instance, or from a
	// claim that an earlier call made.
	decision string
	// first is the merge that placed the first instance; nil before, and when an earlier call placed it.
	first *merged
	// inexact is why the answer has exact=false; empty if it is exact.
	inexact telemetry.Inexact
	// rejections are claims that their hosts rejected; plans leave these hosts out.
	rejections []*cellgatev1.RejectedClaim
	race
	// attemptID orders the runs of one request (takeover.go): the first claim_id that this run
	// mints, or an id of its own; empty before. endedClaims are claims of earlier runs that
	// have ended; doubts are claims of unknown outcome, which are being released.
	attemptID   string
	endedClaims map[string]bool
	doubts      []*doubt
	// rounds counts the proposal rounds of all merges.
	rounds int
	// upToDate: replicas read their journal before they answer.
	upToDate bool
	// askedSkippedCells: cells that routing left out were asked for existing claims.
	askedSkippedCells bool
}

// callerInput is what the caller asks for.
type callerInput struct {
	req   *cellgatev1.SelectDestinationsRequest
	began time.Time
	// expressionFields are the request's fields with expressions.
	expressionFields []string
	project, user    string
	// operation is never OPERATION_UNSPECIFIED.
	operation cellgatev1.Operation
	// ignored are the paths of fields that do not matter to placement.
	ignored     []string
	instances   []schedule.ID
	seed        uint64
	fingerprint []byte
	alternates  int
	// dryRun: nothing is claimed.
	dryRun bool
	ttl    time.Duration
}

// cellState is what a request knows of a cell.
type cellState struct {
	// skip is why routing left the cell out, final whether that reason stands; lost is why the cell did not answer.
	skip  string
	final bool
	lost  error
	// gate is the state of the cell's gate in its answers; unspecified before the first.
	gate cellgatev1.Gate_State
	// answered: the cell has answered a call of this request.
	answered bool
	// nextReplica is the replica to ask next. The last one that answered has this version of
	// the table; the last one that refused a claim has the newest rows.
	nextReplica *cellclient.Replica
	// retriesAfterUnknown counts the retries in the cell after a claim of unknown outcome.
	retriesAfterUnknown int
	// report is the cell's report in the answer; nil before a merge.
	report *cellgatev1.CellReport
}

// race counts the request's conflicts with other requests.
type race struct {
	// shape is the request's shape, width how many of the best hosts its picks are chosen
	// among; both of the last merge.
	shape shape
	width int
	// losses counts the rounds in which some claim lost a race, restarts how often all claims
	// were released to start over.
	losses, restarts int
}

// place is an instance's selected host and claim.
type place struct {
	cell   int
	answer *cellgatev1.Destinations
	// claim is nil in a dry run.
	claim *cellgatev1.Claim
	// fromEarlierCall: an earlier call of the same request made the claim, so this call does
	// not release it.
	fromEarlierCall bool
	// attempt is the attempt id of the run that made the claim; empty with fromEarlierCall.
	attempt string
}

// Select serves one request. Naively: rank all hosts, take the best for each instance, write the claims. What differs:
// the hosts are in cells that may not answer, others claim at the same time, and the same request may come twice.
//
//  1. Translate to a schedule.Request; fix the seed and the fingerprint. (The server bounded the deadline, checked the
//     rules of fields and admitted the request before.)
//  2. Wait while the same request runs already (flight.go).
//  3. If the instance is rebuilt, find its host.
//  4. Route: leave out the cells that cannot hold the request, whatever their load.
//  5. Propose and merge: ask the others, in rounds (merge.go).
//  6. Take over the claims that an earlier call of this request made (takeover.go); a move leaves its source in place.
//     Any other claim of the instances ends the request.
//  7. Claim the picks, each in its cell (claim.go); pin the group first when it has hard affinity (pin.go). Instances
//     that lost a race, or whose cell did not answer, go back to 5 alone, until the deadline (lostrace.go).
//  8. Answer, or give back what was claimed.
//  9. Record the decision, after the answer (decision.go).
func (svc *Service) Select(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	// 1
	_, step := svc.Telemetry.Stage(ctx, telemetry.StageTranslate)
	s, err := svc.newSelection(ctx, req)
	step.End(err)
	if err == nil {
		err = s.checkAnswerSize()
	}
	if err != nil {
		return nil, err
	}
	// 2
	leave, err := s.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	// 3
	err = s.toRebuild(ctx)
	// 4
	if err == nil {
		s.route(ctx)
	}
	// 5, 6, 7
	if err == nil {
		err = s.place(ctx)
	}
	// 8
	var resp *cellgatev1.SelectDestinationsResponse
	if err == nil {
		resp, err = s.answer(ctx)
	}
	if err != nil {
		resp, err = nil, s.giveUp(ctx, err)
	}
	// 9
	return resp, s.record(ctx, resp, err)
}

// answer gives the answer, or ctx's error if the caller no longer waits.
func (s *selection) answer(ctx context.Context) (*cellgatev1.SelectDestinationsResponse, error) {
	_, step := s.svc.Telemetry.Stage(ctx, telemetry.StageAnswer)
	resp := s.respond()
	step.End(ctx.Err())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.recordMetrics(ctx, resp)
	return resp, nil
}

// giveUp releases the request's claims, and gives the error to answer with.
func (s *selection) giveUp(ctx context.Context, err error) error {
	// Release logs a failure; what remains ends with its lease.
	_ = s.undo(ctx)
	s.recordMetrics(ctx, nil)
	return s.explain(ctx, err)
}

// place finds a place for every instance. If it fails, the claims made so far are still in
// s.places.
func (s *selection) place(ctx context.Context) error {
	for {
		began := time.Now()
		// 5
		pending := s.pending()
		m, err := s.propose(ctx, pending)
		if err != nil {
			return err
		}
		// 6
		if len(m.existing) > 0 {
			err := s.takeOver(ctx, m.existing)
			if fault.KindOf(err) == fault.AlreadyExists && (m.mayBeStale || m.staleClaims) && !s.upToDate {
				s.upToDate, s.askedSkippedCells = true, false // another replica may have ended that claim
				continue
			}
			if err != nil {
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
			return s.noHost(ctx, m, pending, false)
		}
		// 7
		s.spreadPicks(m)
		if pending[0] == 0 {
			s.first = m
		}
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
			s.decision = s.svc.Cells.All[m.cells[m.result.Picks[0].Cell]].Name() + "." + s.svc.newID()
		}
		orders := s.orders(m, pending)
		before := s.progress()
		if err := s.claim(ctx, orders); err != nil {
			return err
		}
		if len(s.pending()) == 0 {
			return nil
		}
		if len(s.pending()) == len(s.places) {
			s.decision = "" // no claim has this id, and the next pick may be in a cell that answers
		}
		if s.progress() != before {
			continue // without counting a lost race
		}
		s.losses++
		s.svc.Telemetry.RaceLost()
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
type progress struct{ lost, rejections, retriesAfterUnknown int }

func (s *selection) progress() progress {
	p := progress{lost: s.lost().Len(), rejections: len(s.rejections)}
	for _, c := range s.cells {
		p.retriesAfterUnknown += c.retriesAfterUnknown
	}
	return p
}

// propose merges. If the result is "no host", it merges again before it lets that stand. Then it also asks the cells
// that routing left out by their summaries, which may be late, and every replica first reads the last commits of its
// cell. A cell that then does not answer stays left out if others do.
func (s *selection) propose(ctx context.Context, pending []int) (*merged, error) {
	m, err := s.merge(ctx, pending)
	if err != nil || len(m.existing) > 0 || m.result.Failed < 0 {
		return m, err
	}
	doubted := map[int]string{}
	for i := range s.cells {
		if s.cells[i].skip != "" && !s.cells[i].final {
			doubted[i], s.cells[i].skip = s.cells[i].skip, ""
		}
	}
	if len(doubted) == 0 && !m.mayBeStale {
		return m, nil
	}
	s.upToDate = true
	defer func() { s.upToDate = false }()
	m, err = s.merge(ctx, pending)
	someAnswered := slices.ContainsFunc(s.cells, func(c cellState) bool { return c.answered })
	for i, why := range doubted {
		if s.cells[i].lost != nil && someAnswered { // its last summary decides
			s.cells[i].lost, s.cells[i].skip, s.cells[i].final = nil, why, true
		}
	}
	return m, err
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

// membersVisible refuses to place a member of a group with hard affinity if no other member
// is visible and a cell does not answer: the other members could be there.
func (s *selection) membersVisible(m *merged) error {
	if !hardAffinity(s.request) || len(s.request.Group.Hosts) > 0 || s.lost().Len() == 0 {
		return nil
	}
	for _, p := range m.result.First {
		if p != nil && len(p.GroupHosts) > 0 {
			return nil
		}
	}
	return s.lost().Fault("members of server group %s may be in cells that do not answer", s.request.Group.UUID)
}

// explain gives the error to answer with. If the deadline passed, it names the cells that
// were waited for, or the conflicts. An error that has a kind names its own reason, even if
// its cause is the deadline of a call to a cell.
func (s *selection) explain(ctx context.Context, err error) error {
	var named *fault.Error
	switch {
	case errors.As(err, &named):
	case errors.Is(err, context.DeadlineExceeded):
		lost := s.lost()
		if e := s.contended(); e != nil && lost.Len() == 0 {
			return e
		}
		message := "the request's deadline passed"
		if lost.Len() > 0 {
			message += "; " + lost.String()
		}
		err = fault.Wrap(fault.CellUnavailable, err, "%s", message).With("cells", lost.Names())
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

// newID makes an id; ids sort by time.
func (svc *Service) newID() string {
	return ulid.MustNew(ulid.Timestamp(svc.Now()), ulid.DefaultEntropy()).String()
}
