package gateway

import (
	"testing"

	"google.golang.org/protobuf/proto"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// If a host's report confirms a move into another cell, the source stays confirmed, because a shard knows only its own
// cell. The caller's confirm finishes the move, and a second confirm changes nothing.
func TestConfirmFinishesAMoveThatAReportConfirmed(t *testing.T) {
	w := start(t, twoCells(), nil)
	id := testUUID(0x1, 1)
	old := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	if err := w.confirm(old, id); err != nil {
		t.Fatal(err)
	}
	move := proto.CloneOf(to(ask(1, 1), "cell2"))
	move.Operation = cellgatev1.Operation_MOVE
	moved := w.choose(move).GetDestinations()[0].GetSelected()
	w.cells[1].reportInstance(moved, id)
	c := w.cells[1].claim(moved.GetClaimId())
	if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED || c.GetState() != s || c.GetMovesClaimId() != old.GetClaimId() {
		t.Fatalf("the source is %s, the new claim %v", s, c)
	}
	for range 2 {
		if err := w.confirm(moved, id); err != nil {
			t.Fatal(err)
		}
		if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_RELEASED {
			t.Errorf("the source is %s", s)
		}
	}
	if n := len(w.cells[1].live()); n != 1 || w.liveClaims() != 1 {
		t.Errorf("%d live claims, %d in cell2", w.liveClaims(), n)
	}
}
