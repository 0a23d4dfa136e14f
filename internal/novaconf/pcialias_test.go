package novaconf

import (
	"errors"
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
		{Name: "nic", LiveMigratable: "yes", ResourceClass: "CUSTOM_NIC", Traits: "A"},
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

// A problem of an alias is reported with its file and line, in terms of the alias's keys.
func TestPCIAliasesThatAreWrong(t *testing.T) {
	known := everything()
	known.PCIAliases = func(all []PCIAlias) (int, error) {
		i := slices.IndexFunc(all, func(a PCIAlias) bool { return a.VendorID == "zz" })
		if i < 0 {
			return 0, nil
		}
		return i, errors.New("vendor_id must be four hexadecimal digits")
	}
	for text, want := range map[string]string{
		`{"name": "b", "vendor_id": "zz"}`: "a.conf:3: [pci] alias: vendor_id must be four hexadecimal digits",
		`{"name": 1}`:                      "a.conf:3: [pci] alias: name must be a text, not number",
		`["gpu"]`:                          "must be an object in JSON, not array",
		`{"name": "b", "vendor": "10de"}`:  `is no alias in JSON: unknown field "vendor"`,
		`{"name": "b", "vendor_id": "10"}`: "",
	} {
		_, err := Read(write(t, "[pci]\nalias = {\"name\": \"a\"}\nalias = "+text+"\n"), known)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "struct")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
