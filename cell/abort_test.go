package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/agents"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// What a host gives back, devices included, is free for the next request and stays free after a
// restart. The claim is not offered again to a restarted agent.
func TestWhatAHostGivesBackIsFreeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		state := plainState(1, 8)
		state.Verifies, state.Facts = true, gpus(1)
		a, responses := r.withResponses(state)
		wanted := oneGPU()
		passed := func(r *testCell) (room, device int32) {
			t.Helper()
			return r.propose(query(8)).GetPassed(), r.ask(schedule.PCIFilter, &cellv1.NovaRequest{PciRequests: wanted}).GetPassed()
		}
		r.must(guestClaim("c1", 1, 1, &cellv1.Guest{PciRequests: wanted}))
		offerIn(t, responses)
		if room, device := passed(r); room != 0 || device != 0 {
			t.Errorf("claimed, %d hosts have room and %d the device", room, device)
		}
		a.says("c1", agentv1.Verdict_ABORTED)
		synctest.Wait()
		check := func(r *testCell) {
			t.Helper()
			if room, device := passed(r); room != 1 || device != 1 {
				t.Errorf("given back, %d hosts have room and %d the device", room, device)
			}
			if f := r.do(confirm("c1", 1))[0].GetRefusal(); f.GetReason() != string(fault.ClaimRejected) || f.GetDetail() != "ABORTED" {
				t.Errorf("confirmed: %v", f)
			}
			if c := r.claimNow("c1"); c.GetState() != cellgatev1.ClaimState_PENDING || len(c.GetAllocations()) != 0 {
				t.Errorf("the claim is %v", c)
			}
		}
		check(r)
		a.says("c1", 0)
		synctest.Wait()
		check(r)
		r.stop()
		r = start(t, store)
		check(r)
		_, responses = r.withResponses(state)
		time.Sleep(2 * agents.VerifySweep)
		for _, m := range rest(responses) {
			if m.GetClaimOffer() != nil {
				t.Errorf("offered is %v", m)
			}
		}
	})
}

// A claim that its host gave back is not offered to the host again: the verdict would be the same.
func TestWhatAHostGaveBackIsNotOfferedAgain(t *testing.T) {
	for m, ends := range map[agents.VerifyMode]bool{agents.VerifyAsync: true, agents.VerifySync: true, agents.VerifyShadow: false} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, newStore(t), mode(m))
			a, responses := r.verifying(1)
			r.must(newClaim("c1", 1, 1, 8))
			offerIn(t, responses)
			a.says("c1", 0)
			r.must(confirm("c1", 1))
			rest(responses)
			a.says("c1", agentv1.Verdict_ABORTED)
			time.Sleep(2 * agents.VerifySweep)
			ended := false
			for _, got := range rest(responses) {
				ended = ended || got.GetClaimEnded().GetClaimId() == "c1"
				if got.GetClaimOffer() != nil {
					t.Errorf("%s: offered is %v", m, got)
				}
			}
			if ended != ends {
				t.Errorf("%s: its end was told: %v", m, ended)
			}
		})
	}
}

// In shadow mode an abort changes nothing, like any verdict.
func TestShadowKeepsWhatAHostGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifyShadow))
		a, responses := r.verifying(1)
		r.must(newClaim("c1", 1, 1, 8))
		offerIn(t, responses)
		a.says("c1", agentv1.Verdict_ABORTED)
		synctest.Wait()
		if p := r.propose(query(1)); p.GetPassed() != 0 {
			t.Errorf("%d hosts have room", p.GetPassed())
		}
		r.must(confirm("c1", 1))
	})
}

// A host learns at once that a move's claim was confirmed, so that it does not abort the claim. If
// it aborted before, it is told once more, and the claim stays.
func TestConfirm_Move_IsSentToItsHost(t *testing.T) {
	for name, aborts := range map[string]bool{"heard": false, "aborted meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newStore(t), mode(agents.VerifyAsync))
				a, responses := r.verifying(1)
				r.must(newClaim("c1", 1, 1, 2))
				r.must(confirm("c1", 1))
				move := newClaim("c2", 1, 1, 3)
				move.GetClaim().MovesClaimId = "c1"
				r.must(move)
				synctest.Wait()
				a.says("c1", 0)
				a.says("c2", 0)
				rest(responses)
				r.must(confirm("c2", 1))
				synctest.Wait()
				offers := func() (n int) {
					for _, m := range rest(responses) {
						if o := m.GetClaimOffer(); o != nil {
							if n++; o.GetClaimId() != "c2" || !o.GetConfirmed() || o.GetWantsVerdict() {
								t.Errorf("offered is %v", o)
							}
						}
					}
					return n
				}
				if n := offers(); n != 1 {
					t.Errorf("told %d times, want once", n)
				}
				if aborts {
					a.says("c2", agentv1.Verdict_ABORTED)
					synctest.Wait()
					if n := offers(); n != 1 {
						t.Errorf("told %d times after the abort, want once", n)
					}
					a.says("c2", agentv1.Verdict_ABORTED) // as an old agent would
				}
				time.Sleep(3 * agents.VerifySweep)
				if n := offers(); n != 0 {
					t.Errorf("told %d times more", n)
				}
				if c := r.claimNow("c2"); c.GetState() != cellgatev1.ClaimState_CONFIRMED || len(c.GetAllocations()) != 1 {
					t.Errorf("the claim is %v", c)
				}
			})
		})
	}
}
