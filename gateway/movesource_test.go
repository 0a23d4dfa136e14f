package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// releases reports whether a call releases claims.
func releases(method string, req any) bool {
	return method == "ClaimBatch" && slices.ContainsFunc(req.(*cellv1.ClaimBatchRequest).GetOps(), func(op *cellv1.ClaimOp) bool { return op.GetRelease() != nil })
}

// beforeRelease is a hook that does something before each release.
func beforeRelease(do func()) func(context.Context, string, any) error {
	return func(_ context.Context, method string, req any) error {
		if releases(method, req) {
			do()
		}
		return nil
	}
}

// movedApart builds an instance in cell1 and selects a place for it in cell2.
func movedApart(w *world) (source, moved *cellgatev1.Selection) {
	source = w.built("cell1")
	return source, w.choose(to(move(cellgatev1.Operation_MOVE, "m1"), "cell2")).GetDestinations()[0].GetSelected()
}

// The release of a move's source is held up. Meanwhile the caller gives the move up, and the source is transferred to a
// migration record and back. Then the release arrives.
func TestAReleaseThatComesLateLeavesASourceThatWasTransferredBack(t *testing.T) {
	w := start(t, twoCells(), nil)
	source, moved := movedApart(w)
	var late *cellv1.ClaimBatchRequest
	w.cells[0].hook(func(_ context.Context, method string, req any) error {
		if !releases(method, req) {
			return nil
		}
		late = req.(*cellv1.ClaimBatchRequest)
		return errors.New("held up")
	}, nil)
	instance, record := testUUID(0x1, 1), testUUID(0x1, 9)
	if k := fault.KindOf(w.confirm(moved, instance)); k != fault.CellUnavailable {
		t.Fatalf("the confirm is %q", k)
	}
	w.cells[0].hook(nil, nil)
	if _, err := w.claims.ReleaseClaim(t.Context(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: instance, ClaimId: moved.GetClaimId()}); err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]string{{instance, record}, {record, instance}} {
		if _, err := w.claims.TransferClaim(t.Context(), &cellgatev1.TransferClaimRequest{ConsumerUuid: way[0], ClaimId: source.GetClaimId(), ToConsumer: way[1]}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := w.cells[0].real.Scheduler.ClaimBatch(t.Context(), late)
	if err != nil || got.GetOutcomes()[0].GetRefusal().GetReason() != string(fault.StaleGeneration) {
		t.Errorf("the late release is answered with %v, %v", got, err)
	}
	if s := w.cells[0].stateOf(source.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
		t.Errorf("the source is %s", s)
	}
}

// If a source is written before its release arrives, for whatever reason, the gateway reads it again.
func TestASourceThatWasChangedIsLookedAtAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world, source, moved *cellgatev1.Selection)
		want   fault.Kind
		left   cellgatev1.ClaimState
	}{
		"it was written": {
			func(w *world, source, _ *cellgatev1.Selection) { w.cells[0].changed(source.GetClaimId()) }, "", cellgatev1.ClaimState_RELEASED,
		},
		"and the new claim was given up": {func(w *world, source, moved *cellgatev1.Selection) {
			w.cells[0].changed(source.GetClaimId())
			w.cells[1].release(moved.GetClaimId(), testUUID(0x1, 1))
		}, fault.ClaimExpired, cellgatev1.ClaimState_CONFIRMED},
		"it is another consumer's": {func(w *world, source, _ *cellgatev1.Selection) {
			w.cells[0].transfer(source.GetClaimId(), testUUID(0x1, 1), testUUID(0x1, 9))
		}, "", cellgatev1.ClaimState_CONFIRMED},
	} {
		w := start(t, twoCells(), nil)
		source, moved := movedApart(w)
		did := false
		w.cells[0].hook(beforeRelease(func() {
			if !did {
				did = true
				tt.change(w, source, moved)
			}
		}), nil)
		err := w.confirm(moved, testUUID(0x1, 1))
		if s := w.cells[0].stateOf(source.GetClaimId()); fault.KindOf(err) != tt.want || s != tt.left || !did {
			t.Errorf("%s: the confirm is %v, the source %s", name, err, s)
		}
	}
}

// A source that is written each time before its release stays. Confirming again finishes the move.
func TestASourceThatIsAlwaysChangedIsLeft(t *testing.T) {
	w := start(t, twoCells(), nil)
	source, moved := movedApart(w)
	w.cells[0].hook(beforeRelease(func() { w.cells[0].changed(source.GetClaimId()) }), nil)
	if k := fault.KindOf(w.confirm(moved, testUUID(0x1, 1))); k != fault.CellUnavailable {
		t.Errorf("the confirm is %q", k)
	}
	w.cells[0].hook(nil, nil)
	if err := w.confirm(moved, testUUID(0x1, 1)); err != nil || w.cells[0].stateOf(source.GetClaimId()) != cellgatev1.ClaimState_RELEASED {
		t.Errorf("%v; the source is %s", err, w.cells[0].stateOf(source.GetClaimId()))
	}
}

// A source that the gateway could not read before the confirm is read after it.
func TestASourceThatWasNotSeenIsLookedAt(t *testing.T) {
	w := start(t, twoCells(), nil)
	source, moved := movedApart(w)
	w.cells[0].hook(func(_ context.Context, method string, req any) error {
		if method == "ListClaims" && len(req.(*cellv1.ListClaimsRequest).GetConsumerUuids()) > 0 {
			return status.Error(codes.Unavailable, "the connection broke")
		}
		return nil
	}, nil)
	if err := w.confirm(moved, testUUID(0x1, 1)); err != nil || w.cells[0].stateOf(source.GetClaimId()) != cellgatev1.ClaimState_RELEASED {
		t.Errorf("%v; the source is %s", err, w.cells[0].stateOf(source.GetClaimId()))
	}
}
