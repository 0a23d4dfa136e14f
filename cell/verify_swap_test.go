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

// In VerifySync, a call that moves a claim to another host waits for that host's verdict. A verdict
// of the host that the claim leaves does not count.
func TestASwapDoesNotHearTheHostThatTheClaimLeaves(t *testing.T) {
	for name, why := range map[string]agentv1.Verdict_Reason{"aborted": agentv1.Verdict_ABORTED, "disabled": agentv1.Verdict_DISABLED, "taken": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				r := start(t, store, mode(agents.VerifySync))
				leaves, responsesOfLeaving := r.verifying(1)
				goes, responsesOfOld := r.verifying(2)
				r.must(newClaim("c1", 1, 1, 2))
				offerIn(t, responsesOfLeaving)
				store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
					if slices.ContainsFunc(ops, func(op shard.Op) bool { return op.Swap != nil }) {
						leaves.says("c1", why)
						time.Sleep(time.Millisecond) // the verdict arrives while the claim is still on the first host
					}
					return commit()
				})
				received := make(chan struct{})
				go func() {
					defer close(received)
					offerIn(t, responsesOfOld)
					time.Sleep(10 * time.Millisecond)
					goes.says("c1", 0)
				}()
				began := time.Now()
				out := r.do(swap("c1", 1, 2, 3))[0]
				if took := time.Since(began); took < 10*time.Millisecond || took >= agents.MaxVerifyWait {
					t.Errorf("answered after %v: not when the host where the claim goes was heard", took)
				}
				<-received
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

// Of two concurrent swaps of a claim, each waits for the verdict of its own host.
func TestEachOfTwoSwapsHearsItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifySync))
		r.register(plainState(1, 8))
		_, responsesFirst := r.verifying(2)
		second, responsesSecond := r.verifying(3)
		r.must(newClaim("c1", 1, 1, 2))
		first := make(chan struct{})
		go func() {
			defer close(first)
			r.do(swap("c1", 1, 2, 2)) // its host sends no verdict
		}()
		offerIn(t, responsesFirst)
		go func() { second.says(offerIn(t, responsesSecond).GetClaimId(), agentv1.Verdict_NO_ROOM) }()
		if f := r.do(swap("c1", 1, 3, 2))[0].GetRefusal(); f.GetReason() != string(fault.ClaimRejected) || f.GetDetail() != "NO_ROOM" {
			t.Errorf("the second is answered with %v", f)
		}
		<-first
		if c := r.claimNow("c1"); c.GetHostUuid() != hostUUID(3) || c.GetVerdict().GetReason() != "NO_ROOM" {
			t.Errorf("the claim is %v", c)
		}
	})
}
