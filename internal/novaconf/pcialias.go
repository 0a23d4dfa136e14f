package novaconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// pciAliases parses the entries of [pci] alias, each a JSON object, and has them checked together.
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

// readPCIAlias parses the keys that Nova allows, all of them texts (nova/pci/request.py,
// _ALIAS_SCHEMA).
func readPCIAlias(text string) (alias PCIAlias, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&alias); err != nil {
		var mistyped *json.UnmarshalTypeError
		switch {
		case errors.As(err, &mistyped) && mistyped.Field != "":
			return alias, fmt.Errorf("%s must be a text, not %s", mistyped.Field, mistyped.Value)
		case errors.As(err, &mistyped):
			return alias, fmt.Errorf("%q must be an object in JSON, not %s", text, mistyped.Value)
		}
		return alias, fmt.Errorf("%q is no alias in JSON: %s", text, strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return alias, fmt.Errorf("%q goes on after the alias", text)
	}
	return alias, nil
}
