package cell

import (
	"cmp"
	"context"
	"errors"

	"cellgate/cell/proposals"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// ClaimBatch commits the operations in order, together with others that wait for the lane. Every
// operation has its own outcome; refusals and unknown outcomes (OUTCOME_UNKNOWN) are outcomes, too. The
// call as a whole fails only if nothing was done, or if the caller gives up. Then operations may still
// be done, and leases end the claims that nobody asks for.
func (s *scheduler) ClaimBatch(ctx context.Context, req *cellv1.ClaimBatchRequest) (*cellv1.ClaimBatchResponse, error) {
	if err := s.serving(); err != nil {
		return nil, err
	}
	out := make([]*cellv1.ClaimOutcome, len(req.GetOps()))
	ops := make([]shard.Op, 0, len(out))
	places := make([]int, 0, len(out))
	for i, in := range req.GetOps() {
		op, err := opOf(in)
		if err == nil && in.GetRelease().GetUnlessReported() {
			err = cmp.Or(s.loaded(), s.agents.InstanceGone(op.Release.ClaimID))
		}
		if err != nil {
			out[i] = &cellv1.ClaimOutcome{Refusal: refusalOfError(err)}
			continue
		}
		ops = append(ops, op)
		places = append(places, i)
	}
	waits := s.agents.Verify.Expect(ops)
	answers, err := s.queue.Do(ctx, ops, true)
	if err == nil {
		err = nothingDone(answers)
	}
	if err != nil {
		s.agents.Verify.ForgetWaits(waits)
		return nil, err
	}
	s.agents.Verify.Await(ctx, waits, ops, answers)
	for n, a := range answers {
		out[places[n]] = s.outcomeOf(a)
	}
	return &cellv1.ClaimBatchResponse{Outcomes: out}, nil
}

// nothingDone returns an error if all operations failed and certainly none was done: the caller may
// then try all of them elsewhere.
func nothingDone(answers []replica.Answer) error {
	for _, a := range answers {
		if a.Err == nil || fault.KindOf(a.Err) == fault.OutcomeUnknown {
			return nil
		}
	}
	if len(answers) == 0 {
		return nil
	}
	return answers[0].Err
}

func (c *Cell) outcomeOf(a replica.Answer) *cellv1.ClaimOutcome {
	if a.Err != nil {
		return &cellv1.ClaimOutcome{Refusal: refusalOfError(a.Err)}
	}
	out := &cellv1.ClaimOutcome{PinnedServiceHost: a.Outcome.PinnedTo, PinHolders: a.Outcome.PinHolders}
	if claim := a.Outcome.Claim; claim != nil {
		out.Claim = claimOf(c.cfg.Name, claim)
		out.ClaimOrigin = originOf(claim)
	}
	if r := a.Outcome.Refusal; r != nil {
		out.Refusal = &cellv1.Refusal{Reason: string(r.Kind), Message: r.Message, Filter: r.Filter, Detail: r.Detail, GroupHosts: r.GroupHosts}
	}
	return out
}

// refusalOfError converts an operation's error to a refusal.
func refusalOfError(err error) *cellv1.Refusal {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &cellv1.Refusal{Reason: string(fault.CellUnavailable), Message: "the caller gave up before the operation was done"}
	}
	f := proposals.FailureOf(err)
	return &cellv1.Refusal{Reason: f.GetReason(), Message: f.GetMessage()}
}

// ListClaims lists live claims from the shard, by claim_id. If the request names claims, it lists
// those, live or ended.
func (s *scheduler) ListClaims(ctx context.Context, req *cellv1.ListClaimsRequest) (*cellv1.ListClaimsResponse, error) {
	if err := s.serving(); err != nil {
		return nil, err
	}
	var r reader
	q := shard.ClaimQuery{ProjectID: req.GetProjectId(), After: req.GetAfter(), Limit: pageSize(req.GetPageSize())}
	for _, id := range r.IDs("consumer_uuids", req.GetConsumerUuids()) {
		q.ConsumerUUIDs = append(q.ConsumerUUIDs, id.String())
	}
	if ids := req.GetClaimIds(); len(ids) > 0 {
		q.ClaimIDs, q.Ended, q.Limit = ids, true, len(ids)
	}
	if req.GetHostUuid() != "" {
		q.HostUUID = r.UUID("host_uuid", req.GetHostUuid())
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	page, err := s.store.FindClaims(ctx, q)
	if err != nil {
		return nil, replica.StoreFault(err)
	}
	out := &cellv1.ListClaimsResponse{More: page.More}
	for _, claim := range page.Claims {
		out.Claims = append(out.Claims, claimOf(s.cfg.Name, claim))
		out.InstanceSeen = append(out.InstanceSeen, claim.Seen)
		if req.GetWantOrigins() {
			out.ClaimOrigins = append(out.ClaimOrigins, originOf(claim))
		}
		if req.GetWantNeeds() {
			needs, err := needsOf(claim)
			if err != nil {
				return nil, fault.Wrap(fault.Internal, err, "claim %s is malformed in the shard", claim.ClaimID)
			}
			out.Needs = append(out.Needs, needs)
		}
	}
	return out, nil
}

// pageSize is the size of a page for a requested size n.
func pageSize(n int32) int {
	if n == 0 {
		return 100
	}
	return int(n)
}
