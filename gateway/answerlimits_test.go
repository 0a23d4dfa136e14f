package gateway

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// An answer has the limits that filters set for each selected host and alternate, in the form that Nova's computes
// claim by. Forced hosts skip the filters, and have no limits.
func TestLimitsOfFiltersAreAnswered(t *testing.T) {
	const object = `"nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.name": `
	const pages = `{` + object + `"NUMAPagesTopology", "nova_object.data": {"size_kb": 4, "total": 2097152, "used": 0, "reserved": 0}}`
	host := func(n int) schedule.Host {
		h := testHost(n, 1)
		h.View.CPURatio, h.View.RAMRatio, h.View.DiskRatio = 16, 1.5, 1.25
		h.View.VCPUsTotal, h.View.TotalRAMMB, h.View.TotalDiskGB = 4, 8193, 101
		h.View.FreeRAMMB, h.View.FreeDiskMB = 8193, 101*1024
		h.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, 1), Metadata: map[string]string{"cpu_allocation_ratio": "2.1"}}}
		h.Facts = schedule.ParseFacts(schedule.FactTexts{
			NUMATopology: `{` + object + `"NUMATopology", "nova_object.data": {"cells": [{` + object + `"NUMACell", "nova_object.data": {"id": 0` +
				`, "cpuset": [0, 1, 2, 3], "pcpuset": [], "memory": 8192, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": [` +
				pages + `], "network_metadata": {` + object + `"NetworkMetadata", "nova_object.data": {"physnets": ["p1"], "tunneled": true}}}}]}}`,
		})
		return h
	}
	start := func(filters ...string) *world {
		return start(t, []*testCell{newCell(1, host(1), host(2))}, func(cfg *Config) { cfg.Filters = append(schedule.DefaultFilters(), filters...) })
	}
	request := func(first int) *cellgatev1.SelectDestinationsRequest {
		r := ask(first, 1)
		r.ReturnAlternates = true
		r.GetRequestSpec().Image = &cellgatev1.Image{Properties: map[string]string{"hw_numa_nodes": "1"}}
		return r
	}
	check := func(w *world, r *cellgatev1.SelectDestinationsRequest, want string) {
		t.Helper()
		limits := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(want), limits); err != nil {
			t.Fatal(err)
		}
		d := w.choose(r).GetDestinations()[0]
		for _, s := range append(d.GetAlternates(), d.GetSelected()) {
			if !proto.Equal(s.GetLimits(), limits) {
				t.Errorf("%s: %v\nwant %v", s.GetServiceHost(), s.GetLimits(), limits)
			}
		}
	}
	const numa = `"numa_topology": {"nova_object.name": "NUMATopologyLimits", "nova_object.namespace": "nova", "nova_object.version": "1.1",
		"nova_object.data": {"cpu_allocation_ratio": 16, "ram_allocation_ratio": 1.5`
	check(start(), request(1), `{}`)
	all := start(schedule.NUMAFilter, schedule.CoreFilter, schedule.RAMFilter, schedule.DiskFilter)
	check(all, request(1), `{"vcpu": 64, "memory_mb": 12289, "disk_gb": 126, `+numa+`}}}`)
	plain := ask(2, 1)
	check(all, plain, `{"vcpu": 64, "memory_mb": 12289, "disk_gb": 126}`)
	forced := request(3)
	forced.ReturnAlternates, forced.GetRequestSpec().ForceHosts = false, []string{"host001"}
	check(all, forced, `{}`)
	check(start(schedule.AggregateCoreFilter), request(1), `{"vcpu": 8}`)
}
