package proposing

import (
	"strings"
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// inRange brings what was drawn into the ranges that a Fields accepts.
func inRange(n *schedule.NovaRequest) {
	if n == nil {
		return
	}
	if n.NUMA != nil && len(n.NUMA.Cells) == 0 {
		n.NUMA = nil
	}
	if n.NUMA != nil {
		n.NUMA.Cells = n.NUMA.Cells[:min(len(n.NUMA.Cells), maxGuestCells)]
		for i := range n.NUMA.Cells {
			c := &n.NUMA.Cells[i]
			c.CPUs, c.Dedicated = int(uint(c.CPUs)%maxGuestCPUs), int(uint(c.Dedicated)%maxGuestCPUs)
			c.MemoryMB, c.PageSize = int64(uint32(c.MemoryMB)>>1), int64(uint32(c.PageSize)>>1)-3
		}
	}
	for i := range n.PCI {
		n.PCI[i].Count = 1 + int64(uint32(n.PCI[i].Count)>>2)
	}
}

// Amounts of NUMA cells and devices that a gateway would not send are refused.
func TestNUMAOutOfRange(t *testing.T) {
	for _, c := range []struct {
		nova *cellv1.NovaRequest
		path string
	}{
		{&cellv1.NovaRequest{Numa: &cellv1.GuestNuma{}}, "placement.nova.numa.cells"},
		{&cellv1.NovaRequest{Numa: &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{}, {Cpus: -1}}}}, "placement.nova.numa.cells[1]"},
		{&cellv1.NovaRequest{Numa: &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{PageSize: -4}}}}, "placement.nova.numa.cells[0]"},
		{&cellv1.NovaRequest{PciRequests: []*cellv1.PciRequest{{}}}, "placement.nova.pci_requests[0].count"},
	} {
		var r Fields
		r.nova(c.nova)
		if len(r.bad) != 1 || !strings.Contains(r.bad[0].Path, c.path) {
			t.Errorf("problems %+v, want one of %s", r.bad, c.path)
		}
	}
}
