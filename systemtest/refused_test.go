package systemtest

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/agents"
	"cellgate/internal/norace"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Cells refuse a newer state of every host, as after an upgrade that adds a rule. On one host the
// refused state has less room than its cell knows. Long after service_down_time instances are still
// placed, but not on that host.
func TestHostsWhoseStatesAreRefusedTakeInstances(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	synctest.Test(t, func(t *testing.T) {
		w := startWith(t, newNetwork(), verifying{mode: agents.VerifySync})
		c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
		build := request("r1", 1, 1)
		build.DryRun = true // so that equal hosts have the same order in both calls
		first := c.selects(build)[0].GetServiceHost()
		build.DryRun = false
		for n, h := range w.hosts {
			s, _ := h.State()
			next := proto.CloneOf(s)
			next.Facts = &agentv1.Facts{Stats: "[]"}
			if next.GetServiceHost() == first {
				next.Instances = []*agentv1.Instance{{InstanceUuid: uuidOf(0x1, 900+n), Usages: []*agentv1.Usage{
					{ProviderUuid: next.GetHostUuid(), ResourceClass: "VCPU", Amount: hostVCPUs},
				}}}
			}
			h.Put(next)
		}
		time.Sleep(30 * time.Minute)
		for _, h := range w.hosts {
			if h.Refused() == "" {
				t.Fatal("a state is accepted")
			}
		}
		got := c.selects(build)[0]
		if got.GetServiceHost() == first || !got.GetClaimed() {
			t.Fatalf("selected %v", got)
		}
		c.confirms(uuidOf(0x1, 1), got)
		held := w.settle().claims
		if len(held) != 1 || held[got.GetClaimId()] == nil {
			t.Errorf("held: %v", held)
		}
	})
}
