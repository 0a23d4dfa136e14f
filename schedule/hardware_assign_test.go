package schedule

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"cellgate/internal/norace"
)

// Instances that are assigned one after the other fit exactly where picks of one request fit. To
// take an assignment from the same report leaves the same hardware.
func TestAssign_RandomHardware_AgreesWithTheFilters(t *testing.T) {
	norace.Skip(t, norace.Pure)
	rng := rand.New(rand.NewPCG(11, 12))
	counts := map[string]int{}
	for range 3000 {
		numa, pci := randomHardware(rng)
		h := Host{UUID: fleetHost(1), View: View{CPURatio: 1, RAMRatio: 1}}
		h.Facts = ParseFacts(FactTexts{NUMATopology: numa, PCIPools: pci})
		left, err := ReadHardware(numa, pci, 1, 1)
		if failed := len(h.Facts.Failed) > 0; failed != (err != nil) {
			t.Fatalf("ReadHardware gives %v, ParseFacts %v", err, h.Facts.Failed)
		} else if failed {
			continue // no filter sees such a host
		}
		e := NewTable().Edit()
		e.PutHost(h)
		table := e.Table()
		n := &NovaRequest{}
		randomGuest(rng, n)
		if n.NUMA == nil && len(n.PCI) == 0 {
			continue
		}
		n.NeedThreads = false // it asks for nothing that another instance could take
		q := &Query{Request: &Request{Nova: n}, Rules: &Rules{Filters: []string{NUMAFilter, PCIFilter}}, Limit: 1}
		guest := &GuestCheck{Nova: n, NUMA: true, PCI: true}
		again, err := DecodeGuest(guest.Encode())
		if err != nil || !reflect.DeepEqual(again.Encode(), guest.Encode()) {
			t.Fatalf("%+v is read back as %+v, %v", n, again, err)
		}
		for i := range 3 {
			want := ""
			for _, r := range propose(t, table, q).Rejects {
				want = r.Filter
			}
			counts[want]++
			assigned, lack := left.Assign(again)
			if got := lack.filter(); got != want {
				t.Fatalf("instance %d is rejected by %q, want %q\n%s\n%s\n%+v", i, got, want, numa, pci, n)
			}
			if want != "" {
				break
			}
			after, _, whole := left.left.assign(n, &left.limits)
			if !left.Take(assigned) && whole {
				t.Fatalf("instance %d: %+v is assigned, and is not free\n%s\n%s\n%+v", i, assigned, numa, pci, n)
			}
			if whole && (!reflect.DeepEqual(left.left.numa, after.numa) || !reflect.DeepEqual(left.left.free, after.free)) {
				t.Fatalf("instance %d: %+v leaves %+v, want %+v", i, assigned, left.left, after)
			}
			if !whole {
				break // Nova raises when it computes what is left
			}
			q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: h.UUID, Instance: fleetInstance(i)})
		}
	}
	t.Logf("passes and rejections: %v", counts)
	if counts[""] < 300 || counts[NUMAFilter] < 100 || counts[PCIFilter] < 50 {
		t.Errorf("too few of some: %v", counts)
	}
}

func (l *Lack) filter() string {
	if l == nil {
		return ""
	}
	return l.Filter
}

// A refusal names the resource that is missing.
func TestAssign_Full_SaysWhatIsMissing(t *testing.T) {
	const numa = `{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [{"nova_object.data": {
		"id": 0, "cpuset": [4, 5], "pcpuset": [0, 1, 2, 3], "pinned_cpus": [0, 1], "siblings": [[0], [1], [2], [3], [4], [5]], "socket": 0,
		"memory": 4096, "cpu_usage": 0, "memory_usage": 0, "network_metadata": null,
		"mempages": [{"nova_object.data": {"size_kb": 4, "total": 524288, "used": 0, "reserved": 0}},
			{"nova_object.data": {"size_kb": 2048, "total": 4, "used": 2, "reserved": 0}}]}}]}}`
	const pci = `[{"vendor_id": "10de", "product_id": "20b5", "numa_node": 1, "count": 1}]`
	gpu := func(n int64) []PCIRequest {
		return []PCIRequest{{Count: n, Policy: PCIRequired, Specs: []PCISpec{{{Key: "product_id", Value: "20b5"}, {Key: "vendor_id", Value: "10de"}}}}}
	}
	pinned := func(cpus int, memory, page int64) *InstanceNUMA {
		return &InstanceNUMA{Cells: []InstanceCell{{Dedicated: cpus, MemoryMB: memory, PageSize: page, Policy: CPUDedicated}}}
	}
	shared := func(cpus int, memory, page int64) *InstanceNUMA {
		return &InstanceNUMA{Cells: []InstanceCell{{CPUs: cpus, MemoryMB: memory, PageSize: page}}}
	}
	for name, c := range map[string]struct {
		nova NovaRequest
		want Lack
	}{
		"dedicated CPUs": {NovaRequest{NUMA: pinned(3, 4, 0)}, Lack{NUMAFilter, "dedicated CPUs", "not enough dedicated CPUs"}},
		"shared CPUs":    {NovaRequest{NUMA: shared(3, 4, 0)}, Lack{NUMAFilter, "CPUs", "not enough CPUs"}},
		"pages":          {NovaRequest{NUMA: shared(1, 6, 2048)}, Lack{NUMAFilter, "pages of 2048 KiB", "not enough pages of 2048 KiB"}},
		"memory":         {NovaRequest{NUMA: shared(1, 8192, 0)}, Lack{NUMAFilter, "memory", "not enough memory"}},
		"cells":          {NovaRequest{NUMA: &InstanceNUMA{Cells: make([]InstanceCell, 2)}}, Lack{NUMAFilter, "NUMA cells", "not enough NUMA cells"}},
		"near":           {NovaRequest{NUMA: shared(1, 4, 0), PCI: gpu(1)}, Lack{NUMAFilter, "devices near the NUMA cells", "not enough devices near the NUMA cells"}},
		"devices":        {NovaRequest{PCI: gpu(2)}, Lack{PCIFilter, "product_id=20b5,vendor_id=10de", "not enough devices product_id=20b5,vendor_id=10de: 2 asked for, 1 free"}},
	} {
		h, err := ReadHardware(numa, pci, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, lack := h.Assign(&GuestCheck{Nova: &c.nova, NUMA: true, PCI: true}); lack == nil || *lack != c.want {
			t.Errorf("%s: %+v, want %+v", name, lack, c.want)
		}
	}
}

// If a report lacks part of an assignment, Take changes nothing.
func TestTake_OfAnotherReport_TakesAllOrNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	applied, not := 0, 0
	for range 2000 {
		numa, pci := randomHardware(rng)
		other, otherPCI := randomHardware(rng)
		n := &NovaRequest{}
		randomGuest(rng, n)
		h, err := ReadHardware(numa, pci, 1, 1)
		o, otherErr := ReadHardware(other, otherPCI, 1, 1)
		if err != nil || otherErr != nil || n.NUMA == nil && len(n.PCI) == 0 {
			continue
		}
		a, lack := h.Assign(&GuestCheck{Nova: n, NUMA: true, PCI: true})
		if lack != nil {
			continue
		}
		before := o.left.devices()
		var devices int64
		for _, d := range a.Devices {
			devices += d.Count
		}
		if !o.Take(a) {
			devices = 0
			not++
		} else {
			applied++
		}
		if left := o.left.devices(); left != before-devices {
			t.Fatalf("%d devices are left of %d after %+v", left, before, a)
		}
		for _, c := range a.Cells {
			if i := -1; o.left.numa != nil && devices > 0 {
				if i = o.left.numa.cell(c.ID); i < 0 {
					t.Fatalf("cell %d is taken, and there is none", c.ID)
				}
			}
		}
	}
	if applied < 20 || not < 20 {
		t.Errorf("%d apply, %d do not: too few", applied, not)
	}
}
