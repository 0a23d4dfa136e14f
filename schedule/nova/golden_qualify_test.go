package nova

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// goldenFilters are Nova's filters that the core has.
var goldenFilters = []string{
	schedule.ComputeFilter, schedule.ZoneFilter, schedule.AntiAffinityFilter, schedule.AffinityFilter,
}

const metricsWeigher = "MetricsWeigher"

// goldenOptions has the option, and aggregate key, of each weigher's multiplier.
var goldenOptions = map[string]string{
	schedule.RAMWeigher:              "ram_weight_multiplier",
	schedule.CPUWeigher:              "cpu_weight_multiplier",
	schedule.DiskWeigher:             "disk_weight_multiplier",
	schedule.IoOpsWeigher:            "io_ops_weight_multiplier",
	schedule.PCIWeigher:              "pci_weight_multiplier",
	schedule.BuildFailureWeigher:     "build_failure_weight_multiplier",
	schedule.CrossCellWeigher:        "cross_cell_move_weight_multiplier",
	schedule.SoftAffinityWeigher:     "soft_affinity_weight_multiplier",
	schedule.SoftAntiAffinityWeigher: "soft_anti_affinity_weight_multiplier",
	metricsWeigher:                   "metrics_weight_multiplier",
}

// translate gives the request of a case as the core takes it. What FromPrimitive
// refuses because no filter for it exists is taken out and the rest tried again:
// the caller compares only what does not depend on it. reason says why the case
// cannot be used at all.
func (c *goldenCase) translate() (r *schedule.Request, stripped bool, reason string) {
	spec := clone(c.RequestSpec)
	t, err := FromPrimitive(spec)
	if err != nil {
		e, ok := err.(*fault.Error)
		if !ok || e.Kind != fault.InvalidRequest {
			return nil, false, "translation: " + err.Error()
		}
		for _, f := range e.Fields {
			if !strings.HasPrefix(f.Problem, "not supported") {
				return nil, false, "translation: " + err.Error()
			}
		}
		strip(spec[dataKey].(map[string]any))
		stripped = true
		if t, err = FromPrimitive(spec); err != nil {
			return nil, false, "translation: " + err.Error()
		}
	}
	if t.Rebuild {
		return nil, false, "a rebuild, whose filters are chosen by the caller of the core"
	}
	r = &t.Request
	r.Consume = t.Flavor.Consumption()
	if r.Group != nil {
		r.Group.MembersExact = true
	}
	return r, stripped, ""
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

// strip takes out what only filters read that the core does not have.
func strip(data map[string]any) {
	data["numa_topology"], data["pci_requests"] = nil, nil
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

// chain is what stands for the enabled filters of a case.
type chain struct {
	// names of those the core has, in order.
	names []string
	// hosts are the case's without those that the other filters reject, by
	// Nova's own word: what is decided over the rest is the core's to match.
	hosts []goldenHost
}

// chain splits the enabled filters into those the core has and those whose answer
// is taken from the case. reason says why a filter can be neither.
func (c *goldenCase) chain(r *schedule.Request, hosts []goldenHost, sequence bool) (ch chain, reason string) {
	ch = chain{names: []string{}, hosts: hosts}
	for _, f := range c.Config.EnabledFilters {
		if slices.Contains(goldenFilters, f) {
			ch.names = append(ch.names, f)
			continue
		}
		if r.Forced() {
			continue
		}
		if c.Expected.PerFilterError[f] != nil {
			return ch, "a filter that is not there yet raises: " + f
		}
		if passes, listed := c.Expected.PerFilter[f]; listed {
			ch.hosts = slices.DeleteFunc(slices.Clone(ch.hosts), func(h goldenHost) bool {
				return !slices.Contains(passes, h.key)
			})
		}
	}
	for _, f := range c.Config.EnabledFilters {
		if sequence && c.moves(f, ch.hosts) {
			return ch, "a filter that is not there yet reads what picks change: " + f
		}
	}
	if len(ch.hosts) == 0 {
		reason = "no hosts"
	}
	return ch, reason
}

// moves reports whether the filter's answer may change as hosts are consumed from.
func (c *goldenCase) moves(filter string, hosts []goldenHost) bool {
	data := c.spec()
	pci := data["pci_requests"].(map[string]any)[dataKey].(map[string]any)["requests"].([]any)
	switch filter {
	case "IoOpsFilter", "AggregateIoOpsFilter":
		return c.reaches("max_io_ops_per_host", filter[0] == 'A', hosts,
			func(v *schedule.View) int64 { return v.NumIOOps })
	case "NumInstancesFilter", "AggregateNumInstancesFilter":
		return c.reaches("max_instances_per_host", filter[0] == 'A', hosts,
			func(v *schedule.View) int64 { return v.NumInstances })
	case "NUMATopologyFilter":
		return data["numa_topology"] != nil
	case "PciPassthroughFilter":
		return len(pci) > 0
	case "JsonFilter":
		hints, _ := data["scheduler_hints"].(map[string]any)
		return hints["query"] != nil
	}
	return false
}

// reaches reports whether Nova's own picks bring a host to its limit of a counter
// that every pick raises by one, so that a filter would come to reject it.
func (c *goldenCase) reaches(option string, aggregates bool, hosts []goldenHost, counter func(*schedule.View) int64) bool {
	picks := map[string]int64{}
	for _, p := range c.Expected.Sequence.Hosts {
		picks[p]++
	}
	for i := range hosts {
		h := &hosts[i]
		limit := int64(c.Config.numbers[option])
		if aggregates {
			limit = aggregateLimit(h.Aggregates, option, limit)
		}
		if counter(&h.View)+picks[h.key] >= limit {
			return true
		}
	}
	return false
}

// aggregateLimit is the least of the aggregates' values; the option's when there
// is none or one is no integer (nova/scheduler/filters/utils.py).
func aggregateLimit(in []schedule.Aggregate, key string, option int64) int64 {
	limit, any := int64(0), false
	for _, a := range in {
		text, ok := a.Metadata[key]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return option
		}
		if !any || n < limit {
			limit, any = n, true
		}
	}
	if !any {
		return option
	}
	return limit
}

// weighers gives the weighers in Nova's order, MetricsWeigher left out where it
// adds nothing. reason says why the case's weights cannot be compared.
func (c *goldenCase) weighers(hosts []goldenHost) (ws []schedule.Weigher, reason string) {
	ws = []schedule.Weigher{}
	for _, name := range c.Config.Weighers {
		option, ok := goldenOptions[name]
		if !ok {
			return nil, "a weigher that is not there yet: " + name
		}
		m := c.multiplier(name, option)
		settings, _ := c.Config.Metrics["weight_setting"].([]any)
		if name == metricsWeigher && len(settings) == 0 {
			continue
		}
		for _, h := range hosts {
			for _, a := range h.Aggregates {
				if _, own := a.Metadata[option]; own {
					return nil, "a multiplier of an aggregate: " + option
				}
			}
		}
		if name == metricsWeigher {
			if m != 0 {
				return nil, "a weigher that is not there yet: " + name
			}
			continue
		}
		ws = append(ws, schedule.Weigher{Name: name, Multiplier: m})
	}
	return ws, ""
}

// multiplier is the option's value or Nova's default.
func (c *goldenCase) multiplier(name, option string) float64 {
	if name == metricsWeigher {
		if m, ok := c.Config.Metrics["weight_multiplier"].(float64); ok {
			return m
		}
		return 1
	}
	if m, ok := c.Config.numbers[option]; ok {
		return m
	}
	for _, w := range schedule.DefaultWeighers() {
		if w.Name == name {
			return w.Multiplier
		}
	}
	return 1
}

// differs says why the core does not answer as the golden cases do, on purpose:
// it places builds, not moves; and forced hosts skip Nova's filters, but not what
// Placement checks, which the cases leave out.
func (c *goldenCase) differs(r *schedule.Request, hosts []goldenHost) string {
	if !r.Forced() {
		if c.stays(r, hosts) {
			return "a move: an instance may stay where it is despite anti-affinity"
		}
		return ""
	}
	if r.AvailabilityZone != "" {
		return "forced hosts: a zone counts here, through Placement"
	}
	for _, h := range hosts {
		if h.Disabled {
			return "forced hosts: disabled hosts are left out here, through Placement"
		}
	}
	return ""
}

// stays reports whether an instance that is to be placed is on one of the hosts
// already and under anti-affinity.
func (c *goldenCase) stays(r *schedule.Request, hosts []goldenHost) bool {
	if r.Group == nil || r.Group.Policy != schedule.AntiAffinity {
		return false
	}
	placed := append([]string{c.spec()["instance_uuid"].(string)}, c.InstanceUUIDs...)
	return slices.ContainsFunc(hosts, func(h goldenHost) bool {
		return slices.ContainsFunc(h.instances, func(i schedule.ID) bool {
			return slices.Contains(placed, i.String())
		})
	})
}

// shared reports whether two hosts of the case have the same instances, as
// several nodes of one service do; the core puts an instance on one host.
func shared(hosts []goldenHost) bool {
	seen := map[schedule.ID]bool{}
	for _, h := range hosts {
		for _, i := range h.instances {
			if seen[i] {
				return true
			}
			seen[i] = true
		}
	}
	return false
}

// tally counts what became of cases, by reason.
type tally map[string]int

// agree counts a case, and whether answers of missing filters were taken from it.
func (t tally) agree(ch chain, hosts []goldenHost) {
	t["AGREE"]++
	if len(ch.hosts) < len(hosts) {
		t["(of AGREE) without hosts that a missing filter rejects"]++
	}
}

func (t tally) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "\n  %4d  %s", t[k], k)
	}
	return b.String()
}
