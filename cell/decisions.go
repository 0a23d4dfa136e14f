package cell

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// PutDecisions stores gateways' decisions, all or none. They do not go through the lane: claims do not
// wait for them, and a crash may lose the last ones.
func (s *scheduler) PutDecisions(ctx context.Context, req *cellv1.PutDecisionsRequest) (*cellv1.PutDecisionsResponse, error) {
	if err := s.serving(); err != nil {
		return nil, err
	}
	var r reader
	ds := make([]shard.Decision, len(req.GetDecisions()))
	for i, in := range req.GetDecisions() {
		if id, mine := in.GetDecisionId(), s.cfg.Name+"."; !strings.HasPrefix(id, mine) {
			r.Problem(wire.ItemPath("decisions", i, ".decision_id"), "is %q, must begin with %q, the cell that keeps it", id, mine)
		}
		if in.GetDecidedAt() == nil {
			r.Problem(wire.ItemPath("decisions", i, ".decided_at"), "must be set")
		}
		ds[i] = shard.Decision{ID: in.GetDecisionId(), At: in.GetDecidedAt().AsTime(), Terms: in.GetTerms(), Body: in.GetBody()}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := s.store.PutDecisions(ctx, ds); err != nil {
		return nil, replica.StoreFault(err)
	}
	return &cellv1.PutDecisionsResponse{}, nil
}

// GetDecision reads one decision.
func (s *scheduler) GetDecision(ctx context.Context, req *cellv1.GetDecisionRequest) (*cellv1.GetDecisionResponse, error) {
	if err := s.serving(); err != nil {
		return nil, err
	}
	page, err := s.findDecisions(ctx, shard.DecisionQuery{ID: req.GetDecisionId(), Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Decisions) == 0 {
		return nil, fault.New(fault.NotFound, "cell %s has no decision %s", s.cfg.Name, req.GetDecisionId())
	}
	kept, err := keptIn(&page.Decisions[0])
	if err != nil {
		return nil, err
	}
	return &cellv1.GetDecisionResponse{Decision: kept.GetDecision(), Ranking: kept.GetRanking()}, nil
}

// ListDecisions lists decisions, the newest first.
func (s *scheduler) ListDecisions(ctx context.Context, req *cellv1.ListDecisionsRequest) (*cellv1.ListDecisionsResponse, error) {
	if err := s.serving(); err != nil {
		return nil, err
	}
	var r reader
	instance := ""
	if req.GetInstanceUuid() != "" {
		instance = r.UUID("instance_uuid", req.GetInstanceUuid())
	}
	q := shard.DecisionQuery{Limit: pageSize(req.GetPageSize()), Terms: wire.DecisionTermsAsked(req, instance), From: s.cfg.Name + "." + req.GetFrom()}
	if req.GetBefore() != "" {
		q.Before = s.cfg.Name + "." + req.GetBefore()
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	page, err := s.findDecisions(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &cellv1.ListDecisionsResponse{More: page.More}
	for i := range page.Decisions {
		kept, err := keptIn(&page.Decisions[i])
		if err != nil {
			return nil, err
		}
		out.Decisions = append(out.Decisions, kept.GetDecision())
	}
	return out, nil
}

// findDecisions leaves out decisions that are older than DecisionsKeep, by store time. The keeper drops
// them later.
func (s *scheduler) findDecisions(ctx context.Context, q shard.DecisionQuery) (shard.DecisionPage, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return shard.DecisionPage{}, replica.StoreFault(err)
	}
	oldest := now.Add(-s.cfg.DecisionsKeep)
	page, err := s.store.FindDecisions(ctx, q)
	if err != nil {
		return shard.DecisionPage{}, replica.StoreFault(err)
	}
	kept := len(page.Decisions)
	page.Decisions = slices.DeleteFunc(page.Decisions, func(d shard.Decision) bool { return d.At.Before(oldest) })
	// The newest come first: if one is too old, so are all that follow.
	page.More = page.More && len(page.Decisions) == kept
	return page, nil
}

func keptIn(d *shard.Decision) (*cellv1.KeptDecision, error) {
	out := &cellv1.KeptDecision{}
	if err := proto.Unmarshal(d.Body, out); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "decision %s is not readable", d.ID)
	}
	return out, nil
}
