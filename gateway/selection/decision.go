package selection

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/decisions"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/internal/wire"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// record queues the decision on the request to be written, and gives the error to answer with: err, with the
// decision's id. A selection is written in the first winner's cell. A refusal is written in a cell that answered,
// else in one that was not asked. Two results are not written: a repeat that found all of its claims, since the
// claims' own decision is stored; and a request whose caller gave up.
func (s *selection) record(ctx context.Context, resp *cellgatev1.SelectDestinationsResponse, err error) error {
	if err == nil {
		if !s.allKept() {
			d := s.decisionOf(ctx, s.decision)
			d.Destinations, d.Cells, d.Exact, d.Partial = resp.GetDestinations(), resp.GetCells(), resp.GetExact(), resp.GetPartial()
			s.svc.Decisions.Put(s.svc.Decisions.KeeperOf(s.decision), d, s.ranking())
		}
		return nil
	}
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	var keepers []*cellclient.Cell
	for i, c := range s.svc.Cells.All {
		if s.cells[i].answered {
			keepers = append(keepers, c)
		}
	}
	if len(keepers) == 0 { // a cell that was not asked can keep it
		for i, c := range s.svc.Cells.All {
			if !c.Disabled() && s.cells[i].lost == nil && c.Unusable() == nil {
				keepers = append(keepers, c)
			}
		}
	}
	id := s.svc.newID()
	keeper := cellclient.Rendezvous(id, keepers)
	if keeper == nil {
		s.svc.Decisions.Put(nil, nil, nil)
		return err
	}
	id = keeper.Name() + "." + id
	d := s.decisionOf(ctx, id)
	d.Refusal, d.Message = string(e.Kind), cellclient.ReasonOf(e)
	d.Cells, d.Partial = s.cellReports()
	if detail, ok := e.Detail.(*cellgatev1.NoValidHost); ok {
		d.NoValidHost, d.Cells = detail, detail.GetCells()
	}
	s.svc.Decisions.Put(keeper, d, nil)
	telemetry.Current(ctx).Text(telemetry.AttrDecision, id)
	// The error may be shared with other queries of a batch, so a copy is changed.
	named := *e
	named.Metadata = maps.Clone(e.Metadata)
	return named.With("decision_id", id)
}

// decisionOf gives the fields that the decisions of all answers have.
func (s *selection) decisionOf(ctx context.Context, id string) *cellgatev1.Decision {
	return &cellgatev1.Decision{
		DecisionId: id, DecidedAt: timestamppb.New(decisions.TimeOf(id, s.svc.Now())), RequestId: s.req.GetRequestId(), Operation: s.operation,
		InstanceUuids: wire.IDTexts(s.instances), ProjectId: s.project, UserId: s.user, DryRun: s.req.GetDryRun(),
		Took: durationpb.New(time.Since(s.began)), Rounds: int32(s.rounds), LostRaces: int32(s.losses), IgnoredFields: s.ignored, RejectedClaims: s.rejections,
		TraceId: telemetry.TraceID(ctx),
	}
}

// allKept reports whether every instance keeps the claim of an earlier call.
func (s *selection) allKept() bool {
	return !slices.ContainsFunc(s.places, func(p *place) bool { return p == nil || !p.fromEarlierCall })
}
