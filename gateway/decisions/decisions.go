package decisions

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Get reads a decision from the cell that its id names, or from the queue of decisions for that cell.
func (r *Recorder) Get(ctx context.Context, id string) (*cellgatev1.Decision, error) {
	name, text := splitDecision(id)
	if _, err := ulid.ParseStrict(text); err != nil || name == "" {
		return nil, fault.Invalid("decision_id", "%q is no decision_id: <cell>.<ulid>", id)
	}
	c := r.KeeperOf(id)
	if c == nil {
		return nil, fault.New(fault.NotFound, "there is no decision %s: no cell %q is configured", id, name)
	}
	got, err := r.read(ctx, c, id)
	switch {
	case err == nil:
		d := got.GetDecision()
		if d.Ranked, err = wire.DecodeRanking(got.GetRanking()); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "decision %s cannot be shown", id)
		}
		r.join(ctx, d)
		return d, nil
	case fault.KindOf(err) == fault.NotFound:
		return nil, fault.New(fault.NotFound, "there is no decision %s: it was not written, or is no longer kept", id)
	case ctx.Err() == nil && cellclient.IsInconclusive(err):
		return nil, fault.Wrap(fault.CellUnavailable, err, "decision %s is kept by cell %s, which could not give it: %s", id, name, cellclient.ReasonOf(err)).
			With("cells", name)
	}
	return nil, err
}

func (r *Recorder) read(ctx context.Context, c *cellclient.Cell, id string) (*cellv1.GetDecisionResponse, error) {
	row := r.find(c, id)
	if row == nil {
		return cellclient.Call(ctx, c, r.cells.ClaimBudget, &cellv1.GetDecisionRequest{DecisionId: id}, cellv1.CellSchedulerClient.GetDecision)
	}
	var body cellv1.KeptDecision
	if err := proto.Unmarshal(row.GetBody(), &body); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "decision %s cannot be read", id)
	}
	return &cellv1.GetDecisionResponse{Decision: body.GetDecision(), Ranking: body.GetRanking()}, nil
}

// List lists decisions of all cells, the newest first. Every cell gives its own in that
// order. The page ends where a cell has more decisions that it did not give, so that none is
// skipped.
func (r *Recorder) List(ctx context.Context, req *cellgatev1.ListDecisionsRequest) (*cellgatev1.ListDecisionsResponse, error) {
	cells, err := r.cells.Selected(req.GetCell())
	if err != nil {
		return nil, err
	}
	list := cellclient.ListName(req)
	var from cellclient.PageToken
	if s := req.GetPageToken(); s != "" {
		if from, err = cellclient.ReadToken(s, list); err != nil {
			return nil, err
		}
	}
	before := from.After
	if until := req.GetUntil(); until != nil {
		if first := firstID(until.AsTime()); before == "" || first < before {
			before = first
		}
	}
	oldest := ""
	if req.GetSince() != nil {
		oldest = firstID(req.GetSince().AsTime())
	}
	size := cmp.Or(req.GetPageSize(), cellclient.DefaultPageSize)
	replies := cellclient.AskAll(ctx, cells, func(ctx context.Context, c *cellclient.Cell) (*cellv1.ListDecisionsResponse, error) {
		got, err := cellclient.Call(ctx, c, r.cells.ClaimBudget, &cellv1.ListDecisionsRequest{
			InstanceUuid: cellclient.Canonical(req.GetInstanceUuid()), ProjectId: req.GetProjectId(), RequestId: req.GetRequestId(),
			Outcome: req.GetOutcome(), TraceId: req.GetTraceId(), PageSize: size, Before: before, From: oldest,
			Reason: req.GetReason(), Host: cellclient.Canonical(req.GetHost()), HostCell: req.GetHostCell(),
		}, cellv1.CellSchedulerClient.ListDecisions)
		if err == nil && got.GetMore() && len(got.GetDecisions()) == 0 {
			err = fault.New(fault.Internal, "cell %s has more decisions and gives none", c.Name())
		}
		return got, err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	resp := &cellgatev1.ListDecisionsResponse{}
	var all []*cellgatev1.Decision
	more, least := false, ""
	for _, reply := range replies {
		if reply.Err != nil {
			resp.UnavailableCells = append(resp.UnavailableCells, reply.Cell.Name())
			continue
		}
		rows := reply.Got.GetDecisions()
		all = append(all, rows...)
		if reply.Got.GetMore() {
			more, least = true, max(least, ulidOf(rows[len(rows)-1]))
		}
	}
	slices.SortStableFunc(all, func(a, b *cellgatev1.Decision) int { return cmp.Compare(ulidOf(b), ulidOf(a)) })
	provable := len(all)
	for provable > 0 && ulidOf(all[provable-1]) < least {
		provable--
	}
	rows := cellclient.FitPage(nil, all[:min(provable, int(size))])
	resp.Decisions = rows
	if more || len(rows) < len(all) {
		resp.NextPageToken = cellclient.PageToken{List: list, After: ulidOf(rows[len(rows)-1])}.String()
	}
	return resp, nil
}

// firstID gives the least ulid of a time, rounded up to milliseconds; the ids of all later decisions are not less.
func firstID(t time.Time) string {
	var id ulid.ULID
	ms := t.Add(time.Millisecond - time.Nanosecond).UnixMilli()
	// For times before 1970 every decision is later; the greatest time of a ulid is in the year 10889.
	_ = id.SetTime(uint64(max(0, ms)))
	return id.String()
}

// Newest gives the id of the newest decision of the cells that answer; empty when they have none.
func (r *Recorder) Newest(ctx context.Context) (string, error) {
	got, err := r.List(ctx, &cellgatev1.ListDecisionsRequest{PageSize: 1})
	if err != nil || len(got.GetDecisions()) == 0 {
		return "", err
	}
	return got.GetDecisions()[0].GetDecisionId(), nil
}

func ulidOf(d *cellgatev1.Decision) string {
	_, id := splitDecision(d.GetDecisionId())
	return id
}
