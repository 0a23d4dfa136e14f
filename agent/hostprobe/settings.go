package hostprobe

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/hoststate"
	"cellgate/schedule"
)

// Settings are the operator's settings of the host, and the name of its cell. The names and the address
// of the host must not be empty.
type Settings struct {
	config.Host
	Cell string
}

// settled is the parsed form of Settings.
type settled struct {
	shared, dedicated cpuSet
	specs             []spec
	// pages are the reserved pages by node and size.
	pages   map[pageKey]int64
	version int32
}

type pageKey struct {
	node   int
	sizeKB int64
}

// Problems returns what is wrong with the settings on their own, by the names in the file's section
// agent.host.
func (s *Settings) Problems() []fault.Field {
	_, problems := s.settle()
	return problems
}

var traitName = regexp.MustCompile(`^[A-Z0-9_]{1,255}$`)

func (s *Settings) settle() (out settled, problems []fault.Field) {
	bad := func(field, format string, args ...any) {
		problems = append(problems, fault.Field{Path: field, Problem: fmt.Sprintf(format, args...)})
	}
	for _, n := range [...]struct{ field, name string }{{"service_host", s.ServiceHost}, {"nodename", s.NodeName}} {
		if why := hoststate.NameProblem(n.name); n.name != "" && why != "" {
			bad(n.field, "%q: %s", n.name, why)
		}
	}
	aggregates := map[string]int{}
	for i, a := range s.Aggregates {
		id := strings.ToLower(a.UUID)
		if first, is := aggregates[id]; is && id != "" {
			bad(fmt.Sprintf("aggregates[%d].uuid", i), "aggregates[%d] has %s already", first, a.UUID)
			continue
		}
		aggregates[id] = i
	}
	var err error
	cpus := func(field, text string) (set cpuSet) {
		if set, err = parseCPUSpec(text); err != nil {
			bad(field, "%v", err)
		} else if text != "" && set == nil {
			bad(field, "%q names no CPU; leave it empty", text)
		}
		return set
	}
	out.shared, out.dedicated = cpus("cpu_shared_set", s.SharedCPUs), cpus("cpu_dedicated_set", s.DedicatedCPUs)
	if twice := out.shared.and(out.dedicated); len(twice) > 0 {
		bad("cpu_dedicated_set", "has CPUs of cpu_shared_set too: %v", twice)
	}
	out.pages = map[pageKey]int64{}
	for i, p := range s.ReservedHugePages {
		path := fmt.Sprintf("reserved_huge_pages[%d]", i)
		size, ok := parseSize(p.Size)
		key := pageKey{p.Node, size}
		_, twice := out.pages[key]
		switch {
		case !ok:
			bad(path+".size", "%q is no size; write KiB, or a number with KB, MB or GB", p.Size)
		case p.Count < 0 || p.Node < 0:
			bad(path, "node and count must not be below 0")
		case twice:
			bad(path, "node %d has pages of that size already", p.Node)
		default:
			out.pages[key] = int64(p.Count)
		}
	}
	for i := range s.PCIDevices {
		spec, wrong := parseSpec(&s.PCIDevices[i], fmt.Sprintf("pci_devices[%d]", i))
		out.specs = append(out.specs, spec)
		problems = append(problems, wrong...)
	}
	for i, t := range s.Traits {
		if !traitName.MatchString(t) {
			bad(fmt.Sprintf("traits[%d]", i), "%q is no trait: capital letters, digits and _", t)
		}
	}
	if out.version, err = parseVersion(s.HypervisorVersion); err != nil {
		bad("hypervisor_version", "%v", err)
	}
	if s.SupportedInstances != "" {
		f := schedule.ParseFacts(schedule.FactTexts{SupportedInstances: s.SupportedInstances})
		if why := f.Failed["supported_instances"]; why != "" || len(f.Supported()) == 0 {
			bad("supported_instances", "%q is no list as [[\"x86_64\", \"kvm\", \"hvm\"], …]: architecture, hypervisor, mode: %s", s.SupportedInstances, cmp.Or(why, "it is empty"))
		}
	}
	return out, problems
}

// parseSize parses a page size into KiB.
func parseSize(text string) (kb int64, ok bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	unit := int64(1)
	for suffix, kib := range map[string]int64{"KB": 1, "MB": 1 << 10, "GB": 1 << 20} {
		if number, cut := strings.CutSuffix(text, suffix); cut {
			text, unit = number, kib
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n * unit, err == nil && n > 0 && n <= 1<<30/unit
}

// parseVersion converts a version to Nova's number: 8.2.2 is 8002002, "" is 0.
func parseVersion(text string) (int32, error) {
	if text == "" {
		return 0, nil
	}
	parts := strings.Split(text, ".")
	var n int64
	for i := range 3 {
		part := int64(0)
		if i < len(parts) {
			var err error
			if part, err = strconv.ParseInt(parts[i], 10, 32); err != nil || part < 0 || part > 999 {
				return 0, fmt.Errorf("%q is no version such as 8.2.2", text)
			}
		}
		n = n*1000 + part
	}
	if len(parts) > 3 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%q is no version such as 8.2.2", text)
	}
	return int32(n), nil
}
