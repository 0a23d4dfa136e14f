package gateway

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// numaHost has two NUMA cells of two CPUs and 8 GiB, and one device.
func numaHost(n int) schedule.Host {
	const object = `"nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.name": `
	const pages = `{` + object + `"NUMAPagesTopology", "nova_object.data": {"size_kb": 4, "total": 2097152, "used": 0, "reserved": 0}}`
	node := func(id, cpus string) string {
		return `{` + object + `"NUMACell", "nova_object.data": {"id": ` + id +
			`, "cpuset": [` + cpus + `], "pcpuset": [` + cpus + `], "memory": 8192, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": [` + pages + `], "socket": ` + id + `}}`
	}
	h := testHost(n, 1)
	h.View.RAMRatio = 1
	h.Facts = schedule.ParseFacts(schedule.FactTexts{
		NUMATopology: `{` + object + `"NUMATopology", "nova_object.data": {"cells": [` +
			node("0", "0, 1") + ", " + node("1", "2, 3") + `]}}`,
		PCIPools: `[{"count": 1, "vendor_id": "10de", "product_id": "1db6", "numa_node": 0, "tags": {"dev_type": "type-PCI"}}]`,
	})
	return h
}

// Each instance's host must have the NUMA nodes and PCI devices that the typed form's flavor asks for. Without the
// filters, the answer names these fields as ignored.
func TestTypedFormAsksForNUMAAndDevices(t *testing.T) {
	for _, check := range []bool{true, false} {
		w := start(t, []*testCell{newCell(1, testHost(1, 4)), newCell(2, numaHost(2))}, func(cfg *Config) {
			if cfg.Filters = schedule.DefaultFilters(); check {
				cfg.Filters = append(cfg.Filters, schedule.NUMAFilter, schedule.PCIFilter)
			}
			cfg.PCIAliases = []rules.PCIAlias{{Name: "gpu", VendorID: "10DE", ProductID: "1db6", DeviceType: "type-PCI"}}
		})
		typed := func(first, n int, alias string) *cellgatev1.SelectDestinationsRequest {
			r := ask(first, n)
			r.GetRequestSpec().Image = &cellgatev1.Image{Properties: map[string]string{"hw_numa_nodes": "2"}}
			r.GetRequestSpec().GetFlavor().ExtraSpecs = map[string]string{"pci_passthrough:alias": alias}
			return r
		}
		resp := w.choose(typed(1, 1, "gpu:1"))
		got, want := resp.GetDestinations()[0].GetSelected().GetServiceHost(), "host001"
		if check {
			want = "host002"
		}
		dropped := []string{"request_spec.numa_topology", "request_spec.pci_requests"}
		reported := slices.Contains(resp.GetIgnoredFields(), dropped[0]) && slices.Contains(resp.GetIgnoredFields(), dropped[1])
		if got != want || reported == check {
			t.Errorf("filters %t: on %s, ignored %v", check, got, resp.GetIgnoredFields())
		}
		_, err := w.scheduler.SelectDestinations(t.Context(), typed(2, 2, "gpu:1"))
		if full := fault.KindOf(err) == fault.NoValidHost; full != check {
			t.Errorf("filters %t, two instances and one device: %v", check, err)
		}
		_, err = w.scheduler.SelectDestinations(t.Context(), typed(4, 1, "fpga:1"))
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.InvalidRequest || !strings.Contains(e.Fields[0].Problem, `no PCI alias "fpga"`) {
			t.Errorf("an alias that nobody has: %v", err)
		}
	}
	if err := rules.Check(rules.Config{PCIAliases: []rules.PCIAlias{{Name: "a"}, {Name: "b", VendorID: "zz"}}}, false); err == nil ||
		!strings.Contains(err.Error(), "pci_alias[1]: vendor_id must be four hexadecimal digits") {
		t.Errorf("an alias that is wrong: %v", err)
	}
}
