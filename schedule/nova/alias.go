package nova

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/python"
	"cellgate/schedule/hardware"
)

// Alias is a name for PCI devices, as an entry of Nova's option [pci] alias. Empty fields do not restrict.
type Alias struct {
	Name      string
	VendorID  string
	ProductID string
	// DeviceType is type-PCI, type-PF or type-VF.
	DeviceType string
	// NUMAPolicy is required, preferred, socket or legacy; empty means legacy.
	NUMAPolicy string
	// CapabilityType is empty or pci.
	CapabilityType string
	// LiveMigratable is a boolean as text, or empty.
	LiveMigratable string
	// ResourceClass and Traits (separated by commas or +) are what Placement is asked for, in any spelling that Nova
	// can turn into a name.
	ResourceClass string
	Traits        string
}

// Aliases are the aliases that flavors may name. Nil: none.
type Aliases struct{ named map[string]alias }

// alias has one spec for each entry with its name; a device must match one of them.
type alias struct {
	policy string
	specs  []hardware.PCISpec
	// ofPlacement are, for each spec, its fields for Placement.
	ofPlacement []placementSpec
}

var fourHex = regexp.MustCompile(`^[\da-fA-F]{4}$`)

// NewAliases joins entries, of which several may have one name (nova/pci/request.py, get_alias_from_config). index is
// the entry that err is about.
func NewAliases(entries []Alias) (a *Aliases, index int, err error) {
	a = &Aliases{named: map[string]alias{}}
	types := map[string]string{}
	for i := range entries {
		e := &entries[i]
		if problem := e.problem(); problem != "" {
			return nil, i, fmt.Errorf("%s", problem)
		}
		name, policy := python.Strip(e.Name), cmp.Or(e.NUMAPolicy, hardware.PCILegacy)
		known, again := a.named[name]
		switch {
		case !again:
			types[name] = e.DeviceType
		case known.policy != policy:
			return nil, i, fmt.Errorf("alias %s has the numa_policy %s, and another one above", name, policy)
		case e.DeviceType == "" || types[name] != e.DeviceType:
			return nil, i, fmt.Errorf("alias %s is there twice: both must have the same device_type", name)
		}
		known.policy, known.specs = policy, append(known.specs, e.spec())
		known.ofPlacement = append(known.ofPlacement, placementSpec{
			vendor: e.VendorID, product: e.ProductID, class: e.ResourceClass, traits: strings.ReplaceAll(e.Traits, "+", ","),
		})
		a.named[name] = known
	}
	return a, 0, nil
}

func (e *Alias) problem() string {
	oneOf := func(what, value string, allowed ...string) string {
		if value == "" || slices.Contains(allowed, value) {
			return ""
		}
		return fmt.Sprintf("%s must be one of %s, not %q", what, strings.Join(allowed, ", "), shorten(value))
	}
	hex := func(what, id string) string {
		if id == "" || fourHex.MatchString(id) {
			return ""
		}
		return fmt.Sprintf("%s must be four hexadecimal digits, not %q", what, shorten(id))
	}
	name := ""
	if n := python.Strip(e.Name); n == "" || len(n) > 256 {
		name = "name must have 1 to 256 characters"
	}
	for _, p := range []string{
		name, hex("vendor_id", e.VendorID), hex("product_id", e.ProductID),
		oneOf("device_type", e.DeviceType, "type-PCI", "type-PF", "type-VF"),
		oneOf("numa_policy", e.NUMAPolicy, hardware.PCIRequired, hardware.PCILegacy, hardware.PCIPreferred, hardware.PCISocket),
		oneOf("capability_type", e.CapabilityType, "pci"),
		oneOf("live_migratable", strings.ToLower(python.Strip(e.LiveMigratable)),
			"1", "t", "true", "on", "y", "yes", "0", "f", "false", "off", "n", "no"),
	} {
		if p != "" {
			return p
		}
	}
	return ""
}

// spec is what devices of the entry must have.
func (e *Alias) spec() hardware.PCISpec {
	migratable := ""
	if e.LiveMigratable != "" {
		migratable = strconv.FormatBool(truthy(e.LiveMigratable))
	}
	spec := hardware.PCISpec{}
	for _, p := range []hardware.PCIProperty{
		{Key: "capability_type", Value: e.CapabilityType},
		{Key: "dev_type", Value: e.DeviceType},
		{Key: "live_migratable", Value: migratable},
		{Key: "product_id", Value: e.ProductID},
		{Key: "vendor_id", Value: e.VendorID},
	} {
		if p.Value != "" {
			spec = append(spec, p)
		}
	}
	return spec
}

// aliasKey is the extra spec that names aliases.
const aliasKey = "pci_passthrough:alias"

// devices are the device requests in pci_passthrough:alias, a list of NAME:COUNT. A NUMA policy of the flavor or the
// image overrides the alias's own.
func (g *guest) devices() (requests []hardware.PCIRequest, aliased []aliasRequest) {
	policy := g.pciPolicy()
	text, ok := g.spec.Flavor.ExtraSpecs[aliasKey]
	if !ok {
		return nil, nil
	}
	where := g.extraSpec(aliasKey)
	asked := strings.Split(text, ",")
	if len(asked) > maxPCIRequests {
		g.invalid(where, "has %d aliases, the most is %d", len(asked), maxPCIRequests)
		return nil, nil
	}
	for i, one := range asked {
		name, count, ok := strings.Cut(one, ":")
		n, whole := python.Int(count)
		if !ok || !whole || n < 1 || amountProblem(n) != "" {
			g.invalid(where, "%q is not NAME:COUNT with a count of at least 1", shorten(one))
			return nil, nil
		}
		name = python.Strip(name)
		known, ok := g.options.alias(name)
		if !ok {
			g.invalid(where, "there is no PCI alias %q: the gateway's pci_alias, or [pci] alias of its nova.conf, has it", shorten(name))
			return nil, nil
		}
		requests = append(requests, hardware.PCIRequest{Count: n, Specs: known.specs, Policy: cmp.Or(policy, known.policy)})
		aliased = append(aliased, aliasRequest{path: where, name: name, index: i, id: fmt.Sprintf("pci_request_%d", i), specs: known.ofPlacement})
	}
	return requests, aliased
}

func (o *Options) alias(name string) (alias, bool) {
	if o.Aliases == nil {
		return alias{}, false
	}
	a, ok := o.Aliases.named[name]
	return a, ok
}
