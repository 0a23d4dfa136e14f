package nova

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"cellgate/internal/python"
	"cellgate/schedule/hardware"
)

// resolve makes the NUMA topology and the device requests for a form that has only the flavor and the image, as
// Nova's API does (nova/compute/api.py, _validate_and_build_base_options).
func (f *findings) resolve(s *Spec) {
	g := newGuest(f, s)
	s.NUMA = g.topology()
	s.PCI, s.aliased = g.devices()
}

// topology is the guest's NUMA topology; nil for none (nova/virt/hardware.py, numa_get_constraints). There is one if
// NUMA nodes, memory pages, dedicated CPUs or persistent memory are asked for.
func (g *guest) topology() *hardware.InstanceNUMA {
	nodes := g.numaNodes()
	size, sized := g.pageSize()
	g.lockedMemory()
	images := g.imageCells()
	cpus, ok := g.guestCPUs()
	if !ok || nodes == 0 && !sized && !g.hasPersistentMemory() && !cpus.pinned() {
		return nil
	}
	nodes = max(nodes, 1)
	vcpus := g.spec.Flavor.VCPUs
	switch {
	case nodes > maxGuestCells:
		g.invalid(g.at("hw:numa_nodes", "hw_numa_nodes"), "is %d, the most is %d", nodes, maxGuestCells)
		return nil
	case vcpus > maxGuestCPUs:
		g.invalid(g.spec.Path+".flavor.vcpus", "is %d, the most with a NUMA topology is %d", vcpus, maxGuestCPUs)
		return nil
	}
	n := &hardware.InstanceNUMA{IsolateEmulator: cpus.emulator == "isolate"}
	for _, c := range g.cells(nodes, images) {
		cell := hardware.InstanceCell{
			ID: int64(len(n.Cells)), MemoryMB: c.memory, PageSize: size, Policy: cpus.policy, Threads: cpus.threads,
		}
		for cpu := range c.cpus {
			if cpus.isDedicated(cpu) {
				cell.Dedicated++
			} else {
				cell.CPUs++
			}
		}
		n.Cells = append(n.Cells, cell)
	}
	if len(n.Cells) == 0 {
		return nil // cells reported a problem
	}
	return n
}

// guestCPUs are the policies of a guest's CPUs.
type guestCPUs struct {
	policy, threads, emulator string
	// threadsAt is the path of the key that sets threads.
	threadsAt string
	// dedicated are the dedicated CPUs under the policy mixed.
	dedicated cpuSet
}

func (c *guestCPUs) pinned() bool {
	return c.policy == hardware.CPUDedicated || c.policy == hardware.CPUMixed
}

func (c *guestCPUs) isDedicated(cpu int64) bool {
	return c.policy == hardware.CPUDedicated || c.dedicated[cpu]
}

// guestCPUs combines the policies; false if they are invalid or contradict each other.
func (g *guest) guestCPUs() (c guestCPUs, ok bool) {
	before := len(g.paths)
	c = guestCPUs{
		policy: g.cpuPolicy(), emulator: g.emulatorPolicy(), dedicated: g.dedicatedCPUs(),
		threads: g.threadPolicy(), threadsAt: g.at("hw:cpu_thread_policy", "hw_cpu_thread_policy"),
	}
	realtime := g.realtimeCPUs(c.emulator)
	g.explicitCPUs(&c)
	g.explicitThreads(&c)
	switch c.policy {
	case hardware.CPUDedicated:
		g.onlyMixed(&c)
	case hardware.CPUMixed:
		if (len(realtime) > 0) == (len(c.dedicated) > 0) {
			g.invalid(g.at("hw:cpu_policy", "hw_cpu_policy"), "is mixed: either hw:cpu_dedicated_mask or the realtime mask must say which CPUs are dedicated")
		}
		if len(c.dedicated) == 0 {
			c.dedicated = realtime
		}
	default:
		g.onlyMixed(&c)
		if c.threads != "" {
			g.invalid(c.threadsAt, "is for dedicated CPUs: a CPU policy must ask for them")
		}
		if c.emulator == "isolate" {
			g.invalid(g.extraSpec("hw:emulator_threads_policy"), "is for dedicated CPUs: a CPU policy must ask for them")
		}
		if len(realtime) > 0 {
			g.invalid(g.extraSpec("hw:cpu_realtime"), "is for dedicated CPUs: a CPU policy must ask for them")
		}
	}
	return c, len(g.paths) == before
}

// onlyMixed refuses a dedicated mask under other policies.
func (g *guest) onlyMixed(c *guestCPUs) {
	if len(c.dedicated) > 0 {
		g.invalid(g.extraSpec("hw:cpu_dedicated_mask"), "is for hw:cpu_policy=mixed")
	}
}

func (g *guest) extraSpec(key string) string { return at(g.spec.Path+".flavor.extra_specs", key) }

var (
	explicitCPU     = regexp.MustCompile(`^resources(?:[1-9][0-9]*)?:(VCPU|PCPU)`)
	explicitThreads = regexp.MustCompile(`^trait(?:[1-9][0-9]*)?:HW_CPU_HYPERTHREADING`)
)

// explicitCPUs derives the policy from extra specs that ask for CPUs by class.
func (g *guest) explicitCPUs(c *guestCPUs) {
	asked, where := map[string]int64{}, ""
	for _, key := range sortedKeys(g.spec.Flavor.ExtraSpecs) {
		m := explicitCPU.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		// A value that is not a number is refused elsewhere.
		if n, ok := python.Int(g.spec.Flavor.ExtraSpecs[key]); ok {
			asked[m[1]] += n
			where = g.extraSpec(key)
		}
	}
	shared, dedicated := asked[vcpu], asked[pcpu]
	want := g.spec.Flavor.VCPUs
	if c.emulator == "isolate" {
		want++
	}
	switch {
	case shared == 0 && dedicated == 0:
	case c.policy != "":
		g.invalid(where, "must not be there together with a CPU policy (hw:cpu_policy, hw_cpu_policy)")
	case shared != 0 && dedicated != 0:
		g.invalid(where, "must not ask for both VCPU and PCPU; hw:cpu_policy=mixed does")
	case shared != 0:
		c.policy = hardware.CPUShared
	case dedicated != want:
		g.invalid(where, "asks for %d PCPU: it must be all CPUs of the flavor, and one for emulator threads that are isolated: %d", dedicated, want)
	default:
		c.policy = hardware.CPUDedicated
	}
}

// explicitThreads derives the thread policy from the hyperthreading trait.
func (g *guest) explicitThreads(c *guestCPUs) {
	value, where := "", ""
	for _, key := range sortedKeys(g.spec.Flavor.ExtraSpecs) {
		if value == "" && explicitThreads.MatchString(key) {
			value, where = g.spec.Flavor.ExtraSpecs[key], g.extraSpec(key)
		}
	}
	const trait = "trait:HW_CPU_HYPERTHREADING"
	if where == "" && g.spec.ImageProperties[trait] == "required" {
		value, where = "required", at(g.spec.Path+".image.properties", trait)
	}
	switch {
	case value == "":
	case c.threads != "":
		g.invalid(where, "must not be there together with a thread policy (hw:cpu_thread_policy, hw_cpu_thread_policy)")
	case value == "required":
		c.threads, c.threadsAt = hardware.ThreadRequire, where
	case value == "forbidden":
		c.threads, c.threadsAt = hardware.ThreadIsolate, where
	}
}

// numaNodes is the requested number of NUMA nodes; 0 if there is none.
func (g *guest) numaNodes() int64 {
	const key = "hw:numa_nodes"
	flavor, image := g.spec.Flavor.ExtraSpecs[key], g.image[property(key)]
	if flavor != "" && image != "" && image != "0" {
		g.invalid(g.extraSpec(key), "is there, and the image has hw_numa_nodes too")
		return 0
	}
	nodes := cmp.Or(flavor, image)
	if nodes == "" {
		return 0
	}
	n, err := strconv.ParseInt(nodes, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != nodes {
		g.invalid(g.at(key, property(key)), "must be a number of at least 1, not %q", shorten(nodes))
		return 0
	}
	return n
}

// lockedMemory only affects the guest; it requires a page size.
func (g *guest) lockedMemory() {
	const key, page = "hw:locked_memory", "hw:mem_page_size"
	if g.flag(key) && g.spec.Flavor.ExtraSpecs[page] == "" && g.image[property(page)] == "" {
		g.invalid(g.at(key, property(key)), "needs hw:mem_page_size")
	}
}

func (g *guest) hasPersistentMemory() bool {
	return strings.TrimFunc(g.spec.Flavor.ExtraSpecs["hw:pmem"], func(r rune) bool { return r == ',' || python.Space(r) }) != ""
}

// pageSize is the requested size of memory pages, in KiB or as hardware.PageSmall, PageLarge or PageAny; false for
// none. The image may choose if the flavor has large or any.
func (g *guest) pageSize() (size int64, sized bool) {
	const key = "hw:mem_page_size"
	flavor, image := g.spec.Flavor.ExtraSpecs[key], g.image[property(key)]
	where, asked := g.extraSpec(key), flavor
	if image != "" {
		where = at(g.spec.Path+".image.properties", property(key))
		switch flavor {
		case "any", "large":
			asked = image
		case "":
			g.invalid(where, "is %q, but the flavor has no hw:mem_page_size", shorten(image))
			return 0, false
		default:
			if _, _, problem := readPageSize(flavor); problem != "" {
				g.invalid(g.extraSpec(key), "%s", problem)
			}
			g.invalid(where, "is %q, but the flavor has hw:mem_page_size=%s", shorten(image), shorten(flavor))
			return 0, false
		}
	}
	if asked == "" {
		return 0, false
	}
	size, sized, problem := readPageSize(asked)
	if problem != "" {
		g.invalid(where, "%s", problem)
	}
	return size, sized
}

// bytesText matches a number of bytes or bits that oslo.utils' string_to_bytes accepts.
var bytesText = regexp.MustCompile(`^([-+]?\d*\.?\d+)([KMGT]i?)?(b|bit|B)$`)

// readPageSize parses a size in KiB, or with a unit. sized: the size is above 0, even if it is less than 1 KiB.
func readPageSize(text string) (size int64, sized bool, problem string) {
	switch text {
	case "small":
		return hardware.PageSmall, true, ""
	case "large":
		return hardware.PageLarge, true, ""
	case "any":
		return hardware.PageAny, true, ""
	}
	var kib float64
	plain := strings.TrimSuffix(python.Digits(text), "\n")
	n, err := strconv.ParseUint(python.Digits(text), 10, 63)
	if m := bytesText.FindStringSubmatch(plain); m != nil {
		kib, err = strconv.ParseFloat(m[1], 64)
		if m[3] != "B" {
			kib /= 8
		}
		if m[2] != "" {
			kib = math.Ldexp(kib, 10*(strings.IndexByte("KMGT", m[2][0])+1))
		}
		kib = math.Ceil(kib) / 1024
	} else {
		kib = float64(n)
	}
	switch {
	case err != nil:
		return 0, false, fmt.Sprintf("must be small, large, any, a number of KiB or one with a unit, not %q", shorten(text))
	case kib < 0:
		return 0, false, fmt.Sprintf("must not be below 0, is %q", shorten(text))
	case kib > maxPage:
		return 0, false, fmt.Sprintf("must be at most %d KiB, is %q", maxPage, shorten(text))
	}
	return int64(kib), kib > 0, ""
}
