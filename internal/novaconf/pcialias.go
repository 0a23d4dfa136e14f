package novaconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// pciAliases reads the entries of [pci] alias, each an object in JSON, and has them
// checked together.
func (t *translation) pciAliases() {
	option := place{pci, "alias"}
	var from []*assignment // of each alias
	for _, a := range t.every(option, place{"DEFAULT", "pci_alias"}) {
		t.From[option.String()] = a.at()
		alias, err := readPCIAlias(t.text(a))
		if err != nil {
			t.bad("%s: %s: %v", a.at(), a.place, err)
			continue
		}
		t.PCIAliases, from = append(t.PCIAliases, alias), append(from, a)
	}
	if t.known.PCIAliases == nil {
		return
	}
	if i, err := t.known.PCIAliases(t.PCIAliases); err != nil {
		t.bad("%s: %s: %v", from[i].at(), from[i].place, err)
	}
}

// readPCIAlias reads the keys that Nova allows, all of them text
// (nova/pci/request.py, _ALIAS_SCHEMA).
func readPCIAlias(text string) (PCIAlias, error) {
	var e struct {
		Name           string `json:"name"`
		VendorID       string `json:"vendor_id"`
		ProductID      string `json:"product_id"`
		DeviceType     string `json:"device_type"`
		NUMAPolicy     string `json:"numa_policy"`
		CapabilityType string `json:"capability_type"`
		LiveMigratable string `json:"live_migratable"`
		ResourceClass  string `json:"resource_class"`
		Traits         string `json:"traits"`
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		var mistyped *json.UnmarshalTypeError
		switch {
		case errors.As(err, &mistyped) && mistyped.Field != "":
			return PCIAlias{}, fmt.Errorf("%s must be a text, not %s", mistyped.Field, mistyped.Value)
		case errors.As(err, &mistyped):
			return PCIAlias{}, fmt.Errorf("%q must be an object in JSON, not %s", text, mistyped.Value)
		}
		return PCIAlias{}, fmt.Errorf("%q is no alias in JSON: %s", text, strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return PCIAlias{}, fmt.Errorf("%q goes on after the alias", text)
	}
	return PCIAlias{
		Name: e.Name, VendorID: e.VendorID, ProductID: e.ProductID, DeviceType: e.DeviceType,
		NUMAPolicy: e.NUMAPolicy, CapabilityType: e.CapabilityType, LiveMigratable: e.LiveMigratable,
		ResourceClass: e.ResourceClass, Traits: e.Traits,
	}, nil
}
