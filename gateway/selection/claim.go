package selection

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// claimOrder is a claim to be made.
type claimOrder struct {
	index  int // of the instance
	cell   int
	host   string // service host
	claim  *cellv1.NewClaim
	answer *cellgatev1.Destinations
}

// claimResult is the outcome of a claimOrder. Exactly one of claim, refusal and err is set. With err, the outcome is
// unknown if sent is true; if sent is false, the call never left the gateway.
type claimResult struct {
	claim   *cellgatev1.Claim
	refusal *cellv1.Refusal
	err     error
	sent    bool
}

// claimTarget is a cell and the replica that owns the hosts. Claims with one target share a
// ClaimBatch.
type claimTarget struct {
	cell  int
	owner *cellclient.Replica
}

// orders makes a claim for each pick. The claim includes the answer that a repeated request
// gets.
func (s *selection) orders(m *merged, pending []int) []claimOrder {
	var out []claimOrder
	for k, pick := range m.result.Picks {
		index, cell := pending[k], m.cells[pick.Cell]
		id := s.svc.newID()
		s.attemptID = cmp.Or(s.attemptID, id)
		answer, takes := s.destinationsOf(s.instances[index], s.svc.Cells.All[cell], pick, id), s.allocationOn(&pick.Candidate)
		// Marshalling fails only on invalid UTF-8, and all texts came in as valid UTF-8.
		text, _ := proto.Marshal(answer)
		out = append(out, claimOrder{
			index: index, cell: cell, host: pick.Candidate.ServiceHost, answer: answer,
			claim: &cellv1.NewClaim{
				ClaimId:       id,
				ConsumerUuid:  s.instances[index].String(),
				HostUuid:      pick.Candidate.Host.String(),
				Allocations:   wire.EncodeAmounts(takes.Amounts),
				Ttl:           durationpb.New(s.ttl),
				ProjectId:     s.project,
				UserId:        s.user,
				RequestId:     s.req.GetRequestId(),
				Fingerprint:   s.fingerprint,
				DecisionId:    s.decision,
				InstanceIndex: int32(index),
				Group:         s.claimGroup(),
				Answer:        text,
				Attempt:       s.attemptID,
				Guest:         guestOf(s.request, s.rules, takes),
			},
		})
		s.markMove(out[len(out)-1].claim)
	}
	return out
}

func (s *selection) claimGroup() *cellv1.ClaimGroup {
	g := s.request.Group
	if g == nil {
		return nil
	}
	return &cellv1.ClaimGroup{
		Uuid: g.UUID.String(), Policy: string(g.Policy), MaxServerPerHost: int32(max(g.MaxPerHost, 1)), Members: wire.IDTexts(g.Members),
	}
}

// claim makes the claims, in all cells at once. A claim that was made gives its instance a place;
// a refused one leaves it pending. A claim of unknown outcome is released, and its instance stays
// pending. Its cell is then lost, unless another of its replicas did the release. An error ends
// the request.
func (s *selection) claim(ctx context.Context, orders []claimOrder) error {
	if !s.claims() {
		for _, o := range orders {
			s.places[o.index] = &place{cell: o.cell, answer: o.answer}
		}
		return nil
	}
	if hardAffinity(s.request) {
		pinned, err := s.pinGroup(ctx, orders)
		if err != nil || !pinned {
			return err
		}
	}
	results := s.send(ctx, orders)
	callerGone := ctx.Err() != nil
	unknown, failed := map[int][]*cellv1.ClaimRef{}, map[int]error{}
	var unpin []string
	var fatal error
	placed, refused := 0, 0
	for i, o := range orders {
		r := results[i]
		switch {
		case r.claim != nil:
			placed++
			s.places[o.index] = &place{cell: o.cell, answer: o.answer, claim: r.claim, attempt: o.claim.GetAttempt()}
			continue
		case r.refusal != nil && fault.Kind(r.refusal.GetReason()) == fault.ClaimRejected:
			s.rejectedBy(o, r.refusal)
		case r.refusal != nil && fault.Kind(r.refusal.GetReason()) == fault.InvalidRequest:
			fatal = fault.New(fault.Internal, "cell %s refused claim %s: %s", s.svc.Cells.All[o.cell].Name(), o.claim.GetClaimId(), r.refusal.GetMessage())
		case r.refusal != nil && fault.Kind(r.refusal.GetReason()) == fault.NoValidHost:
			refused++
		case r.err != nil:
			failed[o.cell] = r.err
			if r.sent {
				unknown[o.cell] = append(unknown[o.cell], &cellv1.ClaimRef{
					ClaimId: o.claim.GetClaimId(), ConsumerUuid: o.claim.GetConsumerUuid(), Attempt: o.claim.GetAttempt(),
				})
				if callerGone {
					continue // a retry may take the claim over: its affinity pin ends with its release
				}
			}
		}
		unpin = append(unpin, o.claim.GetClaimId())
	}
	s.recordContention(placed, refused)
	for cell, refs := range unknown {
		if d := s.doubt(ctx, cell, refs, callerGone); !callerGone && s.chance(ctx, d) {
			delete(failed, cell)
		}
	}
	for cell, err := range failed {
		s.markUnavailable(ctx, cell, err)
	}
	if hardAffinity(s.request) {
		s.unpinLater(ctx, unpin)
	}
	if callerGone {
		return ctx.Err()
	}
	return fatal
}

// send sends each order to the owner of its host, in their order, and gives the results in
// the order of orders.
func (s *selection) send(ctx context.Context, orders []claimOrder) []claimResult {
	ctx, step := s.svc.Telemetry.Stage(ctx, telemetry.StageClaim)
	defer step.End(nil)
	results := make([]claimResult, len(orders))
	byTarget := map[claimTarget][]int{}
	for i, o := range orders {
		to := claimTarget{o.cell, s.svc.Cells.All[o.cell].InOrder(o.claim.GetHostUuid())[0]}
		byTarget[to] = append(byTarget[to], i)
	}
	budget := cellclient.StepBudget(ctx, s.svc.Cells.ClaimBudget)
	sendTo := func(to claimTarget, indices []int) {
		ops := make([]*cellv1.ClaimOp, len(indices))
		for k, i := range indices {
			ops[k] = &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: orders[i].claim}}
		}
		outcomes, sent, err := s.batch(ctx, to.cell, budget, ops)
		for k, i := range indices {
			if k >= len(outcomes) {
				results[i] = claimResult{err: err, sent: k < sent}
				continue
			}
			results[i] = madeOf(outcomes[k])
		}
	}
	var all sync.WaitGroup
	for to, indices := range byTarget {
		if len(byTarget) == 1 {
			sendTo(to, indices) // this goroutine's stack has grown already
			break
		}
		all.Go(func() { sendTo(to, indices) })
	}
	all.Wait()
	for to, indices := range byTarget {
		for _, i := range indices {
			if results[i].refusal != nil {
				s.cells[to.cell].nextReplica = to.owner
			}
		}
	}
	return results
}

// batch does operations in one cell, within budget; see cellclient.Cell.Operate.
func (s *selection) batch(ctx context.Context, cell int, budget time.Duration, ops []*cellv1.ClaimOp) (outcomes []*cellv1.ClaimOutcome, sent int, err error) {
	c := s.svc.Cells.All[cell]
	at, span := s.svc.Telemetry.Span(ctx, telemetry.SpanClaimCell)
	span.Text(telemetry.AttrCell, c.Name())
	span.Int(telemetry.AttrOps, len(ops))
	outcomes, sent, err = c.Operate(at, budget, ops)
	span.End(err)
	return outcomes, sent, err
}

func madeOf(o *cellv1.ClaimOutcome) claimResult {
	if r := o.GetRefusal(); r != nil {
		if err := cellclient.RefusalError(r.GetReason(), r.GetMessage()); cellclient.IsInconclusive(err) {
			return claimResult{err: err, sent: true}
		}
		return claimResult{refusal: r, sent: true}
	}
	if o.GetClaim() == nil {
		return claimResult{err: fault.New(fault.Internal, "the cell's outcome is empty"), sent: true}
	}
	return claimResult{claim: o.GetClaim(), sent: true}
}
