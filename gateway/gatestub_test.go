package gateway

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// gateStub stands in for the gate of a cell: a test moves it. The hosts are those of the real cell,
// which has no gate.
type gateStub struct {
	mu   sync.Mutex
	gate *cellgatev1.Gate // nil before it is moved
	// importFor, if positive, is what reports of a gateway that offers to import are answered with.
	importFor time.Duration
	// closed is why the cell answers no query; empty if it answers.
	closed string
	// forgetful makes the stub ask once for services that were sent before.
	forgetful bool
	// onReport, unless nil, is called for each report.
	onReport func()
}

// gated is a cell whose gate is a stub, which has not been moved yet.
func gated(n int, hosts ...schedule.Host) *testCell {
	c := newCell(n, hosts...)
	c.gate = &gateStub{}
	return c
}

// set changes the stub.
func (g *gateStub) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// move moves the gate to a state, under the next epoch.
func (g *gateStub) move(to cellgatev1.Gate_State) {
	g.set(func() {
		g.gate = &cellgatev1.Gate{State: to, Epoch: g.gate.GetEpoch() + 1, Reason: "the test said so"}
	})
}

func (g *gateStub) answer(req any) (any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch req := req.(type) {
	case *cellv1.ReportLegacyRequest:
		if g.onReport != nil {
			g.onReport()
		}
		resp := &cellv1.ReportLegacyResponse{Gate: proto.CloneOf(g.gate)}
		if g.forgetful && req.GetUnchanged() {
			g.forgetful, resp.SendServices = false, true
		}
		if g.importFor > 0 && req.GetImporter() {
			resp.ImportFor = durationpb.New(g.importFor)
		}
		return resp, nil
	case *cellv1.PinGateRequest:
		state := req.GetPin()
		if state == cellgatev1.Gate_STATE_UNSPECIFIED {
			if g.gate.GetPin() == state {
				return nil, fault.New(fault.NotFound, "the gate is not pinned")
			}
			state = g.gate.GetState()
		}
		g.gate = &cellgatev1.Gate{State: state, Pin: req.GetPin(), PinReason: req.GetReason(), Epoch: g.gate.GetEpoch() + 1}
		return &cellv1.PinGateResponse{Gate: proto.CloneOf(g.gate)}, nil
	}
	return nil, nil
}

// alter writes the gate into what the cell answers.
func (g *gateStub) alter(resp any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch resp := resp.(type) {
	case *cellv1.ProposeBatchResponse:
		for i := range resp.GetProposals() {
			if g.closed != "" {
				resp.Proposals[i] = &cellv1.Proposal{Failure: &cellv1.Failure{Reason: string(fault.CellUnavailable), Message: g.closed}}
			}
			resp.Proposals[i].Gate = g.gate.GetState()
		}
	case *cellv1.GetSummaryResponse:
		if g.gate != nil {
			resp.Totals.Gate, resp.Totals.Reason = proto.CloneOf(g.gate), g.closed
		}
	}
}

// reported returns the reports but for those that only look.
func (c *testCell) reported() []*cellv1.ReportLegacyRequest {
	return slices.DeleteFunc(got[*cellv1.ReportLegacyRequest](c), func(r *cellv1.ReportLegacyRequest) bool { return r.GetLook() })
}
