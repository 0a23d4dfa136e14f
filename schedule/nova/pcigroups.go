package nova

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/internal/osnames"
	"cellgate/schedule/hardware"
)

// aliasRequest is a request for PCI devices by alias.
type aliasRequest struct {
	path string
	// name is the alias's.
	name string
	// index is the index of its request in Spec.PCI.
	index int
	// id is the prefix of its groups' suffixes; empty if the form has none.
	id    string
	specs []placementSpec
}

// placementSpec are a device spec's fields for Placement.
type placementSpec struct{ vendor, product, class, traits string }

// releasePCIGroups is the first release whose computes use the devices that Placement chose.
const releasePCIGroups = 27

// pciGroups makes one request group for each device of an alias (nova/objects/request_spec.py,
// generate_request_groups_from_pci_requests, since 2023.1). Nova's API and conductors may already have added the
// groups to requested_resources, by their own option pci_in_placement. Then those groups are used. Else
// Options.PCIInPlacement says whether to make any. Devices of ports are not asked of Placement.
func (f *findings) pciGroups(s *Spec) {
	if s.Rebuild() {
		return
	}
	for i := range s.aliased {
		a := &s.aliased[i]
		r := &s.PCI[a.index]
		for k := range s.Groups {
			if a.id != "" && strings.HasPrefix(s.Groups[k].Requester, a.id) {
				r.Groups = append(r.Groups, s.Groups[k].Requester)
			}
		}
		switch n := len(r.Groups); {
		case n > 0 && int64(n) != r.Count:
			f.invalid(a.path, "asks for %d devices, but %d groups of requested_resources are for them: there must be one for each", r.Count, n)
		case n == 0 && f.options.PCIInPlacement && f.options.has(releasePCIGroups):
			f.addPCIGroups(s, a, r)
		}
	}
}

// addPCIGroups makes the groups for an alias's devices.
func (f *findings) addPCIGroups(s *Spec, a *aliasRequest, r *hardware.PCIRequest) {
	switch {
	case a.id == "":
		f.invalid(a.path+".request_id", "must be there while pci_in_placement is on: it names the groups that ask Placement for the devices")
		return
	case r.Count > maxGroups:
		f.invalid(a.path, "asks for %d devices, the most is %d while pci_in_placement is on: each is a group", r.Count, maxGroups)
		return
	}
	if problem := placementProblem(a.name, a.specs); problem != "" {
		f.invalid(a.path, "%s", problem)
		return
	}
	spec := &a.specs[0]
	class := spec.resourceClass()
	for i := range r.Count {
		g := SpecGroup{Path: a.path, Requester: fmt.Sprintf("%s-%d", a.id, i), Resources: map[string]int64{class: 1}, Required: spec.requiredTraits()}
		s.Groups, r.Groups = append(s.Groups, g), append(r.Groups, g.Requester)
	}
}

// placementProblem says why Placement cannot be asked for an alias's devices; "" if it can.
func placementProblem(name string, specs []placementSpec) string {
	if len(specs) != 1 {
		return fmt.Sprintf("PCI alias %q has %d specs, not supported while pci_in_placement is on: Placement is asked for one resource class", shorten(name), len(specs))
	}
	if class := specs[0].resourceClass(); !KnownResourceClass(class) {
		return fmt.Sprintf("PCI alias %q must have a resource_class, or a vendor_id and a product_id, while pci_in_placement is on: %q is no resource class", shorten(name), shorten(class))
	}
	return ""
}

// PlacementProblems says which aliases are refused with pci_in_placement, each once, and why.
func PlacementProblems(entries []Alias) (problems []string) {
	all, _, err := NewAliases(entries)
	if err != nil {
		return nil // NewAliases itself reports it
	}
	for _, name := range slices.Sorted(maps.Keys(all.named)) {
		if problem := placementProblem(name, all.named[name].ofPlacement); problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

// resourceClass is the class of the devices' providers (nova/compute/pci_placement_translator.py,
// get_resource_class); empty if the spec does not determine it.
func (p *placementSpec) resourceClass() string {
	class := strings.ToUpper(p.class)
	switch {
	case class == "" && (p.vendor == "" || p.product == ""):
		return ""
	case class == "":
		return strings.ToUpper("CUSTOM_PCI_" + p.vendor + "_" + p.product)
	case osnames.IsClass(class) || strings.HasPrefix(class, osnames.CustomPrefix):
		return class
	}
	return osnames.Custom(class)
}

// requiredTraits are the traits of the devices' providers (pci_placement_translator.py, get_traits).
func (p *placementSpec) requiredTraits() (out []string) {
	if p.traits == "" {
		return nil
	}
	for name := range strings.SplitSeq(p.traits, ",") {
		if upper := strings.ToUpper(name); strings.HasPrefix(upper, osnames.CustomPrefix) {
			name = upper
		} else if !osnames.IsTrait(name) {
			name = osnames.Custom(upper)
		}
		out = append(out, name)
	}
	return out
}
