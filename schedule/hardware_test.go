package schedule

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"cellgate/internal/norace"
	"cellgate/schedule/hardware"
)

// Instances that are assigned one after the other fit exactly where picks of one request fit. To
// take an assignment from the same report leaves the same hardware.
func TestAssign_RandomHardware_AgreesWithTheFilters(t *testing.T) {
	norace.Skip(t, norace.Pure)
	rng := rand.New(rand.NewPCG(11, 12))
	counts, ratios := map[string]int{}, hardware.Ratios{CPU: 1, RAM: 1}
	for range 3000 {
		numa, pci := randomHardware(rng)
		h := Host{UUID: fleetHost(1), View: View{CPURatio: 1, RAMRatio: 1}}
		h.Facts = ParseFacts(FactTexts{NUMATopology: numa, PCIPools: pci})
		left, problems := hardware.Read(numa, pci)
		if failed := len(h.Facts.Failed) > 0; failed != (problems != nil) {
			t.Fatalf("Read gives %v, ParseFacts %v", problems, h.Facts.Failed)
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
		guest := &hardware.Check{Guest: n.Guest, JudgeNUMA: true, JudgePCI: true}
		again, err := hardware.DecodeCheck(guest.Encode())
		if err != nil || !reflect.DeepEqual(again.Encode(), guest.Encode()) {
			t.Fatalf("%+v is read back as %+v, %v", n, again, err)
		}
		for i := range 3 {
			want := ""
			for _, r := range propose(t, table, q).Rejects {
				want = r.Filter
			}
			counts[want]++
			assigned, lack := left.Assign(again, ratios)
			got := ""
			if lack != nil {
				got = lack.Filter
			}
			if got != want {
				t.Fatalf("instance %d is rejected by %q, want %q\n%s\n%s\n%+v", i, got, want, numa, pci, n)
			}
			if want != "" {
				break
			}
			after, whole := left.Consume(&n.Guest, &ratios)
			var free bool
			if left, free = left.Without(assigned); !free && whole {
				t.Fatalf("instance %d: %+v is assigned, and is not free\n%s\n%s\n%+v", i, assigned, numa, pci, n)
			}
			if whole && !reflect.DeepEqual(left, after) {
				t.Fatalf("instance %d: %+v leaves %+v, want %+v", i, assigned, left, after)
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

// If a report lacks part of an assignment, Without changes nothing.
func TestWithout_OfAnotherReport_TakesAllOrNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	applied, not := 0, 0
	for range 2000 {
		numa, pci := randomHardware(rng)
		other, otherPCI := randomHardware(rng)
		n := &NovaRequest{}
		randomGuest(rng, n)
		h, problems := hardware.Read(numa, pci)
		o, otherProblems := hardware.Read(other, otherPCI)
		if problems != nil || otherProblems != nil || n.NUMA == nil && len(n.PCI) == 0 {
			continue
		}
		a, lack := h.Assign(&hardware.Check{Guest: n.Guest, JudgeNUMA: true, JudgePCI: true}, hardware.Ratios{CPU: 1, RAM: 1})
		if lack != nil {
			continue
		}
		before := o.FreeDevices()
		var devices int64
		for _, d := range a.Devices {
			devices += d.Count
		}
		after, free := o.Without(a)
		if !free {
			devices = 0
			not++
		} else {
			applied++
		}
		if left := after.FreeDevices(); left != before-devices {
			t.Fatalf("%d devices are left of %d after %+v", left, before, a)
		}
		for _, c := range a.Cells {
			if devices > 0 && !slices.ContainsFunc(after.Cells(), func(has hardware.CellSummary) bool { return has.ID == c.ID }) {
				t.Fatalf("cell %d is taken, and there is none", c.ID)
			}
		}
	}
	if applied < 20 || not < 20 {
		t.Errorf("%d apply, %d do not: too few", applied, not)
	}
}
