package hostprobe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/config"
	"cellgate/internal/fault"
)

// spec is a parsed config.PCIDevice: one of Nova's [pci] device_spec (nova/pci/devspec.py).
type spec struct {
	vendor, product string
	// address has domain, bus, slot and function; anything matches all.
	address [4]string
	devName string
	tags    map[string]string
}

const anything = "*"

// reservedTags are keys that a pool has already, and keys that only Nova can know.
var reservedTags = []string{"vendor_id", "product_id", "address", "devname", "numa_node", "count", "dev_type", "parent_ifname", "remote_managed"}

// parseSpec parses a spec; path names it in problems.
func parseSpec(s *config.PCIDevice, path string) (out spec, problems []fault.Field) {
	bad := func(field, format string, args ...any) {
		problems = append(problems, fault.Field{Path: path + "." + field, Problem: fmt.Sprintf(format, args...)})
	}
	tags, _ := config.Pairs(s.Tags) // the configuration's check reads them too
	for tag, value := range map[string]string{"physical_network": s.PhysicalNetwork, "trusted": s.Trusted} {
		if value != "" && tags != nil {
			tags[tag] = value
		}
	}
	out = spec{devName: s.DevName, tags: tags, address: [4]string{anything, anything, anything, anything}}
	var ok bool
	if out.vendor, ok = parseHex(s.VendorID, 4); !ok {
		bad("vendor_id", "%q is neither a hexadecimal number of 4 digits nor *", s.VendorID)
	}
	if out.product, ok = parseHex(s.ProductID, 4); !ok {
		bad("product_id", "%q is neither a hexadecimal number of 4 digits nor *", s.ProductID)
	}
	if s.Address != "" {
		if s.DevName != "" {
			bad("address", "is given with devname: name devices by one of them")
		}
		if out.address, ok = parseAddress(s.Address); !ok {
			bad("address", "%q is not domain:bus:slot.function, in hexadecimal or *", s.Address)
		}
	}
	for tag := range tags {
		if tag == "" || slices.Contains(reservedTags, tag) {
			bad("tags", "%q cannot be a tag", tag)
		}
	}
	return out, problems
}

// parseHex parses up to digits hexadecimal digits, with or without 0x; "" is anything. It pads with
// zeros, as sysfs does.
func parseHex(text string, digits int) (string, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" || text == anything {
		return anything, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
	if err != nil || n >= 1<<(4*digits) {
		return "", false
	}
	return fmt.Sprintf("%0*x", digits, n), true
}

// parseAddress parses an address with *; omitted parts are anything.
func parseAddress(text string) (out [4]string, ok bool) {
	front, function, _ := strings.Cut(text, ".")
	parts := strings.Split(front, ":")
	if len(parts) > 3 {
		return out, false
	}
	parts = append(slices.Repeat([]string{""}, 3-len(parts)), parts...)
	for i, digits := range [3]int{4, 2, 2} {
		if out[i], ok = parseHex(parts[i], digits); !ok {
			return out, false
		}
	}
	if out[3], ok = parseHex(function, 1); !ok || out[3] != anything && out[3] > "7" || out[2] != anything && out[2] > "1f" {
		return out, false
	}
	return out, true
}

// matches reports whether the spec matches a device of m.
func (s *spec) matches(m *Machine, d *device) bool {
	if s.vendor != anything && s.vendor != d.vendor || s.product != anything && s.product != d.product {
		return false
	}
	if s.devName != "" {
		at := m.interfaces[s.devName]
		return at != "" && (at == d.address || at == d.parent)
	}
	if s.names(d.address) {
		return true
	}
	// The address of a physical function matches its virtual functions, too.
	return d.parent != "" && !slices.Contains(s.address[:], anything) && s.names(d.parent)
}

func (s *spec) names(address string) bool {
	parts := pciAddress.FindStringSubmatch(address)
	if parts == nil {
		return false
	}
	for i, want := range s.address {
		if want != anything && want != parts[i+1] {
			return false
		}
	}
	return true
}
