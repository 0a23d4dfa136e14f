package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// twoReplicas starts a world of one cell with two replicas.
func twoReplicas(t *testing.T, change func(*Config)) *world {
	t.Helper()
	return twoReplicasLogged(t, change, slog.New(slog.DiscardHandler))
}

// twoReplicasLogged is twoReplicas with the gateway's log.
func twoReplicasLogged(t *testing.T, change func(*Config), log *slog.Logger) *world {
	t.Helper()
	first := newCell(1, testHost(1, 9))
	return startLogged(t, []*testCell{first, first.another()}, change, log)
}

// While another replica serves, a replica that fails at once delays no call. One that hangs delays
// calls only until its breaker opens.
func TestReadsAndProposalsGoToTheNextReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		w.cells[0].hook(func(context.Context, string, any) error { return fault.New(fault.CellUnavailable, "loading") }, nil)
		for range 3 {
			if resp, took, err := w.dry(t.Context()); err != nil || took != 0 || resp.GetPartial() {
				t.Fatalf("took %v: %v, %v", took, resp, err)
			}
			if _, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 1)}); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.claims.ReleaseClaim(t.Context(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(1, 1), ClaimId: "early"}); err != nil {
			t.Error(err)
		}
		w.cells[0].hook(nil, nil)
		time.Sleep(5 * time.Second) // virtual
		w.cells[0].hook(hangAll, nil)
		slow := 0
		for range 50 {
			if _, took, _ := w.dry(t.Context()); took > 0 {
				slow++
			}
		}
		if slow > w.g.cfg.Breaker.Failures {
			t.Errorf("%d requests waited", slow)
		}
	})
}

// A claim whose outcome is unknown is not sent to another replica. It is released through a replica that answers, and
// planned again under another id, once for each other replica.
func TestUnknownClaimIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		sent, released := map[string]int{}, map[string]int{}
		count := func(method string, req any) {
			if b, ok := req.(*cellv1.ClaimBatchRequest); ok {
				for _, op := range b.GetOps() {
					if c := op.GetClaim(); c != nil {
						sent[c.GetClaimId()]++
					}
					if r := op.GetRelease(); r != nil {
						released[r.GetClaimId()]++
					}
				}
			}
		}
		for _, c := range w.cells {
			c.hook(func(_ context.Context, method string, req any) error {
				w.cells[0].mu.Lock()
				defer w.cells[0].mu.Unlock()
				count(method, req)
				return nil
			}, func(method string, req any) error {
				if b, ok := req.(*cellv1.ClaimBatchRequest); ok && b.GetOps()[0].GetClaim() != nil {
					return fault.New(fault.CellUnavailable, "the reply is lost")
				}
				return nil
			})
		}
		w.refused(ask(1, 1), fault.CellUnavailable)
		synctest.Wait()
		if len(sent) != 2 {
			t.Errorf("claims sent: %v", sent)
		}
		for id, n := range sent {
			if n != 1 || released[id] == 0 {
				t.Errorf("claim %s was sent %d times and released %d times", id, n, released[id])
			}
		}
	})
}

// A claim is released through one replica. A request for its instance that follows at once is placed, although it is
// asked of the other replica, which has not read the release yet.
func TestSelect_ClaimReleasedThroughAnotherReplica_IsPlaced(t *testing.T) {
	for name, operation := range map[string]cellgatev1.Operation{"build": cellgatev1.Operation_BUILD, "migration": cellgatev1.Operation_MOVE} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newCell(1, testHost(1, 9), testHost(2, 9), testHost(3, 9))
				w := start(t, []*testCell{first, first.another()}, nil)
				for n := range 8 { // the replica to ask differs by request
					req := ask(n, 1)
					if req.RequestId = fmt.Sprintf("build-%d", n); operation != cellgatev1.Operation_BUILD {
						w.choose(req)
						req = proto.CloneOf(req)
						req.RequestId, req.Operation = fmt.Sprintf("first-%d", n), operation
					}
					made := w.choose(req).GetDestinations()[0]
					time.Sleep(time.Second) // virtual: both replicas know the claim
					if _, err := w.claims.ReleaseClaim(t.Context(), &cellgatev1.ReleaseClaimRequest{
						ConsumerUuid: made.GetInstanceUuid(), ClaimId: made.GetSelected().GetClaimId(),
					}); err != nil {
						t.Fatal(err)
					}
					req.RequestId = fmt.Sprintf("again-%d", n)
					w.choose(req)
				}
			})
		})
	}
}
