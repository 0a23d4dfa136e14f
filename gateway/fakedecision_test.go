package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func (f *fakeCell) PutDecisions(ctx context.Context, req *cellv1.PutDecisionsRequest) (*cellv1.PutDecisionsResponse, error) {
	if err := f.enter(ctx, "PutDecisions", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.puts++
	if f.decisions == nil {
		f.decisions = map[string]*cellgatev1.Decision{}
	}
	for _, d := range req.GetDecisions() {
		f.decisions[d.GetDecisionId()] = d
	}
	f.mu.Unlock()
	return &cellv1.PutDecisionsResponse{}, f.leave("PutDecisions", req)
}

func (f *fakeCell) GetDecision(ctx context.Context, req *cellv1.GetDecisionRequest) (*cellv1.GetDecisionResponse, error) {
	if err := f.enter(ctx, "GetDecision", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.decisions[req.GetDecisionId()]
	if d == nil {
		return nil, fault.New(fault.NotFound, "no such decision")
	}
	return &cellv1.GetDecisionResponse{Decision: d}, nil
}

func (f *fakeCell) ListDecisions(ctx context.Context, req *cellv1.ListDecisionsRequest) (*cellv1.ListDecisionsResponse, error) {
	if err := f.enter(ctx, "ListDecisions", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &cellv1.ListDecisionsResponse{}
	for _, d := range f.decisions {
		if (req.GetBefore() == "" || ulidIn(d) < req.GetBefore()) &&
			(req.GetInstanceUuid() == "" || slices.Contains(d.GetInstanceUuids(), req.GetInstanceUuid())) &&
			(req.GetProjectId() == "" || d.GetProjectId() == req.GetProjectId()) &&
			(req.GetRequestId() == "" || d.GetRequestId() == req.GetRequestId()) &&
			(!req.GetRefused() || d.GetRefusal() != "") {
			resp.Decisions = append(resp.Decisions, d)
		}
	}
	slices.SortFunc(resp.Decisions, func(a, b *cellgatev1.Decision) int { return cmp.Compare(ulidIn(b), ulidIn(a)) })
	most := int(req.GetPageSize())
	if f.shortPages > 0 {
		most = min(most, f.shortPages)
	}
	if len(resp.GetDecisions()) > most {
		resp.Decisions, resp.More = resp.GetDecisions()[:most], true
	}
	return resp, nil
}

func ulidIn(d *cellgatev1.Decision) string {
	_, id, _ := strings.Cut(d.GetDecisionId(), ".")
	return id
}
