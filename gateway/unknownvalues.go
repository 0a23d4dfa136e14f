package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/suggest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// unknownIn gives a text for each of names that is not in known, with a similar known name. It gives shownCandidates
// at most: a suggestion compares a name with all known ones, and a request may have thousands of names.
func unknownIn(what string, known []string, names ...string) (out []string) {
	slices.Sort(known) // of equally similar names the suggestion is always the same
	for _, name := range names {
		if len(out) == shownCandidates {
			break
		}
		if name != "" && !slices.Contains(known, name) {
			out = append(out, fmt.Sprintf("no cell has %s %q%s", what, name, suggest.MeantOf(name, known, 3)))
		}
	}
	return out
}

// zonesAndTraits gives the zones and traits of all cells; ok is false while some cell's summary is not known.
func (g *Gateway) zonesAndTraits() (zones, traits []string, ok bool) {
	for _, c := range g.cells.All {
		s := c.LastSummary()
		if s == nil {
			return nil, nil, false
		}
		zones = append(zones, g.zonesOf(s)...)
		traits = append(append(traits, s.GetTraits()...), s.GetChildTraits()...)
	}
	return zones, traits, true
}

// unknownFilters gives a text for each filter of a list of hosts whose value no cell has.
func (g *Gateway) unknownFilters(ctx context.Context, req *cellgatev1.ListHostsRequest) []string {
	zones, traits, ok := g.zonesAndTraits()
	if !ok {
		return nil
	}
	out := append(unknownIn("zone", zones, req.GetAvailabilityZone()), unknownIn("trait", traits, req.GetTrait())...)
	name := req.GetNameContains()
	if name == "" || len(out) > 0 {
		return out
	}
	if req.GetCell()+req.GetAvailabilityZone()+req.GetTrait() != "" {
		named, err := g.listHosts(ctx, &cellgatev1.ListHostsRequest{NameContains: name, PageSize: 1})
		if err != nil {
			return nil // not known
		}
		return named.GetUnknownValues()
	}
	return []string{fmt.Sprintf("no host has %q in its name%s", name, suggest.Meant(g.cells.SimilarHost(ctx, name)))}
}

// unknownValues gives a text, with a suggestion, for each zone, trait, resource class and host that a request names
// and no cell has: for the first shownCandidates of each kind. It is nil while some cell's summary is not known.
func (g *Gateway) unknownValues(ctx context.Context, spec *cellgatev1.RequestSpec) []string {
	zones, traits, ok := g.zonesAndTraits()
	if !ok {
		return nil
	}
	out := unknownIn("zone", zones, spec.GetAvailabilityZone())
	required := slices.Clone(spec.GetRequiredTraits())
	for _, set := range spec.GetAnyTraits() {
		required = append(required, set.GetTraits()...)
	}
	asked := maps.Clone(spec.GetResources())
	maps.DeleteFunc(asked, func(_ string, n int32) bool { return n == 0 })
	wanted := slices.Collect(maps.Keys(asked))
	specs := spec.GetFlavor().GetExtraSpecs()
	for _, key := range slices.Sorted(maps.Keys(specs)) { // the others stay in the order of the request
		value := specs[key]
		if trait, ok := strings.CutPrefix(key, "trait:"); ok && value == "required" {
			required = append(required, trait)
		}
		if class, ok := strings.CutPrefix(key, "resources:"); ok && value != "0" {
			wanted = append(wanted, class)
		}
	}
	slices.Sort(wanted)
	out = append(out, unknownIn("trait", traits, required...)...)
	out = append(out, unknownIn("resource class", g.classes(), wanted...)...)
	destination := spec.GetRequestedDestination().GetHost()
	hosts := slices.DeleteFunc(append([]string{destination}, spec.GetForceHosts()...), func(name string) bool { return name == "" })
	hosts = hosts[:min(len(hosts), shownCandidates)]
	similar := make([]string, len(hosts))
	var all sync.WaitGroup
	for i, name := range hosts {
		all.Go(func() { similar[i] = g.cells.SimilarHost(ctx, name) })
	}
	all.Wait()
	for i, name := range hosts {
		// force_hosts are compared without case.
		if like := similar[i]; like != name && (!strings.EqualFold(like, name) || name == destination) {
			out = append(out, fmt.Sprintf("no cell has host %q%s", name, suggest.Meant(like)))
		}
	}
	return out
}

// unknownHost gives a text, with a suggestion, if no cell has a host of that uuid or service host; nil if one has it.
func (g *Gateway) unknownHost(ctx context.Context, name string) []string {
	if rpc.IsUUID(name) {
		if _, err := g.getHost(ctx, name); fault.KindOf(err) == fault.NotFound {
			return []string{"no cell has host " + name}
		}
		return nil
	}
	like := g.cells.SimilarHost(ctx, name)
	if like == name {
		return nil
	}
	return []string{fmt.Sprintf("no cell has host %q%s", name, suggest.Meant(like))}
}

// classes are the resource classes that some cell has.
func (g *Gateway) classes() (all []string) {
	for _, c := range g.cells.All {
		s := c.LastSummary()
		all = append(all, s.GetChildClasses()...)
		for _, m := range s.GetLargest() {
			all = append(all, m.GetResourceClass())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// suggestClasses adds suggestions to an error that names unknown resource classes.
func (g *Gateway) suggestClasses(spec *cellgatev1.RequestSpec, err error) error {
	var refused *fault.Error
	if spec == nil || !errors.As(err, &refused) || refused.Kind != fault.InvalidRequest {
		return err
	}
	fields := slices.Clone(refused.Fields)
	for i, f := range fields {
		for class := range spec.GetResources() {
			if strings.Contains(f.Problem, fmt.Sprintf("unknown resource class %q", class)) {
				fields[i].Problem += suggest.MeantOf(class, g.classes(), 3)
			}
		}
	}
	if slices.Equal(fields, refused.Fields) {
		return err
	}
	return fault.InvalidFields(fields)
}
