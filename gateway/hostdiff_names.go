package gateway

import (
	"fmt"
	"math"
	"slices"
	"strings"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// NamesDifference says how the names that an agent reports of its host differ from those of
// the row; "" for not at all. They are what Nova is answered with and what requests name, and
// compare exactly.
func NamesDifference(row *schedule.Host, serviceHost, node string) string {
	var all []string
	if row.ServiceHost != serviceHost {
		all = append(all, fmt.Sprintf("row is of service host %q, its agent reports %q", row.ServiceHost, cutText(serviceHost, 255)))
	}
	if row.NodeName != node {
		all = append(all, fmt.Sprintf("row is of node %q, its agent reports %q", row.NodeName, cutText(node, 255)))
	}
	return strings.Join(all, "; ")
}

// HypervisorRead says what of a hypervisor some filter in force reads.
type HypervisorRead struct{ kind, version, supported bool }

// ReadOfHypervisors gives what configured filters, the default ones when there are none, and
// the filter expression of every request read of hypervisors. In what order hosts are weighed
// is left to the comparison of answers.
func ReadOfHypervisors(filters []string, expression string) (read HypervisorRead) {
	if len(filters) == 0 {
		filters = DefaultFilters()
	}
	for _, f := range filters {
		switch f {
		case schedule.ImageFilter:
			read.version, read.supported = true, true
		case schedule.CapabilitiesFilter, schedule.JSONFilter:
			return HypervisorRead{true, true, true}
		}
	}
	read.kind = read.kind || strings.Contains(expression, "hypervisor_type")
	read.version = read.version || strings.Contains(expression, "hypervisor_version")
	return read
}

// Supported reads the column supported_instances, in Nova's words.
func Supported(text string) [][3]string {
	return schedule.ParseFacts(schedule.FactTexts{SupportedInstances: text}).Supported()
}

// HypervisorDifference says how the hypervisor that an agent reports differs from that of the
// row, in what filters read, and in what none does; "" for not at all. What runs is compared
// as sets: supported is what Supported reads of reported.
func HypervisorDifference(row *schedule.Host, reported *cellv1.Hypervisor, supported [][3]string, read HypervisorRead) (holds, unread string) {
	var in, out []string
	add := func(is bool, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); is {
			in = append(in, text)
		} else {
			out = append(out, text)
		}
	}
	var kind string
	var runs [][3]string
	if row.Facts != nil {
		kind, runs = row.Facts.HypervisorType, row.Facts.Supported()
	}
	if kind != reported.GetType() {
		add(read.kind, "row says hypervisor %s, its agent %s", orNone(kind), orNone(reported.GetType()))
	}
	// A cell has 31 bits for it.
	if a, b := min(max(row.View.HypervisorVersion, 0), math.MaxInt32), reported.GetVersion(); a != b {
		add(read.version, "row says hypervisor version %s, its agent %s", versionText(a), versionText(b))
	}
	if lacks := missingFrom(runs, supported); len(lacks) > 0 {
		add(read.supported, "row supports %s, its agent reports none such", triplesText(lacks))
	}
	if more := missingFrom(supported, runs); len(more) > 0 {
		add(read.supported, "its agent reports that it supports %s, row has none such", triplesText(more))
	}
	return strings.Join(in, "; "), strings.Join(out, "; ")
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return cutText(text, 100)
}

func versionText(v int64) string {
	if v == 0 {
		return "none"
	}
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}

// missingFrom gives those of all that are not in others, each once.
func missingFrom(all, others [][3]string) (out [][3]string) {
	for _, s := range all {
		if !slices.Contains(others, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func triplesText(all [][3]string) string {
	const most = 4
	texts := make([]string, 0, most+1)
	for i, s := range all {
		if i == most {
			texts = append(texts, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		texts = append(texts, strings.Join(s[:], "/"))
	}
	return strings.Join(texts, ", ")
}
