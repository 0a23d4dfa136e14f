package gate

import (
	"strings"
	"testing"
	"time"

	"cellgate/shard"
)

// nova-compute writes its provider tree before it builds (nova/compute/resource_tracker.py, _update_to_placement), and
// the Placement API refuses writes of an agent's tree.
func TestDifferences_ProvidersAreThePlacementAPIs_Differ(t *testing.T) {
	host := func(placement bool) *shard.Host {
		return &shard.Host{
			UUID: "u", ServiceHost: "h", NodeName: "n", Imported: placement, PlacementTree: placement,
			Providers: []shard.Provider{{UUID: "u", Inventories: []shard.Inventory{{ResourceClass: "VCPU", Total: 8, AllocationRatio: 1}}}},
		}
	}
	compared := HostComparison{Row: host(true), Reported: host(false), Now: time.Unix(1000, 0)}
	if d := new(hostComparisons).Differences(1, compared); len(d) != 1 || !strings.Contains(d[0].GetDetail(), "Placement API") {
		t.Errorf("differences are %v", d)
	}
	compared.Row.PlacementTree = false
	if d := new(hostComparisons).Differences(1, compared); len(d) != 0 {
		t.Errorf("differences are %v", d)
	}
}
