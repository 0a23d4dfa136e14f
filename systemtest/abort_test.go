package systemtest

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"cellgate/cell/agents"
	"cellgate/internal/fault"
	"cellgate/internal/norace"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// from makes a connection break at the given point from now on.
func (b *breaking) from(at lostAt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = at
}

// fails makes an operation on the host take up a claim and then abort it.
func (d *drifted) fails(s *cellgatev1.Selection) {
	d.t.Helper()
	_, err := d.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{ClaimId: s.GetClaimId(), InstanceUuid: uuidOf(0x1, 1)})
	must(d.t, err)
	_, err = d.host.Claims().AbortClaim(s.GetClaimId())
	must(d.t, err)
}

// fills asks for all VCPUs of the host.
func (d *drifted) fills(id string, consumer int) (*cellgatev1.Selection, error) {
	all := request(id, consumer, 1)
	all.GetRequestSpec().Flavor.Vcpus = hostVCPUs
	all.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Host: d.state.GetServiceHost()}
	resp, err := d.scheduler.SelectDestinations(d.t.Context(), all)
	if err != nil {
		return nil, err
	}
	return resp.GetDestinations()[0].GetSelected(), nil
}

// A build that fails on its host gives the room back at once, whatever message is lost. The claim
// is not confirmed, and an alternate is claimed instead.
func TestAnAbortOnTheHostGivesTheRoomBack(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	for _, at := range []lostAt{noLoss, lostVerdict, takenVerdict} {
		t.Run("lost "+string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &breaking{at: noLoss}
				d := drift(t, verifying{mode: agents.VerifyAsync, streams: []grpc.DialOption{b.option()}})
				d.giveBack()
				got := d.selects(d.build)[0]
				time.Sleep(time.Second)
				if _, err := d.fills("all", 2); fault.KindOf(err) != fault.NoValidHost {
					t.Fatalf("before the abort: %v", err)
				}
				b.from(at)
				d.fails(got)
				if at == noLoss {
					time.Sleep(time.Second)
				} else {
					time.Sleep(20 * time.Second) // the stream is connected again
				}
				if b.broke() != (at != noLoss) {
					t.Fatalf("a connection broke: %v", b.broke())
				}
				other, err := d.fills("all again", 3)
				if err != nil || other.GetServiceHost() != d.state.GetServiceHost() {
					t.Fatalf("after the abort: %v, %v", other, err)
				}
				answer := d.answers["r1"]
				decided := d.decision(answer.GetDecisionId()).GetClaims()
				if len(decided) != 1 || decided[0].GetVerdict().GetReason() != "ABORTED" {
					t.Errorf("the decision has %v", decided)
				}
				d.rejects(got)
				moved := d.takesAlternate(uuidOf(0x1, 1), got, answer.GetDestinations()[0].GetAlternates()[0].GetComputeNodeUuid())
				d.confirms(uuidOf(0x1, 1), &cellgatev1.Selection{ClaimId: moved.GetClaimId()})
				d.confirms(uuidOf(0x1, 3), other)
				if held := d.settle().claims; len(held) != 2 || len(held[moved.GetClaimId()].Allocations) == 0 {
					t.Errorf("held: %v", held)
				}
			})
		})
	}
}

// A claim whose build fails after its caller confirmed it ends when the host reports the abort.
func TestAnAbortOnTheHostEndsAConfirmedClaim(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	for _, at := range []lostAt{noLoss, lostVerdict} {
		t.Run("lost "+string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &breaking{at: noLoss}
				d := drift(t, verifying{mode: agents.VerifyAsync, streams: []grpc.DialOption{b.option()}})
				d.giveBack()
				got := d.selects(d.build)[0]
				d.confirms(uuidOf(0x1, 1), got)
				time.Sleep(time.Second)
				b.from(at)
				d.fails(got)
				time.Sleep(20 * time.Second)
				if b.broke() != (at != noLoss) {
					t.Fatalf("a connection broke: %v", b.broke())
				}
				d.rejects(got)
				if held := d.settle().claims; len(held) != 0 {
					t.Errorf("held: %v", held)
				}
				if left := d.host.Claims().List(); len(left) != 0 {
					t.Errorf("in the book: %v", left)
				}
			})
		})
	}
}
