package agent

import (
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule/hardware"
)

// Hosts h021 to h025 report NUMA cells, and h024 and h025 also cards. Guests that ask for two
// pinned nodes with huge pages, or for a card near its node, fit there, as many as there is room
// for.
func TestSimulatedHardwareTakesGuests(t *testing.T) {
	pinned := func(dedicated int, pageKB int64) *hardware.InstanceNUMA {
		var cells []hardware.InstanceCell
		for n := range int64(2) {
			cells = append(cells, hardware.InstanceCell{
				ID: n, Dedicated: dedicated, MemoryMB: 4096, PageSize: pageKB,
				Policy: hardware.CPUDedicated, Threads: hardware.ThreadRequire,
			})
		}
		return &hardware.InstanceNUMA{Cells: cells}
	}
	card := func(vendor, product string) []hardware.PCIRequest {
		return []hardware.PCIRequest{{Count: 2, Policy: hardware.PCIRequired, Specs: []hardware.PCISpec{{
			{Key: "vendor_id", Value: vendor}, {Key: "product_id", Value: product},
		}}}}
	}
	for i, s := range fleetOf(t, "cell1")[:100] {
		slot := i%hostsPerRack + 1
		hw, err := readHardware(s)
		if err != nil {
			t.Fatal(err)
		}
		fits := func(asked hardware.Guest, taken int) bool {
			guest := &hardware.Check{Guest: asked, JudgeNUMA: true, JudgePCI: true}
			held := make([]*hardware.Check, taken)
			for k := range held {
				held[k] = guest
			}
			reason, _ := judgeGuest(*hw, ratiosOf(s), guest, held)
			return reason == ok
		}
		nodes := slot >= 21
		for what, got := range map[string]bool{
			"2 MiB":     fits(hardware.Guest{NUMA: pinned(4, 2048)}, 0) == nodes,
			"1 GiB":     fits(hardware.Guest{NUMA: pinned(4, 1<<20)}, 3) == nodes,
			"1 GiB, 5":  !fits(hardware.Guest{NUMA: pinned(4, 1<<20)}, 4) || isQuad(s),
			"no size":   fits(hardware.Guest{NUMA: pinned(4, 0)}, 0) == nodes,
			"too many":  !fits(hardware.Guest{NUMA: pinned(130, 0)}, 0),
			"A40":       fits(hardware.Guest{NUMA: pinned(2, 0), PCI: card("10de", "2235")}, 1) == (slot == 24),
			"A40, 3rd":  !fits(hardware.Guest{NUMA: pinned(2, 0), PCI: card("10de", "2235")}, 2),
			"FPGA card": fits(hardware.Guest{PCI: card("10ee", "5004")}, 1) == (slot == 25),
		} {
			if !got {
				t.Errorf("%s: %s is not as the table says", s.GetServiceHost(), what)
			}
		}
	}
}

// isQuad reports whether a host has four nodes, which have room for twice as many guests as two.
func isQuad(s *agentv1.FullState) bool { return inventory(s, "VCPU").GetTotal() == 224 }
