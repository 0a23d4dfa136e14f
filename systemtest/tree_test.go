package systemtest

import (
	"strings"
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// Two GPUs are child providers of one of four hosts. Instances whose request group asks for a GPU
// claim the host and a GPU in one transaction. The third finds no GPU until one is released. The
// shard's usages agree with the claims.
func TestChildProvidersAreClaimedAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, newNetwork())
		host := hostState(101, 2)
		gpus := []string{uuidOf(0xf, 1), uuidOf(0xf, 2)}
		for _, gpu := range gpus {
			host.Providers = append(host.Providers, &agentv1.Provider{
				Uuid: gpu, ParentUuid: host.GetHostUuid(), Name: "gpu " + gpu, Traits: []string{"CUSTOM_GPU"},
				Inventories: []*agentv1.Inventory{{ResourceClass: "VGPU", Total: 1, AllocationRatio: 1}},
			})
		}
		report(t, w.agents[1], host, false)
		c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
		ask := func(id string, first, n int) *cellgatev1.SelectDestinationsRequest {
			r := request(id, first, n)
			r.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"resources_gpu:VGPU": "1", "trait_gpu:CUSTOM_GPU": "required"}
			return r
		}
		got := c.selects(ask("two", 1, 2))
		for i, s := range got {
			if s.GetServiceHost() != "host101" {
				t.Errorf("instance %d is on %s", i+1, s.GetServiceHost())
			}
			c.confirms(uuidOf(0x1, 1+i), s)
		}
		if _, err := w.scheduler.SelectDestinations(t.Context(), ask("third", 3, 1)); fault.KindOf(err) != fault.NoValidHost || !strings.Contains(err.Error(), "TreeFilter") {
			t.Errorf("both GPUs are taken: %v", err)
		}
		c.releases(uuidOf(0x1, 1), got[0])
		third := c.selects(ask("third", 3, 1))[0]
		c.confirms(uuidOf(0x1, 3), third)

		claims := w.settle().claims
		if len(claims) != 2 {
			t.Fatalf("%d claims are live", len(claims))
		}
		taken := map[string]bool{}
		for _, claim := range claims {
			root, gpu := gpuOf(claim)
			if root != host.GetHostUuid() || taken[gpu] || gpu != gpus[0] && gpu != gpus[1] {
				t.Errorf("claimed %v", claim.Allocations)
			}
			taken[gpu] = true
		}
	})
}

// gpuOf gives the providers of a claim's VCPU and of its VGPU.
func gpuOf(c *shard.Claim) (root, gpu string) {
	for _, a := range c.Allocations {
		switch a.ResourceClass {
		case "VCPU":
			root = a.ProviderUUID
		case "VGPU":
			gpu = a.ProviderUUID
		}
	}
	return root, gpu
}
