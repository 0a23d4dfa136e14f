package selection

import (
	"fmt"
	"strings"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// requestChange says how to change a request. zone is the zone of the host that then passes; empty if there are
// several.
func requestChange(misses []*cellgatev1.Miss, zone string) string {
	parts := make([]string, len(misses))
	for i, x := range misses {
		parts[i] = missChange(x, zone)
	}
	return strings.Join(parts, ", and ")
}

func missChange(x *cellgatev1.Miss, zone string) string {
	detail := x.GetDetail()
	switch x.GetFilter() {
	case schedule.ResourceFilter:
		asked := fmt.Sprintf("asked %d", x.GetAsked())
		if detail == "PCPU" {
			asked, detail = asked+" PCPU", "dedicated CPUs"
		}
		if bound := x.GetBound(); bound != "" && bound != string(schedule.BoundFree) {
			asked += fmt.Sprintf(", %s is %d", bound, x.GetBoundAt())
		}
		if x.GetMost() == 0 {
			return fmt.Sprintf("ask for no %s (%s)", detail, asked)
		}
		return fmt.Sprintf("ask for at most %d %s (%s)", x.GetMost(), detail, asked)
	case schedule.TraitFilter:
		if forbidden, is := strings.CutPrefix(detail, "!"); is {
			return "do not forbid trait " + forbidden
		}
		return "do not require trait " + strings.ReplaceAll(detail, "|", " or ")
	case schedule.ZoneFilter:
		if zone == "" {
			return "ask for no availability zone"
		}
		return fmt.Sprintf("ask for another availability zone (%s) or none", zone)
	case schedule.AggregateFilter:
		return "do not restrict the aggregates"
	case schedule.AffinityFilter:
		return "use policy soft-affinity in the server group"
	case schedule.AntiAffinityFilter:
		return "use policy soft-anti-affinity in the server group"
	case schedule.HostFilter:
		return "name no host, node or cell"
	case schedule.NUMAFilter:
		return "ask for no NUMA topology, dedicated CPUs or huge pages"
	case schedule.PCIFilter:
		return "ask for no PCI devices"
	case schedule.CapabilitiesFilter:
		return "leave out the extra specs on host capabilities"
	case schedule.ImageFilter:
		return "use an image without requirements on architecture and hypervisor"
	case schedule.ExpressionFilter:
		return "leave out the filter expression"
	}
	return "leave out the scheduler hint that " + x.GetFilter() + " reads"
}

// asksTooMuch reports whether only a change of the request removes a condition: no operator can help.
func asksTooMuch(x *cellgatev1.Miss) bool {
	if x.GetAsked() > 0 {
		return x.GetMostWhenEmpty() < x.GetAsked()
	}
	return x.GetChangeable()
}

// operatorChange says how operators could make the host of a near miss pass.
func operatorChange(m *cellgatev1.NearMiss) string {
	var does, lacks []string
	for _, x := range m.GetMisses() {
		switch {
		case x.GetFilter() == schedule.ComputeFilter && x.GetDetail() == "down":
			does = append(does, "bring it up")
		case x.GetFilter() == schedule.ComputeFilter && x.GetDetail() == "disabled":
			does = append(does, "enable it")
		case x.GetFilter() == schedule.ComputeFilter:
			does = append(does, fmt.Sprintf("enable it (%s)", x.GetDetail()))
		case x.GetFilter() == schedule.ResourceFilter && x.GetAsked() > 0:
			does = append(does, fmt.Sprintf("free %d %s", x.GetAsked()-x.GetMost(), strings.ReplaceAll(x.GetDetail(), "|", " or ")))
		default:
			lacks = append(lacks, rejectText(x.GetFilter(), x.GetDetail()))
		}
	}
	if len(lacks) > 0 {
		does = append(does, "make it pass "+strings.Join(lacks, ", "))
	}
	return fmt.Sprintf("host %s of %s: %s", m.GetServiceHost(), m.GetCell(), strings.Join(does, ", "))
}

// rejectText is a filter with the detail of its rejection.
func rejectText(filter, detail string) string {
	if detail == "" {
		return filter
	}
	return filter + "(" + detail + ")"
}
