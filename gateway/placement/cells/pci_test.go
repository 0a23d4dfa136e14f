package cells

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/gateway"
	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// gpuClass is the class that a compute makes of its devices' ids
// (nova/compute/pci_placement_translator.py, _get_rc_for_dev).
const gpuClass = "CUSTOM_PCI_10DE_1DB6"

func gpu(n int) string          { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-0000000081%02d", n) }
func gpuInstance(n int) string  { return fmt.Sprintf("bbbbbbbb-0000-4000-8000-0000000000%02d", n) }
func gpuRequestID(n int) string { return fmt.Sprintf("91000000-0000-4000-8000-0000000000%02d", n) }
func versioned(name, version string, data map[string]any) map[string]any {
	return map[string]any{"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version, "nova_object.data": data}
}

// reportGPU writes a device as nova-compute does with [pci] report_in_placement: a child provider HOST_ADDRESS of one
// unit, and its traits, each with the generation that the last answer had.
func reportGPU(t *testing.T, url string, n int) {
	t.Helper()
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(`{"name": "compute-1_0000:81:0%d.0", "uuid": %q, "parent_provider_uuid": %q}`, n, gpu(n), compute), 200)
	call(t, "PUT", url+"/resource_classes/"+gpuClass, "", map[bool]int{true: 201, false: 204}[n == 0])
	at := url + "/resource_providers/" + gpu(n)
	call(t, "PUT", at+"/inventories", fmt.Sprintf(`{"resource_provider_generation": 0, "inventories": {%q: {"total": 1, "max_unit": 1}}}`, gpuClass), 200)
	call(t, "PUT", at+"/traits", `{"resource_provider_generation": 1, "traits": ["COMPUTE_MANAGED_PCI_DEVICE"]}`, 200)
}

// gpuPools is the compute's pci_stats: a pool for each free device, with its provider (nova/pci/stats.py,
// populate_pools_metadata_from_assigned_devices).
func gpuPools(free ...int) string {
	pools := []any{}
	for _, n := range free {
		pools = append(pools, versioned("PciDevicePool", "1.1", map[string]any{
			"vendor_id": "10de", "product_id": "1db6", "numa_node": 0, "count": 1,
			"tags": map[string]any{"dev_type": "type-PCI", "address": fmt.Sprintf("0000:81:0%d.0", n), "rp_uuid": gpu(n)},
		}))
	}
	text, err := json.Marshal(versioned("PciDevicePoolList", "1.1", map[string]any{"objects": pools}))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// conductorAsks is a boot of an instance with one GPU, as a conductor of 2023.1 or later sends it.
func conductorAsks(t *testing.T, n int) *cellgatev1.SelectDestinationsRequest {
	t.Helper()
	id := gpuRequestID(n)
	spec, err := structpb.NewStruct(versioned("RequestSpec", "1.14", map[string]any{
		"flavor": versioned("Flavor", "1.2", map[string]any{
			"vcpus": 1, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, "flavorid": "g", "name": "gpu",
			"extra_specs": map[string]any{"pci_passthrough:alias": "gpu:1"},
		}),
		"num_instances": 1, "project_id": "p", "user_id": "u",
		"pci_requests": versioned("InstancePCIRequests", "1.1", map[string]any{"requests": []any{versioned("InstancePCIRequest", "1.4", map[string]any{
			"count": 1, "alias_name": "gpu", "request_id": id, "numa_policy": "legacy",
			"spec": []any{map[string]any{"vendor_id": "10de", "product_id": "1db6", "dev_type": "type-PCI"}},
		})}}),
		"requested_resources": []any{versioned("RequestGroup", "1.3", map[string]any{
			"requester_id": id + "-0", "use_same_provider": true, "resources": map[string]any{gpuClass: 1}, "required_traits": []any{},
		})},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return &cellgatev1.SelectDestinationsRequest{
		RequestId: fmt.Sprintf("req-gpu-%d", n), InstanceUuids: []string{gpuInstance(n)},
		Spec: &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: spec},
	}
}

// typedAsks is the same request from a caller without Nova's API.
func typedAsks(n int) *cellgatev1.SelectDestinationsRequest {
	return &cellgatev1.SelectDestinationsRequest{
		RequestId: fmt.Sprintf("req-gpu-%d", n), InstanceUuids: []string{gpuInstance(n)},
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: 512, RootGb: 1, ExtraSpecs: map[string]string{"pci_passthrough:alias": "gpu:1"}},
		}},
	}
}

// assignedTo gives the device pools that the live claim of an instance is assigned.
func assignedTo(t *testing.T, c *realCell, instance string) (pools []string) {
	t.Helper()
	if _, err := c.store.Load(t.Context(), func(ch shard.Change) error {
		if x := ch.Claim; x != nil && x.ConsumerUUID == instance && x.State.Live() && x.Guest != nil && x.Guest.Assigned != nil {
			for _, d := range x.Guest.Assigned.Devices {
				pools = append(pools, fmt.Sprintf("%d of %s", d.Count, d.Pool))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return pools
}

// A compute has three GPUs in Placement, one of which an instance has. The others go to two instances, each to the one
// whose allocation has its provider, and a third instance finds none.
func TestPlacementAPI_PCIDevicesOfACompute_AreAllocatedAndAssignedAlike(t *testing.T) {
	one := startCell(t, "one", 1)
	scheduler, _, url := startGatewayWith(t, "one", func(cfg *gateway.Config) {
		cfg.Filters = append(schedule.DefaultFilters(), schedule.NUMAFilter, schedule.PCIFilter)
		cfg.Options = &rules.Options{HostSubsetSize: 1, PCIInPlacement: true}
		cfg.PCIAliases = []rules.PCIAlias{{Name: "gpu", VendorID: "10de", ProductID: "1db6", DeviceType: "type-PCI"}}
	}, one)
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(`{"name": "compute-1", "uuid": %q}`, compute), 200)
	call(t, "PUT", url+"/resource_providers/"+compute+"/inventories", `{"resource_provider_generation": 0, "inventories": `+threeClasses+`}`, 200)
	for n := range 3 {
		reportGPU(t, url, n)
	}
	// The compute heals an allocation: an older instance has the first device.
	call(t, "PUT", url+"/allocations/"+instance, fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": null,
		"allocations": {%q: {"resources": {"VCPU": 1}}, %q: {"resources": {%q: 1}}}}`, compute, gpu(0), gpuClass), 204)
	now, err := one.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := importedCompute(now)
	rows[1].PutHost.Host.Facts.PCIStats = gpuPools(1, 2)
	one.imports(rows...)

	// choose repeats a request until the cell knows the host that was imported beside it.
	choose := func(req *cellgatev1.SelectDestinationsRequest) *cellgatev1.Selection {
		t.Helper()
		for limit := time.Now().Add(testwait.Limit); ; {
			resp, err := scheduler.SelectDestinations(t.Context(), req)
			if err == nil {
				return resp.GetDestinations()[0].GetSelected()
			}
			if time.Now().After(limit) {
				t.Fatal(err)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	given, of := map[string]bool{}, map[int]string{}
	for n, req := range map[int]*cellgatev1.SelectDestinationsRequest{11: conductorAsks(t, 11), 12: typedAsks(12)} {
		suffix := map[int]string{11: gpuRequestID(11) + "-0", 12: "pci_request_0-0"}[n]
		var answer struct {
			Allocations map[string]struct{ Resources map[string]int64 }
			Mappings    map[string][]string
		}
		if err := json.Unmarshal([]byte(choose(req).GetAllocationRequest()), &answer); err != nil {
			t.Fatal(err)
		}
		providers := answer.Mappings[suffix]
		if len(providers) != 1 || answer.Allocations[providers[0]].Resources[gpuClass] != 1 || len(answer.Allocations) != 2 {
			t.Fatalf("instance %d: the answer is %+v", n, answer)
		}
		device := providers[0]
		if given[device] || device == gpu(0) {
			t.Errorf("instance %d has provider %s, which another has", n, device)
		}
		given[device], of[n] = true, device
		if got := call(t, "GET", url+"/allocations/"+gpuInstance(n), "", 200); !strings.Contains(got, device) || !strings.Contains(got, gpuClass) {
			t.Errorf("instance %d: allocated is %s, answered %s", n, got, device)
		}
		if pools := assignedTo(t, one, gpuInstance(n)); len(pools) != 1 || !strings.HasPrefix(pools[0], "1 of ") || !strings.Contains(pools[0], "rp_uuid="+device) {
			t.Errorf("instance %d: assigned %q, allocated of %s", n, pools, device)
		}
	}
	for n, req := range map[int]*cellgatev1.SelectDestinationsRequest{13: conductorAsks(t, 13), 14: typedAsks(14)} {
		_, err := scheduler.SelectDestinations(t.Context(), req)
		if fault.KindOf(err) != fault.NoValidHost || !strings.Contains(err.Error(), gpuClass) {
			t.Errorf("instance %d, without a device left: %v", n, err)
		}
	}
	// The compute frees a device, but its pool is not in pci_stats yet: Placement has it, the filter rejects the host.
	call(t, "DELETE", url+"/allocations/"+instance, "", 204)
	_, err = scheduler.SelectDestinations(t.Context(), conductorAsks(t, 15))
	if fault.KindOf(err) != fault.NoValidHost || !strings.Contains(err.Error(), "1 lacks free PCI devices") {
		t.Errorf("a device that its compute does not report: %v", err)
	}
	// A pool has a device to spare, but Placement has the provider of another one: the pool is not the allocation's.
	call(t, "DELETE", url+"/allocations/"+gpuInstance(11), "", 204)
	call(t, "PUT", url+"/allocations/"+instance, fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": null,
		"allocations": {%q: {"resources": {%q: 1}}}}`, of[11], gpuClass), 204)
	resp, err := scheduler.SelectDestinations(t.Context(), conductorAsks(t, 16))
	if fault.KindOf(err) != fault.NoValidHost || !strings.Contains(err.Error(), "1 lacks free PCI devices") {
		t.Errorf("a pool of another provider: %v, %v, assigned %q", resp, err, assignedTo(t, one, gpuInstance(16)))
	}
	// A claim whose allocation is moved to another child keeps its device until a report has the instance:
	// no other claim gets the device.
	call(t, "PUT", url+"/allocations/"+gpuInstance(12), fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": 1,
		"allocations": {%q: {"resources": {"VCPU": 1}}, %q: {"resources": {%q: 1}}}}`, compute, gpu(0), gpuClass), 204)
	if pools := assignedTo(t, one, gpuInstance(12)); len(pools) != 1 || !strings.Contains(pools[0], "rp_uuid="+of[12]) {
		t.Errorf("after its allocation was moved, the instance is assigned %q", pools)
	}
	resp, err = scheduler.SelectDestinations(t.Context(), conductorAsks(t, 17))
	if fault.KindOf(err) != fault.NoValidHost || !strings.Contains(err.Error(), "1 lacks free PCI devices") {
		t.Errorf("the device that it left in Placement alone: %v, %v", resp, err)
	}
	if keys := slices.Sorted(maps.Keys(given)); !slices.Equal(keys, []string{gpu(1), gpu(2)}) {
		t.Errorf("given %q", keys)
	}
}
