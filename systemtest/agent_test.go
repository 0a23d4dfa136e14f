package systemtest

import (
	"fmt"
	"testing"
	"testing/synctest"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// An agent that does not get the answer to a report sends the same state again on a new stream. The
// answer to each report is lost once: the first state, an instance that confirms its claim, an
// instance without a claim (which is adopted), and the end of that instance.
func TestLostRepliesToAgents(t *testing.T) {
	for lost := range 4 {
		t.Run(fmt.Sprintf("report %d", lost+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, newNetwork())
				c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
				claimed := c.selects(within(request("build", 1, 1), "cell1"))[0]
				host := 0
				if claimed.GetServiceHost() == "host001" {
					host = 1
				}
				uses := func(n int) *agentv1.Instance {
					return &agentv1.Instance{InstanceUuid: uuidOf(0x1, n), ProjectId: "p", Usages: []*agentv1.Usage{
						{ProviderUuid: uuidOf(0xa, host), ResourceClass: "VCPU", Amount: 2},
						{ProviderUuid: uuidOf(0xa, host), ResourceClass: "MEMORY_MB", Amount: 1024},
						{ProviderUuid: uuidOf(0xa, host), ResourceClass: "DISK_GB", Amount: 10},
					}}
				}
				for i, state := range []*agentv1.FullState{
					hostState(host, 2),
					hostState(host, 3, uses(1)),
					hostState(host, 4, uses(1), uses(2)),
					hostState(host, 5, uses(1)),
				} {
					if i == lost {
						report(t, w.agents[0], state, true)
					}
					report(t, w.agents[0], state, false)
				}
				held := w.settle().claims
				if len(held) != 1 || held[claimed.GetClaimId()].ConsumerUUID != uuidOf(0x1, 1) {
					t.Errorf("held: %v", held)
				}
			})
		})
	}
}
