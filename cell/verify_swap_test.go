package cell

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/agents"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// A call in VerifySync that puts a claim on another host hears that host: what the host
// that the claim leaves says meanwhile is no word of the one where it goes.
func TestASwapDoesNotHearTheHostThatTheClaimLeaves(t *testing.T) {
	for name, why := range map[string]agentv1.Verdict_Reason{"aborted": agentv1.Verdict_ABORTED, "disabled": agentv1.Verdict_DISABLED, "taken": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				r := start(t, store, mode(agents.VerifySync))
				leaves, toldLeaves := r.verifying(1)
				goes, toldGoes := r.verifying(2)
				r.must(newClaim("c1", 1, 1, 2))
				offerIn(t, toldLeaves)
				store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
					if slices.ContainsFunc(ops, func(op shard.Op) bool { return op.Swap != nil }) {
						leaves.says("c1", why)
						time.Sleep(time.Millisecond) // it is heard, and the claim is where it was
					}
					return commit()
				})
				heard := make(chan struct{})
				go func() {
					defer close(heard)
					offerIn(t, toldGoes)
					time.Sleep(10 * time.Millisecond)
					goes.says("c1", 0)
				}()
				began := time.Now()
				out := r.do(swap("c1", 1, 2, 3))[0]
				if took := time.Since(began); took < 10*time.Millisecond || took >= agents.MaxVerifyWait {
					t.Errorf("answered after %v: not when the host where the claim goes was heard", took)
				}
				<-heard
				if c := out.GetClaim(); c.GetHostUuid() != hostUUID(2) || len(c.GetAllocations()) != 1 {
					t.Errorf("the swap is answered with %v", out)
				}
				synctest.Wait()
				c := r.claimNow("c1")
				if c.GetState() != cellgatev1.ClaimState_PENDING || len(c.GetAllocations()) != 1 || c.GetVerdict().GetOutcome() == "REJECTED" {
					t.Errorf("the claim is %v", c)
				}
				if f := r.do(confirm("c1", 1))[0].GetRefusal(); f != nil {
					t.Errorf("confirmed: %v", f)
				}
			})
		})
	}
}

// Of two calls that put a claim on a host each, each hears its own.
func TestEachOfTwoSwapsHearsItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifySync))
		r.register(plainState(1, 8))
		_, toldFirst := r.verifying(2)
		second, toldSecond := r.verifying(3)
		r.must(newClaim("c1", 1, 1, 2))
		first := make(chan struct{})
		go func() {
			defer close(first)
			r.do(swap("c1", 1, 2, 2)) // its host says nothing
		}()
		offerIn(t, toldFirst)
		go func() { second.says(offerIn(t, toldSecond).GetClaimId(), agentv1.Verdict_NO_ROOM) }()
		if f := r.do(swap("c1", 1, 3, 2))[0].GetRefusal(); f.GetReason() != string(fault.ClaimRejected) || f.GetDetail() != "NO_ROOM" {
			t.Errorf("the second is answered with %v", f)
		}
		<-first
		if c := r.claimNow("c1"); c.GetHostUuid() != hostUUID(3) || c.GetVerdict().GetReason() != "NO_ROOM" {
			t.Errorf("the claim is %v", c)
		}
	})
}
