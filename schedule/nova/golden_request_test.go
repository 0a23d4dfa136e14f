package nova

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// filtersAlone are the filters of the cases' release.
var filtersAlone = []string{
	"AggregateImagePropertiesIsolation", "AggregateInstanceExtraSpecsFilter", "AggregateIoOpsFilter",
	"AggregateMultiTenancyIsolation", "AggregateNumInstancesFilter", "AggregateTypeAffinityFilter",
	"AllHostsFilter", "AvailabilityZoneFilter", "ComputeCapabilitiesFilter", "ComputeFilter",
	"DifferentHostFilter", "ImagePropertiesFilter", "IoOpsFilter", "IsolatedHostsFilter", "JsonFilter",
	"MetricsFilter", "NUMATopologyFilter", "NumInstancesFilter", "PciPassthroughFilter", "SameHostFilter",
	"ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter", "SimpleCIDRAffinityFilter",
}

// tried are the filters that the case has an answer of alone.
func (c *goldenCase) tried() []string {
	switch {
	case c.Alone != nil:
		return c.Alone
	case c.Nova != "":
		return slices.DeleteFunc(slices.Clone(filtersAlone), func(f string) bool { return f == schedule.ZoneFilter })
	}
	return filtersAlone
}

// there reports whether the core has the filter.
func there(filter string) bool { return slices.Contains(schedule.Filters(), filter) }

// translate gives the request of a case as the core reads it. It removes and names what
// FromPrimitive refuses as not supported, so that the harness can compare the rest.
func (c *goldenCase) translate() (r *schedule.Request, refused []string, err error) {
	spec := clone(c.RequestSpec)
	strict := &Options{Strict: true, Release: 26}
	if c.Nova != "" {
		strict.Release = 33
	}
	t, err := strict.FromPrimitive(spec)
	if err != nil {
		e, ok := err.(*fault.Error)
		if !ok || e.Kind != fault.InvalidRequest {
			return nil, nil, err
		}
		for _, f := range e.Fields {
			if !strings.HasPrefix(f.Problem, "not supported") {
				return nil, nil, err
			}
			refused = append(refused, f.Path)
		}
		strip(spec[dataKey].(map[string]any))
		if t, err = strict.FromPrimitive(spec); err != nil {
			return nil, refused, err
		}
	}
	r = &t.Request
	r.Consume = t.Flavor.Consumption()
	if r.Group != nil {
		r.Group.MembersExact = true
	}
	// If the request is a move, its instance may be on a host already.
	if t.InstanceUUID != "" {
		r.Moving = mustID(t.InstanceUUID)
	}
	r.Nova.Rebuild = t.Rebuild
	// Decoding into a map lost the order of the extra specs.
	slices.SortStableFunc(r.Nova.Flavor.ExtraSpecs, func(a, b schedule.Pair) int {
		return slices.Index(c.extraSpecs, a.Key) - slices.Index(c.extraSpecs, b.Key)
	})
	return r, refused, nil
}

func clone(m map[string]any) map[string]any {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

// strip deletes what FromPrimitive refuses.
func strip(data map[string]any) {
	refusedIn := func(rules []rule, m map[string]any) {
		for k := range m {
			if look(rules, k).care == refused {
				delete(m, k)
			}
		}
	}
	if m, ok := data["scheduler_hints"].(map[string]any); ok {
		refusedIn(schedulerHints, m)
	}
	flavor := data["flavor"].(map[string]any)[dataKey].(map[string]any)
	refusedIn(extraSpecs, flavor["extra_specs"].(map[string]any))
	if image, ok := data["image"].(map[string]any); ok {
		props := image[dataKey].(map[string]any)["properties"].(map[string]any)
		refusedIn(imageProperties, props[dataKey].(map[string]any))
	}
}

// unknown names a filter, weigher or option of the case that does not exist.
func (c *goldenCase) unknown() error {
	for _, f := range slices.Concat(c.Config.EnabledFilters, slices.Sorted(maps.Keys(c.Expected.PerFilter)), slices.Sorted(maps.Keys(c.Expected.PerFilterError))) {
		if !there(f) && !slices.Contains(filtersAlone, f) {
			return fmt.Errorf("there is no filter %s", f)
		}
	}
	if _, missing := c.weighers(); missing != "" {
		return fmt.Errorf("there is no weigher %s", missing)
	}
	if len(c.Config.unread) > 0 {
		return fmt.Errorf("there is no option %s", slices.Min(c.Config.unread))
	}
	for i := range c.Expected.Weighed {
		for _, w := range slices.Sorted(maps.Keys(c.Expected.Weighed[i].Raw)) {
			if schedule.MultiplierOption(w) == "" {
				return fmt.Errorf("there is no weigher %s", w)
			}
		}
	}
	return nil
}

// chain replaces the enabled filters of a case.
type chain struct {
	// names are the filters that the core has, in order.
	names []string
	// hosts are the case's hosts, without those that the missing filters reject by Nova's answer.
	// The core must match Nova's decision over these hosts.
	hosts []goldenHost
	// missing are the filters whose answers are Nova's.
	missing []string
}

// chain splits the enabled filters into those that the core has, and those whose answer is taken
// from the case. In Nova, forced hosts skip all filters; here only HostFilter runs for them.
func (c *goldenCase) chain(r *schedule.Request, hosts []goldenHost) (chain, error) {
	ch := chain{names: []string{schedule.HostFilter}, hosts: hosts}
	if r.Forced() {
		return ch, nil
	}
	for _, f := range c.Config.EnabledFilters {
		if there(f) {
			ch.names = append(ch.names, f)
			continue
		}
		if _, raised := c.Expected.PerFilterError[f]; raised {
			return ch, fmt.Errorf("%s raises", f)
		}
		if passes, listed := c.Expected.PerFilter[f]; listed {
			kept := slices.DeleteFunc(slices.Clone(ch.hosts), func(h goldenHost) bool {
				return !slices.Contains(passes, h.key)
			})
			if len(kept) < len(ch.hosts) {
				ch.missing = append(ch.missing, f)
			}
			ch.hosts = kept
		}
	}
	return ch, nil
}
