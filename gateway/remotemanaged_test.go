package gateway

import (
	"testing"

	"cellgate/internal/fault"
)

// The larger host has no remote-managed ports: without the trait it would be chosen.
func TestSelectDestinations_RemoteManagedPort_TakesHostWithSuchPorts(t *testing.T) {
	smart := testHost(1, 1)
	smart.Traits = append(smart.Traits, "COMPUTE_REMOTE_MANAGED_PORTS")
	plain := testHost(2, 4)
	object := func(name, version string, data map[string]any) map[string]any {
		return map[string]any{"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version, "nova_object.data": data}
	}
	const port = "90000000-0000-4000-8000-000000000001"
	req := novaAsk(t, 1, func(spec, _ map[string]any) {
		spec["requested_networks"] = object("NetworkRequestList", "1.1", map[string]any{
			"objects": []any{object("NetworkRequest", "1.3", map[string]any{"port_id": port})},
		})
		spec["pci_requests"] = object("InstancePCIRequests", "1.1", map[string]any{
			"requests": []any{object("InstancePCIRequest", "1.4", map[string]any{
				"count": 1.0, "requester_id": port, "spec": []any{map[string]any{"remote_managed": "True", "physical_network": nil}},
			})},
		})
	})
	w := start(t, []*testCell{newCell(1, smart), newCell(2, plain)}, nil)
	if got := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host001" {
		t.Errorf("%s is chosen, want host001, which has remote-managed ports", got)
	}
	w = start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, plain)}, nil)
	w.refused(req, fault.NoValidHost)
}
