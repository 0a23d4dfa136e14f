package hostprobe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// cpuInfo is the content of /proc/cpuinfo. Fields that it lacks are empty.
type cpuInfo struct {
	vendor, model string
	// flags are those that every processor has, sorted.
	flags []string
	// physBits is the width of physical addresses; 0 when unknown.
	physBits int
}

// parseCPUInfo parses /proc/cpuinfo of any architecture: blocks of "key : value". It never fails,
// because a kernel may leave out any key.
func parseCPUInfo(text string) cpuInfo {
	var c cpuInfo
	first := true
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id", "CPU implementer":
			c.vendor = cmp.Or(c.vendor, value)
		case "model name":
			c.model = cmp.Or(c.model, value)
		case "address sizes":
			if bits, _, ok := strings.Cut(value, " bits physical"); ok && c.physBits == 0 {
				if n, err := strconv.Atoi(bits); err == nil && n > 0 && n <= 64 {
					c.physBits = n
				}
			}
		case "flags", "Features": // x86, ARM
			flags := strings.Fields(value)
			slices.Sort(flags)
			flags = slices.Compact(flags)
			if first {
				c.flags, first = flags, false
			} else {
				c.flags = both(c.flags, flags)
			}
		}
	}
	return c
}

// both returns the common elements of two sorted lists.
func both(a, b []string) []string {
	if slices.Equal(a, b) {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool {
		_, found := slices.BinarySearch(b, s)
		return !found
	})
}

// vendors maps the kernel's names of CPU vendors to libvirt's: on x86 the kernel has a text, on ARM the
// implementer's number.
var vendors = map[string]string{
	"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon", "CentaurHauls": "VIA",
	"0x41": "ARM", "0x42": "Broadcom", "0x43": "Cavium", "0x46": "FUJITSU", "0x48": "HiSilicon",
	"0x4e": "NVIDIA", "0x50": "APM", "0x51": "Qualcomm", "0x53": "Samsung", "0x56": "Marvell", "0xc0": "Ampere",
}

// vendorName is libvirt's name of the vendor, or the kernel's if libvirt has none.
func (c *cpuInfo) vendorName() string {
	if name, ok := vendors[c.vendor]; ok {
		return name
	}
	return c.vendor
}
