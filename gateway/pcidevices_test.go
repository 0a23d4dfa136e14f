package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// deviceHost has two NUMA cells, and on each a device that is a child provider.
func deviceHost(n int) schedule.Host {
	h := numaHost(n)
	var pools []string
	for i := range 2 {
		id := testID(0xd, 10*n+i)
		h.Children = append(h.Children, schedule.Provider{
			UUID: id, Parent: h.UUID, Traits: []string{"COMPUTE_MANAGED_PCI_DEVICE"},
			Resources: []schedule.Resource{{Class: "CUSTOM_PCI_10DE_1DB6", Capacity: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1}},
		})
		pools = append(pools, fmt.Sprintf(`{"count": 1, "vendor_id": "10de", "product_id": "1db6", "numa_node": %d, "tags": {"dev_type": "type-PCI", "rp_uuid": %q}}`, i, id))
	}
	h.Facts = schedule.ParseFacts(schedule.FactTexts{NUMATopology: h.Facts.NUMATopology, PCIPools: "[" + strings.Join(pools, ",") + "]"})
	return h
}

// startDevices starts a world whose PCI devices are in Placement.
func startDevices(t *testing.T, cells ...*testCell) *world {
	t.Helper()
	return start(t, cells, func(cfg *Config) {
		patient(cfg)
		cfg.Filters = append(schedule.DefaultFilters(), schedule.NUMAFilter, schedule.PCIFilter)
		cfg.Options = &rules.Options{HostSubsetSize: 1, PCIInPlacement: true}
		cfg.PCIAliases = []rules.PCIAlias{{Name: "gpu", VendorID: "10de", ProductID: "1db6", NUMAPolicy: hardware.PCIRequired}}
	})
}

func askDevices(first, n, devices int) *cellgatev1.SelectDestinationsRequest {
	req := ask(first, n)
	req.GetRequestSpec().Flavor = &cellgatev1.Flavor{Vcpus: 1, MemoryMb: 1024, RootGb: 1, ExtraSpecs: map[string]string{
		"hw:numa_nodes": "1", "pci_passthrough:alias": fmt.Sprintf("gpu:%d", devices),
	}}
	return req
}

// Each instance is on the NUMA cell of the device that its allocation names. The device that Placement lists
// first may be on another NUMA cell.
func TestPCIDevices_OfNUMACells_AllocationFollowsTheCell(t *testing.T) {
	w := startDevices(t, newCell(1, deviceHost(1), testHost(2, 4)))
	resp := w.choose(askDevices(1, 2, 1))
	for i, d := range resp.GetDestinations() {
		if want := testUUID(0xd, 10+i); d.GetSelected().GetServiceHost() != "host001" || !strings.Contains(d.GetSelected().GetAllocationRequest(), `"pci_request_0-0":["`+want+`"]`) {
			t.Errorf("instance %d: %s, want the device %s", i, d.GetSelected().GetAllocationRequest(), want)
		}
	}
	_, err := w.scheduler.SelectDestinations(t.Context(), askDevices(3, 1, 1))
	if e := mustFail(t, nil, err, fault.NoValidHost); !strings.Contains(e.Error(), "CUSTOM_PCI_10DE_1DB6") {
		t.Error(e)
	}
	// The two devices are on two NUMA cells, and the guest has one NUMA cell.
	w = startDevices(t, newCell(1, deviceHost(1)))
	_, err = w.scheduler.SelectDestinations(t.Context(), askDevices(1, 1, 2))
	if e := mustFail(t, nil, err, fault.NoValidHost); !strings.Contains(e.Error(), "NUMA") {
		t.Error(e)
	}
}

// A claim that is put on an alternate takes the device that the alternate's allocation names.
func TestPCIDevices_ClaimAlternate_TakesTheDeviceOfTheAlternate(t *testing.T) {
	w := startDevices(t, newCell(1, deviceHost(1), deviceHost(2)))
	req := askDevices(1, 1, 1)
	req.ReturnAlternates = true
	d := w.choose(req).GetDestinations()[0]
	alternate := d.GetAlternates()[0]
	claim, err := w.alternate(d.GetSelected().GetClaimId(), alternate.GetComputeNodeUuid())
	if err != nil {
		t.Fatal(err)
	}
	device := slices.IndexFunc(claim.GetAllocations(), func(a *cellgatev1.Allocation) bool { return a.GetResourceClass() == "CUSTOM_PCI_10DE_1DB6" })
	if claim.GetHostUuid() != alternate.GetComputeNodeUuid() || device < 0 || !strings.Contains(alternate.GetAllocationRequest(), claim.GetAllocations()[device].GetProviderUuid()) {
		t.Errorf("the claim is %v, the alternate %v", claim, alternate)
	}
	// The alternate's host has one device left, and the host of the first choice has both.
	if taken := w.choose(askDevices(2, 3, 1)).GetDestinations(); len(taken) != 3 {
		t.Errorf("taken %v", taken)
	}
	if _, err := w.scheduler.SelectDestinations(t.Context(), askDevices(9, 1, 1)); fault.KindOf(err) != fault.NoValidHost {
		t.Errorf("a fifth of four devices: %v", err)
	}
}

// An instance that leaves its host may get a device of any provider of the other host.
func TestPCIDevices_PlanDrain_LooksForDevicesOfOtherProviders(t *testing.T) {
	w := startDevices(t, newCell(1, deviceHost(1), deviceHost(2)))
	w.buildOn("host001", askDevices(1, 1, 1))
	w.buildOn("host001", askDevices(2, 1, 1))
	w.buildOn("host002", askDevices(3, 1, 1))
	plan := w.planDrain("host001")
	if len(plan.GetMoves()) != 1 || plan.GetMoves()[0].GetToServiceHost() != "host002" || len(plan.GetUnplaced()) != 1 {
		t.Fatal(plan)
	}
	if r := plan.GetUnplaced()[0].GetRefusal().GetRejects(); !slices.ContainsFunc(r, func(r *cellgatev1.RejectCount) bool { return r.GetDetail() == "CUSTOM_PCI_10DE_1DB6" }) {
		t.Errorf("rejects: %v", r)
	}
}
