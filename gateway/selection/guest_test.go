package selection

import (
	"testing"

	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// A claim keeps of its instance what later requests ask: the flavor, the image only
// where it is weighed, NUMA cells and devices.
func TestGuestOf(t *testing.T) {
	n := &schedule.NovaRequest{
		Flavor: schedule.Flavor{ID: "7"}, Image: &schedule.Image{ID: "i", Properties: []schedule.Property{{Name: "os_distro", Text: "debian"}}},
	}
	plain, weighed := &schedule.Rules{}, &schedule.Rules{Weighers: []schedule.Weigher{{Name: schedule.ImagePropertiesWeigher}}}
	if g := guestOf(&schedule.Request{Nova: n}, plain, &schedule.Allocation{}); g.GetFlavorId() != "7" || g.GetImage() != nil || g.GetNuma() != nil {
		t.Errorf("without the weigher: %v", g)
	}
	if g := guestOf(&schedule.Request{Nova: n}, weighed, &schedule.Allocation{}); len(g.GetImage().GetProperties()) != 1 {
		t.Errorf("with the weigher: %v", g)
	}
	n.NUMA = &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{{CPUs: 2}}}
	n.PCI = []hardware.PCIRequest{{Count: 1}}
	n.Networks = &hardware.NetworkNeeds{Tunneled: true}
	g := guestOf(&schedule.Request{Nova: n}, plain, &schedule.Allocation{})
	if len(g.GetNuma().GetCells()) != 1 || len(g.GetPciRequests()) != 1 || !g.GetNetworks().GetTunneled() {
		t.Errorf("hardware: %v", g)
	}
	if guestOf(&schedule.Request{Nova: &schedule.NovaRequest{}}, weighed, &schedule.Allocation{}) != nil || guestOf(&schedule.Request{}, plain, &schedule.Allocation{}) != nil {
		t.Error("nothing to keep became something")
	}
}
