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

// Every host's newer state is refused, as by cells with a new rule, and one of them has by it
// less than its cell knows: long after their service_down_time instances are placed, and not
// where the refused state has no room.
func TestHostsWhoseStatesAreRefusedTakeInstances(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	synctest.Test(t, func(t *testing.T) {
		w := startWith(t, newNetwork(), verifying{mode: agents.VerifySync})
		c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
		build := request("r1", 1, 1)
		build.DryRun = true // the same order of equal hosts
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
