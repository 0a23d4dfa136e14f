package novaconf

import (
	"slices"
	"strings"
	"testing"
)

func TestPCIAliases(t *testing.T) {
	s := settings(t, everything(), `[pci]
alias = { "name": "gpu", "vendor_id": "10de", "product_id": "1db6",
  "device_type": "type-PCI", "numa_policy": "required" }
alias = '{"name": "nic", "live_migratable": "yes", "resource_class": "CUSTOM_NIC", "traits": "A"}'
device_spec = {"vendor_id": "10de"}
[DEFAULT]
pci_alias = {"name": "old", "capability_type": "pci"}
`)
	want := []PCIAlias{
		{Name: "gpu", VendorID: "10de", ProductID: "1db6", DeviceType: "type-PCI", NUMAPolicy: "required"},
		{Name: "nic", LiveMigratable: "yes"},
		{Name: "old", CapabilityType: "pci"},
	}
	if !slices.Equal(s.PCIAliases, want) {
		t.Errorf("aliases %+v, want %+v", s.PCIAliases, want)
	}
	for _, text := range []string{"", "gpu", `{"name": "x"} {}`, `{"name": 1}`, `{"name": "x", "vendor": "10de"}`} {
		_, err := Read(write(t, "[pci]\nalias = "+text+"\n"), everything())
		if err == nil || !strings.Contains(err.Error(), "a.conf:2: [pci] alias: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
