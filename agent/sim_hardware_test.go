package agent

import (
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// Hosts h021 to h025 report NUMA cells, and h024 and h025 also cards. Guests that ask for two
// pinned nodes with huge pages, or for a card near its node, fit there, as many as there is room
// for.
func TestSimulatedHardwareTakesGuests(t *testing.T) {
	pinned := func(dedicated int, pageKB int64) *schedule.InstanceNUMA {
		var cells []schedule.InstanceCell
		for n := range int64(2) {
			cells = append(cells, schedule.InstanceCell{
				ID: n, Dedicated: dedicated, MemoryMB: 4096, PageSize: pageKB,
				Policy: schedule.CPUDedicated, Threads: schedule.ThreadRequire,
			})
		}
		return &schedule.InstanceNUMA{Cells: cells}
	}
	card := func(vendor, product string) []schedule.PCIRequest {
		return []schedule.PCIRequest{{Count: 2, Policy: schedule.PCIRequired, Specs: []schedule.PCISpec{{
			{Key: "vendor_id", Value: vendor}, {Key: "product_id", Value: product},
		}}}}
	}
	for i, s := range fleetOf(t, "cell1")[:100] {
		slot := i%hostsPerRack + 1
		hw, err := readHardware(s)
		if err != nil {
			t.Fatal(err)
		}
		fits := func(n *schedule.NovaRequest, taken int) bool {
			n.Image = &schedule.Image{}
			guest := &schedule.GuestCheck{Nova: n, NUMA: true, PCI: true}
			held := make([]*schedule.GuestCheck, taken)
			for k := range held {
				held[k] = guest
			}
			reason, _ := judgeGuest(*hw, guest, held)
			return reason == ok
		}
		nodes := slot >= 21
		for what, got := range map[string]bool{
			"2 MiB":     fits(&schedule.NovaRequest{NUMA: pinned(4, 2048)}, 0) == nodes,
			"1 GiB":     fits(&schedule.NovaRequest{NUMA: pinned(4, 1<<20)}, 3) == nodes,
			"1 GiB, 5":  !fits(&schedule.NovaRequest{NUMA: pinned(4, 1<<20)}, 4) || isQuad(s),
			"no size":   fits(&schedule.NovaRequest{NUMA: pinned(4, 0)}, 0) == nodes,
			"too many":  !fits(&schedule.NovaRequest{NUMA: pinned(130, 0)}, 0),
			"A40":       fits(&schedule.NovaRequest{NUMA: pinned(2, 0), PCI: card("10de", "2235")}, 1) == (slot == 24),
			"A40, 3rd":  !fits(&schedule.NovaRequest{NUMA: pinned(2, 0), PCI: card("10de", "2235")}, 2),
			"FPGA card": fits(&schedule.NovaRequest{PCI: card("10ee", "5004")}, 1) == (slot == 25),
		} {
			if !got {
				t.Errorf("%s: %s is not as the table says", s.GetServiceHost(), what)
			}
		}
	}
}

// isQuad reports whether a host has four nodes, which have room for twice as many guests as two.
func isQuad(s *agentv1.FullState) bool { return inventory(s, "VCPU").GetTotal() == 224 }
