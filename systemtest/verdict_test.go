package systemtest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/agent"
	"cellgate/cell/agents"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// drifted is a world where a local operation has taken all VCPUs of one host, at its agent, but no
// report shows it yet. It is the host that request r1 (build) is given first.
type drifted struct {
	*conductor
	host  *agent.Host
	state *agentv1.FullState
	build *cellgatev1.SelectDestinationsRequest
}

// localClaim is the claim of the operation on the host.
const localClaim = "local-1"

func drift(t *testing.T, v verifying) *drifted {
	t.Helper()
	w := startWith(t, newNetwork(), v)
	d := &drifted{conductor: &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}, build: request("r1", 1, 1)}
	d.build.ReturnAlternates = true
	d.build.DryRun = true // so that equal hosts have the same order in both calls
	first := d.selects(d.build)[0]
	d.build.DryRun = false
	for _, h := range w.hosts {
		if s, _ := h.State(); s.GetServiceHost() == first.GetServiceHost() {
			d.host, d.state = h, s
		}
	}
	if d.host == nil {
		t.Fatalf("selected %v", first)
	}
	d.takeAll()
	return d
}

// giveBack aborts the operation on the host.
func (d *drifted) giveBack() {
	d.t.Helper()
	_, err := d.host.Claims().AbortClaim(localClaim)
	must(d.t, err)
}

// takeAll makes an operation on the host take all of its VCPUs.
func (d *drifted) takeAll() {
	d.t.Helper()
	_, err := d.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{
		ClaimId: localClaim, InstanceUuid: uuidOf(0x1, 900),
		Usages: []*agentv1.Usage{{ProviderUuid: d.state.GetHostUuid(), ResourceClass: "VCPU", Amount: hostVCPUs}},
	})
	must(d.t, err)
}

func (d *drifted) decision(id string) *cellgatev1.Decision {
	d.t.Helper()
	time.Sleep(time.Second) // decisions are stored after the answer
	return yes(d.conductor, "get decision", func(ctx context.Context) (*cellgatev1.GetDecisionResponse, error) {
		return d.scheduler.GetDecision(ctx, &cellgatev1.GetDecisionRequest{DecisionId: id})
	}).GetDecision()
}

// In sync mode, a request gets the next candidate if its first host has less room than the cell
// knows.
func TestAHostThatDriftedIsPassedInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drift(t, verifying{mode: agents.VerifySync})
		got := d.selects(d.build)[0]
		if got.GetServiceHost() == d.state.GetServiceHost() || !got.GetClaimed() {
			t.Fatalf("selected %v", got)
		}
		rejected := d.decision(d.answers["r1"].GetDecisionId()).GetRejectedClaims()
		if len(rejected) != 1 || rejected[0].GetServiceHost() != d.state.GetServiceHost() || rejected[0].GetReason() != "NO_ROOM" ||
			!strings.Contains(rejected[0].GetMessage(), "2 VCPU asked for, 0 of 8 free") {
			t.Fatalf("the decision has %v", rejected)
		}
		d.confirms(uuidOf(0x1, 1), got)
		held := d.settle().claims
		if len(held) != 1 || held[got.GetClaimId()] == nil {
			t.Errorf("held: %v", held)
		}
	})
}

// In async mode the claim is answered, its confirm fails, and the alternate is claimed.
func TestAHostThatDriftedFailsTheConfirmInAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drift(t, verifying{mode: agents.VerifyAsync})
		got := d.selects(d.build)[0]
		if got.GetServiceHost() != d.state.GetServiceHost() {
			t.Fatalf("selected %v", got)
		}
		answer := d.answers["r1"]
		decided := d.decision(answer.GetDecisionId()).GetClaims()
		if len(decided) != 1 || decided[0].GetClaimId() != got.GetClaimId() || decided[0].GetVerdict().GetOutcome() != "REJECTED" ||
			decided[0].GetVerdict().GetReason() != "NO_ROOM" || decided[0].GetServiceHost() != d.state.GetServiceHost() {
			t.Fatalf("the decision has %v", decided)
		}
		d.rejects(got)
		alternate := answer.GetDestinations()[0].GetAlternates()[0]
		other := d.takesAlternate(uuidOf(0x1, 1), got, alternate.GetComputeNodeUuid())
		d.confirms(uuidOf(0x1, 1), &cellgatev1.Selection{ClaimId: other.GetClaimId()})
		held := d.settle().claims
		if len(held) != 1 || held[other.GetClaimId()] == nil || other.GetServiceHost() == d.state.GetServiceHost() {
			t.Errorf("held: %v, the alternate is %v", held, other)
		}
		decided = d.decision(answer.GetDecisionId()).GetClaims()
		if len(decided) != 1 || decided[0].GetServiceHost() != alternate.GetServiceHost() || decided[0].GetState() != cellgatev1.ClaimState_CONFIRMED {
			t.Fatalf("the decision has %v, the alternate is %v", decided, alternate)
		}
		if r := decided[0].GetRejections(); len(r) != 1 || r[0].GetHostUuid() != d.state.GetHostUuid() || r[0].GetServiceHost() != d.state.GetServiceHost() ||
			r[0].GetVerdict().GetOutcome() != "REJECTED" || r[0].GetVerdict().GetReason() != "NO_ROOM" || !r[0].GetVerdict().GetAt().IsValid() {
			t.Errorf("rejected by %v", r)
		}
	})
}

// rejects confirms a claim and expects a refusal, because the host rejected the claim.
func (d *drifted) rejects(s *cellgatev1.Selection) {
	d.t.Helper()
	_, err := again(d.conductor, func(ctx context.Context) (*cellgatev1.ConfirmClaimResponse, error) {
		return d.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: uuidOf(0x1, 1), ClaimId: s.GetClaimId()})
	})
	if fault.KindOf(err) != fault.ClaimRejected {
		d.t.Fatalf("confirmed: %v", err)
	}
}

// In shadow mode a verdict is logged and counted, and changes nothing.
func TestAHostThatDriftedIsLoggedInShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		responses := &kept{}
		d := drift(t, verifying{mode: agents.VerifyShadow, log: slog.New(slog.NewTextHandler(responses, nil))})
		got := d.selects(d.build)[0]
		if got.GetServiceHost() != d.state.GetServiceHost() {
			t.Fatalf("selected %v", got)
		}
		decision := d.decision(d.answers["r1"].GetDecisionId())
		if len(decision.GetRejectedClaims()) != 0 || len(decision.GetClaims()) != 1 || decision.GetClaims()[0].GetVerdict() != nil {
			t.Errorf("the decision has %v", decision)
		}
		d.confirms(uuidOf(0x1, 1), got)
		// The host keeps the claim in its ledger, and gives its room to nothing else.
		d.giveBack()
		if _, err := d.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{ClaimId: got.GetClaimId(), InstanceUuid: uuidOf(0x1, 1)}); err != nil {
			t.Errorf("the confirmed claim is not taken up: %v", err)
		}
		if _, err := d.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{
			ClaimId: "local-2", InstanceUuid: uuidOf(0x1, 901),
			Usages: []*agentv1.Usage{{ProviderUuid: d.state.GetHostUuid(), ResourceClass: "VCPU", Amount: hostVCPUs}},
		}); fault.KindOf(err) != fault.ClaimRejected {
			t.Errorf("its room is promised again: %v", err)
		}
		if text := responses.String(); !strings.Contains(text, "a host rejected a claim") || !strings.Contains(text, got.GetClaimId()) || !strings.Contains(text, "mode=shadow") {
			t.Errorf("the log is %s", text)
		}
	})
}

// kept is a writer that keeps all text.
type kept struct {
	mu   sync.Mutex
	text strings.Builder
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(b)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// A host accepts a claim, and later finds an instance that leaves no room for it. When the host
// reports that, the claim is rejected and its confirm fails.
func TestAnInstanceThatNobodyKnewOfFailsTheConfirm(t *testing.T) {
	for _, mode := range []agents.VerifyMode{agents.VerifySync, agents.VerifyAsync} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := drift(t, verifying{mode: mode})
				d.giveBack()
				got := d.selects(d.build)[0]
				if got.GetServiceHost() != d.state.GetServiceHost() {
					t.Fatalf("selected %v", got)
				}
				time.Sleep(time.Second)
				state := proto.CloneOf(d.state)
				state.Instances = append(state.Instances, &agentv1.Instance{
					InstanceUuid: uuidOf(0x1, 900),
					Usages:       []*agentv1.Usage{{ProviderUuid: d.state.GetHostUuid(), ResourceClass: "VCPU", Amount: hostVCPUs}},
				})
				d.host.Put(state)
				time.Sleep(time.Second)
				d.rejects(got)
			})
		})
	}
}
