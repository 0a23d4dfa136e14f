package nova

import (
	"math"
	"strings"

	"cellgate/internal/osnames"
	"cellgate/schedule"
)

// Placement's classes that Nova fills from every flavor.
const (
	vcpu     = "VCPU"
	memoryMB = "MEMORY_MB"
	diskGB   = "DISK_GB"
)

// customPrefix is the prefix of operators' own classes.
const customPrefix = osnames.CustomPrefix

// KnownResourceClass reports whether Placement may know the class: a standard class, or a valid name of a custom one.
func KnownResourceClass(class string) bool {
	custom, ok := strings.CutPrefix(class, customPrefix)
	return osnames.IsClass(class) || (ok && custom != "" && symbol(class))
}

// symbol reports whether s can be the name of a trait or a resource class.
func symbol(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// Flavor is the part of a flavor that affects placement. Amounts are not negative, in the units of their names.
type Flavor struct {
	ID          string
	Name        string
	VCPUs       int64
	MemoryMB    int64
	RootGB      int64
	EphemeralGB int64
	SwapMB      int64
	ExtraSpecs  map[string]string
}

// Resources gives the amounts that a flavor asks for, by class, before overrides (nova/scheduler/utils.py,
// ResourceRequest). DISK_GB is the sum of the root disk, unless the instance boots from a volume, the ephemeral disk,
// and swap rounded up to GiB. Amounts of 0 are included.
func (f Flavor) Resources(bootFromVolume bool) map[string]int64 {
	disk := f.EphemeralGB + (f.SwapMB+1023)/1024
	if !bootFromVolume {
		disk += f.RootGB
	}
	return map[string]int64{vcpu: f.VCPUs, memoryMB: f.MemoryMB, diskGB: disk}
}

// Consumption is what Nova's scheduler subtracts from a host state for an instance of the flavor
// (nova/scheduler/host_manager.py, _locked_consume_from_request). The root disk counts even if the instance boots
// from a volume; swap and overrides do not.
func (f Flavor) Consumption() schedule.Consumption {
	return schedule.Consumption{
		VCPUs:  f.VCPUs,
		RAMMB:  f.MemoryMB,
		DiskMB: (f.RootGB + f.EphemeralGB) * 1024,
	}
}

// consumption is what a claim of these amounts changes in the view of a host that reports inventories. Dedicated CPUs
// count as used, as in Nova.
func consumption(resources []schedule.Amount) schedule.Consumption {
	var c schedule.Consumption
	for _, a := range resources {
		switch a.Class {
		case vcpu, pcpu:
			c.VCPUs += a.N
		case memoryMB:
			c.RAMMB = a.N
		case diskGB:
			c.DiskMB = a.N * 1024
		}
	}
	return c
}

// amounts gives the amounts above 0, sorted by class.
func (f *findings) amounts(path string, by map[string]int64) []schedule.Amount {
	out := make([]schedule.Amount, 0, len(by))
	for _, class := range sortedKeys(by) {
		n := by[class]
		if n > math.MaxInt32 {
			f.invalid(path, "asks for %d of %s, the most is %d", n, class, math.MaxInt32)
		}
		if n > 0 {
			out = append(out, schedule.Amount{Class: class, N: n})
		}
	}
	return out
}
