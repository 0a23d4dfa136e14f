package hostprobe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"cellgate/internal/config"
)

// poolsOf are the pools of a host as one line each.
func poolsOf(t *testing.T, specs []config.PCIDevice, instances ...Instance) ([]string, *Report) {
	t.Helper()
	s := plain()
	s.PCIDevices = specs
	r, err := report(t, tree(t, "two-nodes"), s, instances...)
	if err != nil {
		t.Fatal(err)
	}
	readable(t, r.State)
	var v any
	if err := json.Unmarshal([]byte(r.State.GetFacts().GetPciStats()), &v); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range bare(v).(map[string]any)["objects"].([]any) {
		p := p.(map[string]any)
		tags := p["tags"].(map[string]any)
		all = append(all, fmt.Sprintf("%v %v:%v %v at %v", p["count"], p["vendor_id"], p["product_id"], tags["dev_type"], p["numa_node"]))
	}
	return all, r
}

// Specs name devices as Nova's do.
func TestDeviceSpecs(t *testing.T) {
	const (
		vfs = "2 8086:154c type-VF at 1" // with an interface of its own, or without
		pf  = "1 8086:1572 type-PF at 1"
	)
	for _, c := range []struct {
		specs []config.PCIDevice
		want  []string
		notes int
	}{
		{[]config.PCIDevice{{VendorID: "8086", ProductID: "1572"}}, []string{pf}, 0},
		{[]config.PCIDevice{{VendorID: "0x8086", ProductID: "154C"}}, []string{vfs, vfs}, 0},
		{[]config.PCIDevice{{Address: "0000:81:00.0"}}, []string{pf, vfs, vfs}, 0}, // with its virtual functions
		{[]config.PCIDevice{{Address: "0:81:0.0", ProductID: "154c"}}, []string{vfs, vfs}, 0},
		{[]config.PCIDevice{{Address: "81:00.*"}}, []string{pf}, 0},
		{[]config.PCIDevice{{Address: ":02.1"}}, []string{"1 8086:154c type-VF at 1"}, 0},
		{[]config.PCIDevice{{Address: "*:*:02.3"}}, []string{"1 8086:154c type-VF at 1"}, 0},
		{[]config.PCIDevice{{DevName: "ens1f0"}}, []string{pf, vfs, vfs}, 0},
		{[]config.PCIDevice{{DevName: "eth9"}, {DevName: "none0"}, {VendorID: "10de"}}, []string{"2 10de:2235 type-PCI at 0"}, 2},
		{[]config.PCIDevice{{Address: "0000:c1:00.2"}}, []string{"1 15b3:101e vdpa at 1"}, 0},
		{[]config.PCIDevice{{Address: "0000:00:00.0"}}, []string{"1 8086:2020 type-PCI at <nil>"}, 0},
		{[]config.PCIDevice{{VendorID: "dead"}}, nil, 1},
		{[]config.PCIDevice{{ProductID: "2235", Address: "3b:*.*"}, {ProductID: "2235", Tags: []string{"x=y"}}}, []string{"1 10de:2235 type-PCI at 0", "1 10de:2235 type-PCI at 0"}, 0},
	} {
		got, r := poolsOf(t, c.specs)
		if !slices.Equal(got, c.want) || len(r.Notes) != c.notes {
			t.Errorf("%+v gives %q with %q, want %q with %d notes", c.specs, got, r.Notes, c.want, c.notes)
		}
	}
	// All devices of the machine: none is lost or doubled.
	total := 0
	all, _ := poolsOf(t, []config.PCIDevice{{}})
	for _, p := range all {
		n := 0
		if _, err := fmt.Sscan(p, &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != 10 {
		t.Errorf("%d devices in %q, want 10", total, all)
	}
	if r, err := report(t, tree(t, "two-nodes"), plain()); err != nil || r.State.GetFacts().GetPciStats() != "" {
		t.Errorf("without specs: %v %v", r, err)
	}
}

func TestBadDeviceSpecsAreNamed(t *testing.T) {
	s := plain()
	s.PCIDevices = []config.PCIDevice{
		{VendorID: "80866"},
		{ProductID: "xyz"},
		{Address: "1:2:3:4.5"},
		{Address: "0:0:20.0"},
		{Address: "0:0:0.8"},
		{Address: "x"},
		{Address: "81:00.0", DevName: "ens1f0"},
		{Tags: []string{"count=1"}},
		{Tags: []string{"remote_managed=true"}},
	}
	problems := s.Problems()
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	want := []string{
		"pci_devices[0].vendor_id", "pci_devices[1].product_id", "pci_devices[2].address", "pci_devices[3].address", "pci_devices[4].address",
		"pci_devices[5].address", "pci_devices[6].address", "pci_devices[7].tags", "pci_devices[8].tags",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("problems %v, want those of %v", problems, want)
	}
}

// Devices of instances are not free: the device itself, the physical function that it is a part of,
// and the virtual functions of a physical function (nova/pci/stats.py, _handle_device_dependents).
func TestDevicesOfInstancesAreNotFree(t *testing.T) {
	all := []config.PCIDevice{{Address: "0000:81:00.0"}, {VendorID: "10de"}}
	with := func(addresses ...string) Instance {
		return Instance{UUID: "11111111-0000-4000-8000-000000000001", PCIDevices: addresses}
	}
	for _, c := range []struct {
		has  []string
		want []string
	}{
		{nil, []string{"2 10de:2235 type-PCI at 0", "1 8086:1572 type-PF at 1", "2 8086:154c type-VF at 1", "2 8086:154c type-VF at 1"}},
		{[]string{"0000:3c:00.0"}, []string{"1 10de:2235 type-PCI at 0", "1 8086:1572 type-PF at 1", "2 8086:154c type-VF at 1", "2 8086:154c type-VF at 1"}},
		{[]string{"0000:81:02.3"}, []string{"2 10de:2235 type-PCI at 0", "2 8086:154c type-VF at 1", "1 8086:154c type-VF at 1"}},
		{[]string{"0000:81:00.0"}, []string{"2 10de:2235 type-PCI at 0"}},
	} {
		if got, _ := poolsOf(t, all, with(c.has...)); !slices.Equal(got, c.want) {
			t.Errorf("with %v taken: %q, want %q", c.has, got, c.want)
		}
	}
	s := plain()
	s.PCIDevices = all
	two := []Instance{with("0000:3b:00.0"), {UUID: "11111111-0000-4000-8000-000000000002", PCIDevices: []string{"0000:3b:00.0"}}}
	if _, err := report(t, tree(t, "two-nodes"), s, two...); err == nil || !strings.Contains(err.Error(), "another instance has 0000:3b:00.0 too") {
		t.Errorf("a device of two instances: %v", err)
	}
}

// A device that an instance has may be unplugged, or no longer be named. The host goes on, with a note.
func TestReport_DeviceOfAnInstanceIsMissing_Noted(t *testing.T) {
	all := []config.PCIDevice{{Address: "0000:81:00.0"}, {VendorID: "10de"}}
	i := Instance{UUID: "11111111-0000-4000-8000-000000000001", PCIDevices: []string{"0000:3c:00.0", "0000:77:00.0", "0000:c1:00.2"}}
	got, r := poolsOf(t, all, i)
	if want := []string{"1 10de:2235 type-PCI at 0", "1 8086:1572 type-PF at 1", "2 8086:154c type-VF at 1", "2 8086:154c type-VF at 1"}; !slices.Equal(got, want) {
		t.Errorf("pools %q, want %q", got, want)
	}
	if len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "0000:77:00.0") || !strings.Contains(r.Notes[1], "0000:c1:00.2") {
		t.Errorf("notes %q", r.Notes)
	}
}

// Nova ignores devices whose domain has more than four digits, such as those behind Intel's VMD.
func TestDeviceSpecs_DomainAboveFFFF_Ignored(t *testing.T) {
	files := tree(t, "two-nodes")
	for name, text := range map[string]string{"vendor": "0x10de\n", "device": "0x2235\n"} {
		files["sys/bus/pci/devices/10000:01:00.0/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	s := plain()
	s.PCIDevices = []config.PCIDevice{{VendorID: "10de"}}
	r, err := report(t, files, s)
	if err != nil || !strings.Contains(r.State.GetFacts().GetPciStats(), `"count":2`) {
		t.Errorf("with a device of domain 10000: %v %v", r, err)
	}
}

// vanishing is a tree of which a device is taken out when its vendor is read.
type vanishing struct {
	fstest.MapFS
	device string
}

func (v vanishing) ReadFile(name string) ([]byte, error) {
	if name == v.device+"/vendor" {
		maps.DeleteFunc(v.MapFS, func(path string, _ *fstest.MapFile) bool { return strings.HasPrefix(path, v.device+"/") })
	}
	return v.MapFS.ReadFile(name)
}

// A device that is removed while the bus is read is omitted. A device that exists but cannot be
// read is an error.
func TestDevicesThatGoWhileTheyAreRead(t *testing.T) {
	files := tree(t, "two-nodes")
	s := plain()
	s.PCIDevices = []config.PCIDevice{{VendorID: "10de"}}
	r, err := report(t, vanishing{files, "sys/bus/pci/devices/0000:3c:00.0"}, s)
	if err != nil || !strings.Contains(r.State.GetFacts().GetPciStats(), `"count":1`) {
		t.Errorf("a device that goes: %v %v", r, err)
	}
	delete(files, "sys/bus/pci/devices/0000:3b:00.0/vendor")
	if _, err := report(t, files, s); err == nil || !strings.Contains(err.Error(), "/sys/bus/pci/devices/0000:3b:00.0/vendor") {
		t.Errorf("a device without a vendor: %v", err)
	}
}
