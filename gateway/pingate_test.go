package gateway

import (
	"context"
	"strings"
	"testing"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestPinIsTheCells(t *testing.T) {
	w, f, _ := oneUpgrading(t, cellgatev1.Gate_LEGACY)
	resp, err := w.cellsAPI.UpdateCell(context.Background(), &cellgatev1.UpdateCellRequest{Cell: "cell1", GatePin: cellgatev1.Gate_NATIVE, Reason: "the database is gone", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if g := resp.GetCell().GetGate(); g.GetPin() != cellgatev1.Gate_NATIVE || g.GetPinReason() != "the database is gone" || resp.GetCell().GetHosts() != 2 {
		t.Errorf("the cell is %v", resp.GetCell())
	}
	if p := got[*cellv1.PinGateRequest](f); len(p) != 1 || p[0].GetReason() != "the database is gone" || p[0].GetWho() == "" || !p[0].GetForce() {
		t.Errorf("got %v", p)
	}
	// This gateway applies the pin at once.
	if r := w.choose(ask(1, 1)).GetCells()[0]; r.GetSource() != cellgatev1.CellSource_NATIVE {
		t.Errorf("the report is %v", r)
	}
	if g := w.cell(t).GetGate(); g.GetState() != cellgatev1.Gate_NATIVE || g.GetEpoch() != 2 {
		t.Errorf("the gate is %v", g)
	}
	if _, err := w.cellsAPI.UpdateCell(context.Background(), &cellgatev1.UpdateCellRequest{Cell: "cell1"}); err != nil {
		t.Fatal(err)
	}
	if g := w.cell(t).GetGate(); g.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED || g.GetEpoch() != 3 {
		t.Errorf("the gate is %v", g)
	}
	resp, err = w.cellsAPI.UpdateCell(context.Background(), &cellgatev1.UpdateCellRequest{Cell: "cell1"})
	if e := mustFail(t, resp, err, fault.NotFound); !strings.Contains(e.Message, "is not pinned") {
		t.Errorf("it says %q", e.Message)
	}
}

func (w *world) cell(t *testing.T) *cellgatev1.Cell {
	t.Helper()
	resp, err := w.cellsAPI.GetCell(context.Background(), &cellgatev1.GetCellRequest{Cell: "cell1"})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetCell()
}

func TestPinThatIsRefused(t *testing.T) {
	w, f, _ := oneUpgrading(t, cellgatev1.Gate_LEGACY)
	resp, err := w.cellsAPI.UpdateCell(context.Background(), &cellgatev1.UpdateCellRequest{Cell: "nope"})
	mustFail(t, resp, err, fault.NotFound)
	resp, err = w.cellsAPI.UpdateCell(context.Background(), &cellgatev1.UpdateCellRequest{Cell: "cell1", GatePin: cellgatev1.Gate_LEGACY})
	if e := mustFail(t, resp, err, fault.InvalidRequest); len(e.Fields) != 1 || e.Fields[0].Path != "reason" {
		t.Errorf("it names %v", e.Fields)
	}
	if p := got[*cellv1.PinGateRequest](f); len(p) != 0 {
		t.Errorf("got %v", p)
	}
}

// The gateway holds a cell without a scheduler at LEGACY, and its answers say so.
func TestCellWithoutASchedulerStaysLegacy(t *testing.T) {
	f, u := gated(1, testHost(1, 1)), newUpgrading()
	u.config.Only = true
	w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
	r := w.choose(ask(1, 1)).GetCells()[0]
	if r.GetSource() != cellgatev1.CellSource_LEGACY || r.GetReason() != "the gate is LEGACY: the cell has no scheduler (legacy_only), and other gateways' choices are not seen" {
		t.Errorf("the report is %v", r)
	}
	resp, err := w.cellsAPI.UpdateCell(context.Background(), &cellgatev1.UpdateCellRequest{Cell: "cell1", GatePin: cellgatev1.Gate_NATIVE, Reason: "now"})
	mustFail(t, resp, err, fault.InvalidRequest)
}
