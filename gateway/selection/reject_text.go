package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// maxReasons bounds the reasons in a text; the typed detail has all.
const maxReasons = 10

// RejectsText says why hosts did not pass, ordered by number of hosts: "1,640 lack trait X, 148 are disabled".
func RejectsText(rejects []*cellgatev1.RejectCount) string {
	sorted := slices.Clone(rejects)
	slices.SortStableFunc(sorted, func(a, b *cellgatev1.RejectCount) int { return cmp.Compare(b.GetHosts(), a.GetHosts()) })
	var parts []string
	rest := int32(0)
	for i, r := range sorted {
		if i < maxReasons {
			parts = append(parts, thousands(r.GetHosts())+" "+rejectClause(r.GetFilter(), r.GetDetail(), r.GetHosts() == 1))
		} else {
			rest += r.GetHosts()
		}
	}
	if rest > 0 {
		parts = append(parts, thousands(rest)+" for other reasons")
	}
	return strings.Join(parts, ", ")
}

// rejectClause gives the predicate of hosts that a filter rejected: "lack trait X".
func rejectClause(filter, detail string, one bool) string {
	lack, have, are, do := "lack", "have", "are", "do"
	if one {
		lack, have, are, do = "lacks", "has", "is", "does"
	}
	in := "" // the filter's reason
	if detail != "" {
		in = " (" + detail + ")"
	}
	if detail == schedule.Unreadable {
		return have + " data that " + filter + " cannot read"
	}
	switch filter {
	case schedule.ComputeFilter:
		if detail == "" {
			return are + " down or disabled"
		}
		if detail == "down" || detail == "disabled" {
			return are + " " + detail
		}
		return are + " out of service" + in
	case schedule.ResourceFilter:
		if detail != "" {
			return have + " too little " + strings.ReplaceAll(detail, "|", " or ")
		}
		return have + " too few resources"
	case schedule.TraitFilter:
		if forbidden, is := strings.CutPrefix(detail, "!"); is {
			return have + " the forbidden trait " + forbidden
		}
		if strings.Contains(detail, "|") {
			return lack + " all of the traits " + strings.ReplaceAll(detail, "|", ", ")
		}
		return lack + " trait " + detail
	case schedule.ZoneFilter:
		return are + " in another availability zone"
	case schedule.AggregateFilter:
		return are + " outside of the aggregates that are asked for" + in
	case schedule.AffinityFilter:
		return have + " no member of the server group"
	case schedule.AntiAffinityFilter:
		return have + " as many members of the server group as its policy allows"
	case schedule.NUMAFilter:
		return lack + " free NUMA cells"
	case schedule.PCIFilter:
		return lack + " free PCI devices"
	case schedule.HostFilter:
		return are + " left out by the request" + in
	case schedule.ImageFilter:
		return lack + " support for the image"
	case schedule.CapabilitiesFilter:
		return lack + " capabilities that the flavor asks for"
	}
	if filter == verdictFilter {
		return "refused the claim" + in
	}
	return do + " not pass " + rejectText(filter, detail)
}

// thousands writes 1640 as 1,640.
func thousands(n int32) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// tenantMessage says why there is no host to readers who may know nothing of hosts: without counts, names, or actions
// of operators.
func tenantMessage(d *cellgatev1.NoValidHost) string {
	var lack []string
	add := func(what string) {
		if !slices.Contains(lack, what) {
			lack = append(lack, what)
		}
	}
	for _, r := range d.GetRejects() {
		switch r.GetFilter() {
		case schedule.ResourceFilter:
			add("room for the " + cmp.Or(strings.ReplaceAll(r.GetDetail(), "|", " or "), "resources"))
		case schedule.TraitFilter:
			if _, forbidden := strings.CutPrefix(r.GetDetail(), "!"); !forbidden {
				add("trait " + strings.ReplaceAll(r.GetDetail(), "|", " or "))
			}
		case schedule.ZoneFilter:
			add("the availability zone")
		case schedule.AffinityFilter, schedule.AntiAffinityFilter:
			add("a place by the policy of the server group")
		case schedule.NUMAFilter:
			add("room for the NUMA topology")
		case schedule.PCIFilter:
			add("free PCI devices")
		}
	}
	message := "No valid host was found."
	if len(lack) > 0 {
		message += " No available host has all that was asked for; what hosts lack: " + strings.Join(lack[:min(len(lack), maxReasons)], ", ") + "."
	}
	if change := d.GetSmallestChange(); change != "" {
		message += " It would fit if you " + change + "."
	}
	return message
}
