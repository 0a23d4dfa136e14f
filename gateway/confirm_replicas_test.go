package gateway

import (
	"context"
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// replicated is a world of two cells, the first of which has two replicas with the same
// claims.
func replicated(t *testing.T) (w *world, replicas []*testCell) {
	t.Helper()
	first, other := newCell(1, testHost(1, 9)), newCell(2, testHost(2, 9))
	second := first.another()
	w = start(t, []*testCell{first, other, second}, nil)
	w.cells = w.cells[:2]
	return w, []*testCell{first, second}
}

// firstConfirm has then called after the first confirm that any of the replicas does, before that replica answers.
func firstConfirm(replicas []*testCell, then func() error) {
	done := make(chan struct{}, 1)
	done <- struct{}{}
	for _, f := range replicas {
		f.hook(nil, func(_ string, req any) error {
			batch, ok := req.(*cellv1.ClaimBatchRequest)
			if !ok || batch.GetOps()[0].GetConfirm() == nil {
				return nil
			}
			select {
			case <-done:
				return then()
			default:
				return nil
			}
		})
	}
}

// A late confirm goes to a second replica if the answer of the first is lost or slow. If the first copy reinstated the
// claim, the gateway searches the other cells once more before the second copy confirms it.
func TestI2_ALateConfirmThatGoesToTwoReplicas(t *testing.T) {
	for name, slow := range map[string]bool{"the answer is lost": false, "the first is slow": true} {
		for who, other := range map[string]bool{"beside a claim confirmed meanwhile": true, "alone": false} {
			t.Run(name+", "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, replicas := replicated(t)
					two := twoExpired(w)
					end := make(chan struct{})
					defer close(end)
					firstConfirm(replicas, func() error {
						if other {
							w.cells[1].confirm(two[1].GetClaimId(), testUUID(0x1, 1))
						}
						if slow {
							<-end
						}
						return fault.New(fault.CellUnavailable, "the answer is lost")
					})
					err := w.confirm(two[0], testUUID(0x1, 1))
					state := w.cells[0].stateOf(two[0].GetClaimId())
					switch {
					case other && (fault.KindOf(err) != fault.AlreadyExists || state != cellgatev1.ClaimState_PENDING):
						t.Errorf("confirmed beside another: %v, the claim is %s", err, state)
					case !other && (err != nil || state != cellgatev1.ClaimState_CONFIRMED):
						t.Errorf("%v, the claim is %s", err, state)
					}
				})
			})
		}
	}
}

// A confirm searches the other cells while its claim is expired. If another confirm reinstates the claim meanwhile, the
// first one searches again before it confirms.
func TestI2_AConfirmThatLookedBeforeAnotherOneRetook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		two := twoExpired(w)
		once := make(chan struct{}, 1)
		once <- struct{}{}
		w.cells[0].hook(func(_ context.Context, _ string, req any) error {
			if batch, ok := req.(*cellv1.ClaimBatchRequest); ok && batch.GetOps()[0].GetConfirm() != nil {
				select {
				case <-once:
					w.cells[0].retake(two[0].GetClaimId())
					w.cells[1].confirm(two[1].GetClaimId(), testUUID(0x1, 1))
				default:
				}
			}
			return nil
		}, nil)
		err := w.confirm(two[0], testUUID(0x1, 1))
		if state := w.cells[0].stateOf(two[0].GetClaimId()); fault.KindOf(err) != fault.AlreadyExists || state != cellgatev1.ClaimState_PENDING {
			t.Errorf("confirmed beside another: %v, the claim is %s", err, state)
		}
	})
}
