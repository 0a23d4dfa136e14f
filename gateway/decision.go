package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/internal/wire"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// record has the decision on the request written down, and gives the error to
// answer with: err, naming the decision. Hosts that were chosen are written in the
// first winner's cell; a refusal in one of the cells that answered. What decided
// nothing is not written: a repeat that found all of its claims (its decision is
// the one that made them), and a caller who gave up.
func (s *selection) record(ctx context.Context, resp *cellgatev1.SelectDestinationsResponse, err error) error {
	if err == nil {
		if !s.allKept() {
			d := s.decisionOf(s.decision)
			d.Destinations, d.Cells, d.Exact, d.Partial = resp.GetDestinations(), resp.GetCells(), resp.GetExact(), resp.GetPartial()
			s.g.decisions.put(s.g.keeperOf(s.decision), d)
		}
		return nil
	}
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	var answered []*cellclient.Cell
	for i, c := range s.g.cells.All {
		if s.answered[i] {
			answered = append(answered, c)
		}
	}
	id := s.g.newID()
	keeper := cellclient.Rendezvous(id, answered)
	if keeper == nil {
		s.g.decisions.put(nil, nil)
		return err
	}
	id = keeper.Name() + "." + id
	d := s.decisionOf(id)
	d.Refusal, d.Message = string(e.Kind), cellclient.ReasonOf(e)
	d.Cells, d.Partial = s.cellReports()
	if detail, ok := e.Detail.(*cellgatev1.NoValidHost); ok {
		d.NoValidHost, d.Cells = detail, detail.GetCells()
	}
	s.g.decisions.put(keeper, d)
	telemetry.Current(ctx).Text(telemetry.AttrDecision, id)
	// The error may be shared with the other queries of a batch.
	named := *e
	named.Metadata = maps.Clone(e.Metadata)
	return named.With("decision_id", id)
}

// decisionOf is what is written of any answer.
func (s *selection) decisionOf(id string) *cellgatev1.Decision {
	return &cellgatev1.Decision{
		DecisionId: id, DecidedAt: timestamppb.New(s.g.now()), RequestId: s.req.GetRequestId(), Operation: s.operation,
		InstanceUuids: wire.IDTexts(s.instances), ProjectId: s.project, UserId: s.user, DryRun: s.req.GetDryRun(),
		Took: durationpb.New(time.Since(s.began)), Rounds: int32(s.rounds), LostRaces: int32(s.losses), IgnoredFields: s.ignored, RejectedClaims: s.rejections,
	}
}

// allKept reports whether every instance has the claim that an earlier call made.
func (s *selection) allKept() bool {
	return !slices.ContainsFunc(s.places, func(p *place) bool { return p == nil || !p.fromEarlierCall })
}

// keeperOf gives the cell that keeps a decision, by its id; nil when none is
// configured.
func (g *Gateway) keeperOf(id string) *cellclient.Cell {
	name, _ := splitDecision(id)
	i := slices.IndexFunc(g.cells.All, func(c *cellclient.Cell) bool { return c.Name() == name })
	if i < 0 {
		return nil
	}
	return g.cells.All[i]
}

// splitDecision gives the cell and the ulid of a decision_id.
func splitDecision(id string) (cell, ulid string) {
	i := strings.LastIndexByte(id, '.')
	if i < 0 {
		return "", id
	}
	return id[:i], id[i+1:]
}

// cutDown makes a decision of most bytes at most, by leaving out what can be spared
// soonest; its message says what. What it shares with an answer is not touched. It
// gives how many bytes the decision has.
func cutDown(d *cellgatev1.Decision, most int) int {
	const without = "cut down to what is kept: without "
	cuts := []struct {
		what string
		do   func()
	}{
		{"alternates", func() { eachDestination(d, func(x *cellgatev1.Destinations) { x.Alternates = nil }) }},
		{"alternates and allocation requests", func() {
			eachDestination(d, func(x *cellgatev1.Destinations) {
				x.Selected = proto.CloneOf(x.GetSelected())
				x.Selected.AllocationRequest, x.Selected.Limits = "", nil
			})
		}},
		{"destinations, counts of rejects and ignored fields", func() {
			d.Destinations, d.NoValidHost, d.IgnoredFields, d.Cells, d.RejectedClaims = nil, nil, nil, nil, nil
		}},
	}
	note := d.GetMessage()
	for _, cut := range cuts {
		if size := proto.Size(d); size <= most {
			return size
		}
		cut.do()
		d.Message = note
		if note != "" {
			d.Message += "; "
		}
		d.Message += without + cut.what
	}
	if len(d.GetMessage()) > most/2 {
		d.Message = strings.ToValidUTF8(d.GetMessage()[:most/2], "")
	}
	return proto.Size(d)
}

// eachDestination replaces each destination by a copy that is changed.
func eachDestination(d *cellgatev1.Decision, change func(*cellgatev1.Destinations)) {
	out := make([]*cellgatev1.Destinations, len(d.GetDestinations()))
	for i, x := range d.GetDestinations() {
		out[i] = &cellgatev1.Destinations{InstanceUuid: x.GetInstanceUuid(), Selected: x.GetSelected(), Alternates: x.GetAlternates()}
		change(out[i])
	}
	d.Destinations = out
}
