package cell

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/agents"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// verifying registers a host whose agent verifies. The channel gets the messages to the agent.
func (r *testCell) verifying(n int) (*testAgent, <-chan *agentv1.ReportResponse) {
	r.t.Helper()
	s := plainState(n, 8)
	s.Verifies = true
	return r.withResponses(s)
}

// withResponses registers a state. The channel gets the later messages to the agent.
func (r *testCell) withResponses(s *agentv1.FullState) (*testAgent, <-chan *agentv1.ReportResponse) {
	r.t.Helper()
	a := r.register(s)
	responses := make(chan *agentv1.ReportResponse, 1024)
	go func() {
		defer close(responses)
		for {
			m, err := a.stream.Recv()
			if err != nil {
				return
			}
			responses <- m
		}
	}()
	return a, responses
}

// offerIn returns the next offer to an agent.
func offerIn(t *testing.T, responses <-chan *agentv1.ReportResponse) *agentv1.ClaimOffer {
	t.Helper()
	for {
		select {
		case m, open := <-responses:
			if !open {
				t.Fatal("the stream ended")
			}
			if o := m.GetClaimOffer(); o != nil {
				return o
			}
		case <-time.After(time.Minute):
			t.Fatal("no claim was offered")
		}
	}
}

// rest returns the messages that an agent has got so far.
func rest(responses <-chan *agentv1.ReportResponse) (list []*agentv1.ReportResponse) {
	synctest.Wait()
	for {
		select {
		case m := <-responses:
			list = append(list, m)
		default:
			return list
		}
	}
}

// says sends a verdict. why is the reason of a rejection, or 0 for OK.
func (a *testAgent) says(id string, why agentv1.Verdict_Reason) {
	a.t.Helper()
	v := &agentv1.Verdict{ClaimId: id, Outcome: agentv1.Verdict_OK, BootId: bootA, Version: 1}
	if why != 0 {
		v.Outcome, v.Reason, v.Detail = agentv1.Verdict_REJECTED, why, "8 VCPU asked for, 2 free"
	}
	if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Verdict{Verdict: v}}); err != nil {
		a.t.Fatal(err)
	}
}

// claimNow returns a claim as the shard has it.
func (r *testCell) claimNow(id string) *cellgatev1.Claim {
	r.t.Helper()
	out, err := r.cells.ListClaims(context.Background(), &cellv1.ListClaimsRequest{ClaimIds: []string{id}})
	if err != nil || len(out.GetClaims()) != 1 {
		r.t.Fatalf("claim %s: %v, %v", id, out, err)
	}
	return out.GetClaims()[0]
}

func mode(m agents.VerifyMode) func(*Config) { return func(c *Config) { c.VerifyMode = m } }

// A rejection that could not be written is asked for again, so that the claim is not confirmed.
func TestVerdict_NotWritten_IsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Bool
		r := start(t, &shardtest.Faulty{Store: newStore(t), Before: func(_ context.Context, c shardtest.Call) error {
			if slices.ContainsFunc(c.Ops, func(op shard.Op) bool { return op.RecordVerdict != nil }) && failed.CompareAndSwap(false, true) {
				return shardtest.Unavailable()
			}
			return nil
		}})
		a, responses := r.verifying(1)
		r.must(newClaim("c1", 1, 1, 8))
		for range 2 {
			a.says(offerIn(t, responses).GetClaimId(), agentv1.Verdict_NO_ROOM)
		}
		synctest.Wait()
		if f := r.do(confirm("c1", 1))[0].GetRefusal(); !failed.Load() || f.GetReason() != string(fault.ClaimRejected) {
			t.Errorf("confirmed: %v", f)
		}
	})
}

func TestAClaimIsOfferedAndARejectedOneIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		a, responses := r.verifying(1)
		r.must(newClaim("c1", 1, 1, 8))
		o := offerIn(t, responses)
		if o.GetClaimId() != "c1" || o.GetInstanceUuid() != consumerUUID(1) || o.GetConsumerUuid() != consumerUUID(1) || !o.GetWantsVerdict() || o.GetConfirmed() ||
			len(o.GetUsages()) != 1 || o.GetUsages()[0].GetProviderUuid() != hostUUID(1) || o.GetUsages()[0].GetAmount() != 8 || o.GetExpiresAt() == nil {
			t.Errorf("offered %v", o)
		}
		a.says("c1", agentv1.Verdict_NO_ROOM)
		synctest.Wait()
		if v := r.claimNow("c1").GetVerdict(); v.GetOutcome() != "REJECTED" || v.GetReason() != "NO_ROOM" || v.GetDetail() == "" || v.GetAt() == nil {
			t.Errorf("the claim's verdict is %v", v)
		}
		if f := r.do(confirm("c1", 1))[0].GetRefusal(); f.GetReason() != string(fault.ClaimRejected) || f.GetFilter() != "HostVerdict" || f.GetDetail() != "NO_ROOM" {
			t.Errorf("confirmed: %v", f)
		}
		if s := r.claimNow("c1").GetState(); s != cellgatev1.ClaimState_PENDING {
			t.Errorf("the claim is %v", s)
		}
		// A later verdict replaces a rejection.
		a.says("c1", 0)
		synctest.Wait()
		r.must(confirm("c1", 1))
	})
}

// While Nova's tables report a host, its agent cannot reject a claim, but gives one back.
func TestVerdict_OfAHostThatNovaReports_OnlyGivesBack(t *testing.T) {
	for _, m := range []agents.VerifyMode{agents.VerifyAsync, agents.VerifySync} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, newStore(t), mode(m))
			r.imported(importedState(1, 1), &cellv1.ImportOutcome{})
			if _, _, err := r.cell.moveGate(t.Context(), nil, &shard.MoveGate{State: shard.GateLegacy}, operator{}); err != nil {
				t.Fatal(err)
			}
			a, responses := r.verifying(1)
			began := time.Now()
			r.must(newClaim("c1", 1, 1, 1), newClaim("c2", 2, 1, 1))
			if took := time.Since(began); took >= agents.MaxVerifyWait {
				t.Errorf("%s: a claim waited %v for a verdict that does not count", m, took)
			}
			offerIn(t, responses)
			a.says("c1", agentv1.Verdict_NO_ROOM)
			a.says("c2", agentv1.Verdict_ABORTED)
			synctest.Wait()
			r.must(confirm("c1", 1))
			if f := r.do(confirm("c2", 2))[0].GetRefusal(); f.GetDetail() != "ABORTED" {
				t.Errorf("%s: a claim that was given back: %v", m, f)
			}
			var held bool
			for _, m := range rest(responses) {
				o := m.GetClaimOffer()
				held = held || o.GetClaimId() == "c1" && !o.GetWantsVerdict()
			}
			if !held {
				t.Errorf("%s: the agent does not learn that it has to hold the claim", m)
			}
		})
	}
}

// If Nova's allocation ratio is above the agent's, the agent takes the host for full while it has room.
func TestVerdict_NovaRaisesTheRatio_NoRoomHasNoEffect(t *testing.T) {
	for _, m := range []agents.VerifyMode{agents.VerifyAsync, agents.VerifySync} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, newStore(t), mode(m))
			a, responses := r.verifying(1) // of 8 VCPU
			in := importedState(1, 1)
			in.State.Providers[0].Inventories[0].AllocationRatio = 2
			r.imported(in, &cellv1.ImportOutcome{OwnedByAgent: true})
			go func() { a.says(offerIn(t, responses).GetClaimId(), 0) }()
			r.must(newClaim("c0", 9, 1, 8))
			synctest.Wait()
			go func() { a.says(offerIn(t, responses).GetClaimId(), agentv1.Verdict_NO_ROOM) }()
			began := time.Now()
			r.must(newClaim("c1", 1, 1, 4))
			if took := time.Since(began); took >= agents.MaxVerifyWait {
				t.Errorf("%s: a claim waited %v for a verdict that does not count", m, took)
			}
			r.must(newClaim("c1", 1, 1, 4))
			if v := r.claimNow("c1").GetVerdict(); v != nil {
				t.Errorf("%s: the claim's verdict is %v", m, v)
			}
			r.must(confirm("c1", 1))
			r.must(newClaim("c2", 2, 1, 1)) // a sync call waits in vain
			a.says("c2", agentv1.Verdict_DISABLED)
			synctest.Wait()
			if f := r.do(confirm("c2", 2))[0].GetRefusal(); f.GetDetail() != "DISABLED" {
				t.Errorf("%s: rejected for another reason: %v", m, f)
			}
		})
	}
}

func TestAnAcceptedClaimIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		a, responses := r.verifying(1)
		r.must(newClaim("c1", 1, 1, 1))
		offerIn(t, responses)
		store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			t.Errorf("%d operations were written", len(ops))
			return commit()
		})
		a.says("c1", 0)
		synctest.Wait()
		if v := r.claimNow("c1").GetVerdict(); v != nil {
			t.Errorf("the claim's verdict is %v", v)
		}
	})
}

func TestSyncRefusesWhatItsHostRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifySync))
		a, responses := r.verifying(1)
		go func() { a.says(offerIn(t, responses).GetClaimId(), agentv1.Verdict_NO_ROOM) }()
		out := r.do(newClaim("c1", 1, 1, 8))[0]
		if f := out.GetRefusal(); f.GetReason() != string(fault.ClaimRejected) || f.GetFilter() != "HostVerdict" || f.GetDetail() != "NO_ROOM" || out.GetClaim() != nil {
			t.Fatalf("the claim is answered with %v", out)
		}
		if c := r.claimNow("c1"); c.GetState() != cellgatev1.ClaimState_REJECTED || c.GetVerdict().GetReason() != "NO_ROOM" {
			t.Errorf("the claim is %v", c)
		}
		// The claim holds nothing, and its instance may be claimed again.
		began := time.Now()
		go func() { a.says(offerIn(t, responses).GetClaimId(), 0) }()
		r.must(newClaim("c2", 1, 1, 8))
		if took := time.Since(began); took >= agents.MaxVerifyWait {
			t.Errorf("a claim that its host takes waited %v", took)
		}
		r.must(confirm("c2", 1))
	})
}

// A rejected claim whose end may have been committed is not answered as live.
func TestSyncAnswersNoClaimThatMayHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &shardtest.Faulty{Store: newStore(t), After: func(_ context.Context, c shardtest.Call) error {
			if slices.ContainsFunc(c.Ops, func(op shard.Op) bool { return op.RecordVerdict != nil && op.RecordVerdict.End }) {
				return shardtest.Unknown()
			}
			return nil
		}}, mode(agents.VerifySync))
		a, responses := r.verifying(1)
		go func() { a.says(offerIn(t, responses).GetClaimId(), agentv1.Verdict_NO_ROOM) }()
		out := r.do(newClaim("c1", 1, 1, 8))[0]
		if f := out.GetRefusal(); f.GetReason() != string(fault.OutcomeUnknown) || out.GetClaim() != nil {
			t.Errorf("the claim is answered with %v", out)
		}
		if c := r.claimNow("c1"); c.GetState() != cellgatev1.ClaimState_REJECTED {
			t.Errorf("the claim is %v", c)
		}
	})
}

func TestSyncGoesOnWithoutAVerdictInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifySync))
		a, responses := r.verifying(1)
		began := time.Now()
		r.must(newClaim("c1", 1, 1, 8))
		if took := time.Since(began); took != agents.MaxVerifyWait {
			t.Errorf("it waited %v", took)
		}
		// If the caller's time is short, the rest of it is kept for the answer.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := r.cells.ClaimBatch(ctx, &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("c0", 2, 9, 1), newClaim("c1", 1, 1, 8)}}); err != nil {
			t.Errorf("in a hurry: %v", err)
		}
		// A late verdict counts as in async mode.
		offerIn(t, responses)
		a.says("c1", agentv1.Verdict_NO_ROOM)
		synctest.Wait()
		if f := r.do(confirm("c1", 1))[0].GetRefusal(); f.GetReason() != string(fault.ClaimRejected) {
			t.Errorf("confirmed: %v", f)
		}
		// The cell does not wait for a host whose agent does not verify.
		r.register(plainState(2, 8))
		began = time.Now()
		r.must(newClaim("c3", 3, 2, 1))
		if took := time.Since(began); took != 0 {
			t.Errorf("a host that does not verify was waited for, %v", took)
		}
	})
}

// The summary tells gateways whether claims may wait for verdicts: in sync mode, if an agent
// verifies.
func TestTheSummarySaysWhetherClaimsWaitForVerdicts(t *testing.T) {
	for m, want := range map[agents.VerifyMode]bool{agents.VerifySync: true, agents.VerifyAsync: false, agents.VerifyShadow: false} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, newStore(t), mode(m))
			says := func() bool {
				s, err := r.cells.GetSummary(t.Context(), &cellv1.GetSummaryRequest{})
				if err != nil {
					t.Fatal(err)
				}
				return s.GetAwaitsVerdicts()
			}
			if r.register(plainState(2, 8)); says() {
				t.Errorf("%s: claims wait for a host that does not verify", m)
			}
			r.verifying(1)
			synctest.Wait()
			if says() != want {
				t.Errorf("%s: claims wait %t, want %t", m, !want, want)
			}
		})
	}
}

// A swapped claim that is rejected stays: its caller knows the claim, and may take another
// alternate.
func TestSyncLeavesASwappedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifySync))
		r.register(plainState(1, 8))
		r.register(plainState(3, 8))
		a, responses := r.verifying(2)
		r.must(newClaim("c1", 1, 1, 2))
		go func() { a.says(offerIn(t, responses).GetClaimId(), agentv1.Verdict_NO_ROOM) }()
		if f := r.do(swap("c1", 1, 2, 2))[0].GetRefusal(); f.GetReason() != string(fault.ClaimRejected) {
			t.Fatalf("the swap is answered with %v", f)
		}
		if c := r.claimNow("c1"); c.GetState() != cellgatev1.ClaimState_PENDING || c.GetVerdict().GetReason() != "NO_ROOM" {
			t.Errorf("the claim is %v", c)
		}
		r.must(swap("c1", 1, 3, 2), confirm("c1", 1))
	})
}

// A claim that was confirmed before its host rejected it, or is rejected in shadow mode, is offered
// to the host again, without a request for a verdict: the host must hold it. This happens once for
// each state.
func TestClaims_AgentReconnects_AreSentAgain(t *testing.T) {
	for m, isConfirmed := range map[agents.VerifyMode]bool{agents.VerifyAsync: true, agents.VerifyShadow: false} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, newStore(t), mode(m))
			a, responses := r.verifying(1)
			r.must(newClaim("c1", 1, 1, 8))
			offerIn(t, responses)
			if isConfirmed {
				r.must(confirm("c1", 1))
			}
			a.says("c1", agentv1.Verdict_NO_ROOM)
			if o := offerIn(t, responses); o.GetClaimId() != "c1" || o.GetWantsVerdict() || o.GetConfirmed() != isConfirmed {
				t.Errorf("%s: offered %v", m, o)
			}
			a.says("c1", agentv1.Verdict_NO_ROOM)
			time.Sleep(2 * agents.VerifySweep)
			if left := offersIn(rest(responses)); len(left) != 0 {
				t.Errorf("%s: and then %v", m, left)
			}
		})
	}
}

// A claim that was rejected while pending is offered again when the host's report of the instance
// confirms it.
func TestRejectedClaim_Confirmed_IsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifyAsync))
		a, responses := r.verifying(1)
		r.must(newClaim("c1", 1, 1, 8))
		offerIn(t, responses)
		a.says("c1", agentv1.Verdict_NO_ROOM)
		synctest.Wait()
		if left := offersIn(rest(responses)); len(left) != 0 {
			t.Errorf("while it is pending: %v", left)
		}
		there := proto.CloneOf(plainState(1, 8))
		there.Version, there.Verifies = 2, true
		there.Instances = []*agentv1.Instance{{
			InstanceUuid: consumerUUID(1), Usages: []*agentv1.Usage{{ProviderUuid: hostUUID(1), ResourceClass: "VCPU", Amount: 8}},
		}}
		a.send(there)
		synctest.Wait()
		if c := r.claimNow("c1"); c.GetState() != cellgatev1.ClaimState_CONFIRMED {
			t.Fatalf("the claim is %v", c)
		}
		if o := offerIn(t, responses); !o.GetConfirmed() || o.GetWantsVerdict() {
			t.Errorf("once it is confirmed: %v", o)
		}
		if left := offersIn(rest(responses)); len(left) != 0 {
			t.Errorf("told again, once it is confirmed: %v", left)
		}
	})
}

func offersIn(list []*agentv1.ReportResponse) (offers []*agentv1.ClaimOffer) {
	for _, m := range list {
		if o := m.GetClaimOffer(); o != nil {
			offers = append(offers, o)
		}
	}
	return offers
}

func TestShadowChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifyShadow))
		a, responses := r.verifying(1)
		r.must(newClaim("c1", 1, 1, 8))
		offerIn(t, responses)
		a.says("c1", agentv1.Verdict_NO_ROOM)
		synctest.Wait()
		if v := r.claimNow("c1").GetVerdict(); v != nil {
			t.Errorf("the claim's verdict is %v", v)
		}
		r.must(confirm("c1", 1))
	})
}

// TestAnAgentHearsWhatThereIsWhenItsStreamBegins, and what ends or goes away.
func TestAnAgentHearsWhatThereIsWhenItsStreamBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(plainState(1, 8))
		r.register(plainState(2, 8))
		r.must(newClaim("c1", 1, 1, 1), newClaim("c2", 2, 1, 1), newClaim("c3", 3, 1, 1), newClaim("c4", 4, 2, 1), confirm("c2", 2))
		a, responses := r.verifying(1)
		time.Sleep(2 * agents.VerifyTick)
		offers := map[string]*agentv1.ClaimOffer{}
		var set *agentv1.ClaimSet
		for _, m := range rest(responses) {
			if o := m.GetClaimOffer(); o != nil {
				offers[o.GetClaimId()] = o
			}
			if m.GetClaimSet() != nil {
				set = m.GetClaimSet()
			}
		}
		if len(offers) != 3 || !offers["c2"].GetConfirmed() || offers["c2"].GetWantsVerdict() || !offers["c1"].GetWantsVerdict() {
			t.Errorf("offered %v", offers)
		}
		if len(set.GetClaimIds()) != 3 || len(set.GetConfirmedClaimIds()) != 1 {
			t.Errorf("the set is %v", set)
		}
		r.must(release("c1", 1), swap("c3", 3, 2, 1))
		ended := map[string]string{}
		for _, m := range rest(responses) {
			if e := m.GetClaimEnded(); e != nil {
				ended[e.GetClaimId()] = e.GetState()
			}
		}
		if len(ended) != 2 || ended["c1"] != "RELEASED" || ended["c3"] != "MOVED" {
			t.Errorf("ended are %v", ended)
		}
		// A verdict on a claim that is on another host, or of another claim's owner, is ignored.
		a.says("c3", agentv1.Verdict_NO_ROOM)
		a.says("c4", agentv1.Verdict_NO_ROOM)
		synctest.Wait()
		r.must(confirm("c3", 3), confirm("c4", 4))
	})
}

// An agent that has a claim's instance is not offered the claim when its stream begins. An agent
// that restarted without the instance is.
func TestAnAgentThatLostAnInstanceIsOfferedItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		before := plainState(1, 8)
		r.register(before)
		r.must(newClaim("c1", 1, 1, 1), newClaim("c2", 2, 1, 1), confirm("c1", 1), confirm("c2", 2))
		before = proto.CloneOf(before)
		before.BootId = "bbbbbbbb-0000-4000-8000-000000000002"
		for n := 1; n <= 2; n++ {
			before.Instances = append(before.Instances, &agentv1.Instance{
				InstanceUuid: consumerUUID(n), Usages: []*agentv1.Usage{{ProviderUuid: hostUUID(1), ResourceClass: "VCPU", Amount: 1}},
			})
		}
		r.register(before)
		again := proto.CloneOf(before)
		again.BootId, again.Verifies, again.Instances = "bbbbbbbb-0000-4000-8000-000000000003", true, again.Instances[:1]
		again.Instances[0].InstanceUuid = strings.ToUpper(consumerUUID(1))
		_, responses := r.withResponses(again)
		time.Sleep(2 * agents.VerifyTick)
		var offered []string
		for _, m := range rest(responses) {
			if o := m.GetClaimOffer(); o != nil {
				offered = append(offered, o.GetClaimId())
				if !o.GetConfirmed() || o.GetWantsVerdict() {
					t.Errorf("offered is %v", o)
				}
			}
		}
		if !slices.Equal(offered, []string{"c2"}) {
			t.Errorf("offered are %v, want c2", offered)
		}
	})
}

// TestWhatAnotherReplicaClaimedIsOfferedLater, once, when nobody has done it.
func TestWhatAnotherReplicaClaimedIsOfferedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		_, responses := r.verifying(1)
		time.Sleep(2 * agents.VerifyTick)
		rest(responses)
		lane, err := store.OpenLane(t.Context(), "r2")
		if err != nil {
			t.Fatal(err)
		}
		op, err := opOf(newClaim("c1", 1, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lane.Apply(t.Context(), []shard.Op{op}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(agents.OfferGrace / 2)
		if early := rest(responses); len(early) != 0 {
			t.Errorf("at once it was told %v", early)
		}
		time.Sleep(agents.OfferGrace)
		n := 0
		for _, m := range rest(responses) {
			if m.GetClaimOffer().GetClaimId() == "c1" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("offered %d times", n)
		}
	})
}

// An agent gets ends before offers, because it judges an offer by what is left. A new stream begins
// with the set of claims, and the ends of a transaction precede its new claims.
func TestAnAgentHearsOfEndsBeforeOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(plainState(1, 8))
		r.must(newClaim("c1", 1, 1, 8))
		_, responses := r.verifying(1)
		list := rest(responses)
		if len(list) != 2 || len(list[0].GetClaimSet().GetClaimIds()) != 1 || list[1].GetClaimOffer().GetClaimId() != "c1" {
			t.Errorf("a stream begins with %v", list)
		}
		for n := 1; n < 20; n++ {
			was, is := fmt.Sprint("c", n), fmt.Sprint("c", n+1)
			r.must(release(was, n), newClaim(is, n+1, 1, 8))
			list := rest(responses)
			if len(list) != 2 || list[0].GetClaimEnded().GetClaimId() != was || list[1].GetClaimOffer().GetClaimId() != is {
				t.Fatalf("%s instead of %s: told %v", is, was, list)
			}
		}
	})
}
