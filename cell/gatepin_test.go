package cell

import (
	"context"
	"strings"
	"testing"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// tryPin pins without force.
func (r *testCell) tryPin(to cellgatev1.Gate_State) error {
	_, err := r.cells.PinGate(context.Background(), &cellv1.PinGateRequest{Pin: to, Reason: "a test"})
	return err
}

func (r *testCell) wantServing(what string) {
	r.t.Helper()
	if p := r.propose(query(1)); p.GetPassed() != 1 {
		r.t.Errorf("%s: %v", what, p)
	}
}

func TestPinGate_StateThatCannotServe_RefusedAndNothingChanged(t *testing.T) {
	r := start(t, newStore(t))
	refused := func(to cellgatev1.Gate_State, why string) {
		t.Helper()
		err := r.tryPin(to)
		if fault.KindOf(err) != fault.FailedPrecondition || !strings.Contains(err.Error(), why) {
			t.Errorf("pinned at %s: %v", to, err)
		}
	}
	refused(nativeState, "no agent reports a host")
	r.register(plainState(1, 8))
	for _, to := range []cellgatev1.Gate_State{legacyState, shadowState} {
		refused(to, "no gateway reads Nova's tables")
	}
	if g := r.cell.rows.GateRow(); g != nil {
		t.Errorf("the cell has the gate %+v", g)
	}
	r.wantServing("after the refusals")
	if err := r.tryPin(nativeState); err != nil {
		t.Errorf("NATIVE with a host: %v", err)
	}
	r.wantServing("at NATIVE")
	if err := r.tryPin(cellgatev1.Gate_STATE_UNSPECIFIED); err != nil {
		t.Error(err)
	}

	// A gateway that cannot read Nova's tables cannot serve LEGACY. One that can, does.
	unread := legacyOf("g1", 66, 1)
	unread.Services, unread.Unreadable = nil, "no route"
	r.reportLegacy(unread)
	refused(legacyState, "no gateway reads Nova's tables")
	r.reportLegacy(legacyOf("g1", 66, 1))
	if err := r.tryPin(legacyState); err != nil {
		t.Errorf("LEGACY with a gateway that reads: %v", err)
	}
}

// A gate that was forced where no gateway reads Nova's tables stays there when it is let go. The answer says why,
// and a pin at NATIVE ends that.
func TestUnpinGate_ForcedWhereNobodyReads_SaysWhatItWaitsFor(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	r.pin(legacyState)
	if p := r.propose(query(1)); p.GetFailure().GetReason() != string(fault.CellUnavailable) {
		t.Fatalf("forced: %v", p)
	}
	if g := r.pin(cellgatev1.Gate_STATE_UNSPECIFIED); g.GetState() != legacyState || g.GetPin() != 0 || len(g.GetWaitsFor()) == 0 {
		t.Errorf("let go it is %v", g)
	}
	r.pin(nativeState)
	if g := r.pin(cellgatev1.Gate_STATE_UNSPECIFIED); g.GetState() != nativeState || g.GetPin() != 0 {
		t.Errorf("let go from NATIVE it is %v", g)
	}
	r.wantServing("let go from NATIVE")
}

func TestUnpinGate_GatewayReads_RulesGoOnAtOnce(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	r.reportLegacy(legacyOf("g1", 65, 1)) // older than is required
	for _, at := range []cellgatev1.Gate_State{nativeState, shadowState, legacyState} {
		r.pin(at)
		if g := r.pin(cellgatev1.Gate_STATE_UNSPECIFIED); g.GetState() != legacyState {
			t.Errorf("let go from %s it is %v", at, g)
		}
	}
}
