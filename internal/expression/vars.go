package expression

import (
	"cel.dev/cel-go/cel"

	"cellgate/schedule"
)

// variable is a value that expressions can read. All numbers are double.
type variable struct {
	name string
	kind *cel.Type
	of   func(*schedule.Request, schedule.HostFacts) any
}

var (
	amounts = cel.MapType(cel.StringType, cel.DoubleType)
	names   = cel.ListType(cel.StringType)
)

const factsName = "facts"

var variables = []variable{
	{"host.uuid", cel.StringType, func(_ *schedule.Request, h schedule.HostFacts) any { return h.Host().UUID.String() }},
	{"host.service_host", cel.StringType, func(_ *schedule.Request, h schedule.HostFacts) any { return h.Host().ServiceHost }},
	{"host.nodename", cel.StringType, func(_ *schedule.Request, h schedule.HostFacts) any { return h.Host().NodeName }},
	{"host.zone", cel.StringType, func(_ *schedule.Request, h schedule.HostFacts) any { return h.Zone() }},
	{"host.traits", names, func(_ *schedule.Request, h schedule.HostFacts) any { return nonNil(h.Host().Traits) }},
	{"host.aggregates", names, func(_ *schedule.Request, h schedule.HostFacts) any {
		list := []string{}
		for i := range h.Host().Aggregates {
			list = append(list, h.Host().Aggregates[i].Name)
		}
		return list
	}},
	{"host.capacity", amounts, func(_ *schedule.Request, h schedule.HostFacts) any {
		return amountsOf(h, func(r *schedule.Resource, _ int64) int64 { return r.Capacity })
	}},
	{"host.used", amounts, func(_ *schedule.Request, h schedule.HostFacts) any {
		return amountsOf(h, func(_ *schedule.Resource, used int64) int64 { return used })
	}},
	{"host.free", amounts, func(_ *schedule.Request, h schedule.HostFacts) any {
		return amountsOf(h, func(r *schedule.Resource, used int64) int64 { return r.Capacity - used })
	}},
	{"host.instances", cel.DoubleType, func(_ *schedule.Request, h schedule.HostFacts) any { return float64(h.View().NumInstances) }},
	{"host.io_ops", cel.DoubleType, func(_ *schedule.Request, h schedule.HostFacts) any { return float64(h.View().NumIOOps) }},
	{"host.hypervisor_version", cel.DoubleType, func(_ *schedule.Request, h schedule.HostFacts) any {
		return float64(h.View().HypervisorVersion)
	}},
	{"host.hypervisor_type", cel.StringType, func(_ *schedule.Request, h schedule.HostFacts) any {
		if f := h.Host().Facts; f != nil {
			return f.HypervisorType
		}
		return ""
	}},
	{factsName, cel.MapType(cel.StringType, cel.DynType), func(_ *schedule.Request, h schedule.HostFacts) any {
		if v := h.Host().Namespaces.Values(); v != nil {
			return v
		}
		return map[string]any{}
	}},
	{"request.resources", amounts, func(r *schedule.Request, _ schedule.HostFacts) any {
		out := make(map[string]float64, len(r.Resources))
		for _, a := range r.Resources {
			out[a.Class] = float64(a.N)
		}
		return out
	}},
	{"request.project_id", cel.StringType, ofNova(func(n *schedule.NovaRequest) any { return n.ProjectID })},
	{"request.flavor.name", cel.StringType, ofNova(func(n *schedule.NovaRequest) any { return n.Flavor.Name })},
	{"request.flavor.vcpus", cel.DoubleType, ofNova(func(n *schedule.NovaRequest) any { return float64(n.Flavor.VCPUs) })},
	{"request.flavor.memory_mb", cel.DoubleType, ofNova(func(n *schedule.NovaRequest) any { return float64(n.Flavor.MemoryMB) })},
	{"request.flavor.root_gb", cel.DoubleType, ofNova(func(n *schedule.NovaRequest) any { return float64(n.Flavor.RootGB) })},
}

// byName finds a variable.
var byName = func() map[string]*variable {
	out := make(map[string]*variable, len(variables))
	for i := range variables {
		out[variables[i].name] = &variables[i]
	}
	return out
}()

func ofNova(read func(*schedule.NovaRequest) any) func(*schedule.Request, schedule.HostFacts) any {
	return func(r *schedule.Request, _ schedule.HostFacts) any {
		if r.Nova == nil {
			return read(&schedule.NovaRequest{})
		}
		return read(r.Nova)
	}
}

func amountsOf(h schedule.HostFacts, of func(r *schedule.Resource, used int64) int64) map[string]float64 {
	resources, used := h.Host().Resources, h.Used()
	out := make(map[string]float64, len(resources))
	for i := range resources {
		out[resources[i].Class] = float64(of(&resources[i], used[i]))
	}
	return out
}

func nonNil(in []string) []string {
	if in == nil {
		return []string{}
	}
	return in
}
