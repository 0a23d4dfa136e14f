package gateway

import (
	"google.golang.org/protobuf/proto"

	"cellgate/internal/expression"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// queryFrom and proposalTo are what a cell does with the wire forms; the
// gateway's own conversions are the other way round.
func queryFrom(q *cellv1.Query) *schedule.Query {
	p := &cellv1.Placement{}
	if err := proto.Unmarshal(q.GetPlacement(), p); err != nil {
		panic(err)
	}
	r := &schedule.Request{
		Required: p.GetRequiredTraits(), Forbidden: p.GetForbiddenTraits(), ForbiddenAggregates: p.GetForbiddenAggregates(),
		AvailabilityZone: p.GetAvailabilityZone(), IgnoreHosts: p.GetIgnoreHosts(), ForceHosts: p.GetForceHosts(),
		ForceNodes: p.GetForceNodes(), CheckForced: p.GetCheckForced(),
		Consume: schedule.Consumption{
			VCPUs: int64(p.GetConsume().GetVcpus()), RAMMB: int64(p.GetConsume().GetMemoryMb()), DiskMB: p.GetConsume().GetDiskMb(),
		},
	}
	for _, id := range p.GetIgnoreHostUuids() {
		parsed, err := schedule.ParseID(id)
		if err != nil {
			panic(err)
		}
		r.IgnoreUUIDs = append(r.IgnoreUUIDs, parsed)
	}
	r.Nova, r.Tenant = novaFrom(p.GetNova()), p.GetTenant()
	if p.GetIsolated() != nil {
		r.Isolated = &schedule.Isolation{Traits: p.GetIsolated().GetTraits()}
	}
	for _, a := range p.GetResources() {
		r.Resources = append(r.Resources, schedule.Amount{Class: a.GetResourceClass(), N: int64(a.GetAmount())})
	}
	if t := p.GetTree(); t != nil {
		r.Tree = &schedule.Tree{Required: t.GetRequiredTraits(), Forbidden: t.GetForbiddenTraits(), Both: t.GetBoth(), Isolate: t.GetIsolate()}
		for _, set := range t.GetSameSubtree() {
			r.Tree.SameSubtree = append(r.Tree.SameSubtree, set.GetNames())
		}
		for _, g := range t.GetGroups() {
			group := schedule.ResourceGroup{Suffix: g.GetSuffix(), Required: g.GetRequiredTraits(), Forbidden: g.GetForbiddenTraits()}
			for _, a := range g.GetResources() {
				group.Resources = append(group.Resources, schedule.Amount{Class: a.GetResourceClass(), N: int64(a.GetAmount())})
			}
			r.Tree.Groups = append(r.Tree.Groups, group)
		}
	}
	if text := p.GetFilterExpression(); text != "" {
		asked, err := expression.Compile(text)
		if err != nil {
			panic(err)
		}
		r.Expression = asked
	}
	if text := p.GetWeighExpression(); text != "" {
		asked, err := expression.CompileWeight(text)
		if err != nil {
			panic(err)
		}
		r.Weigh = asked
	}
	if f := p.GetFallback(); f != nil {
		r.Fallback = &schedule.Fallback{Required: f.GetRequiredTraits(), Forbidden: f.GetForbiddenTraits()}
		for _, a := range f.GetResources() {
			r.Fallback.Resources = append(r.Fallback.Resources, schedule.Amount{Class: a.GetResourceClass(), N: int64(a.GetAmount())})
		}
	}
	for _, s := range p.GetAnyTraits() {
		r.AnyOf = append(r.AnyOf, s.GetNames())
	}
	for _, s := range p.GetMemberOf() {
		r.MemberOf = append(r.MemberOf, s.GetNames())
	}
	if d := (schedule.Destination{
		Host: p.GetDestinationHost(), Node: p.GetDestinationNode(), Cell: p.GetDestinationCell(), AllowCrossCellMove: p.GetAllowCrossCellMove(),
	}); d != (schedule.Destination{}) {
		r.Destination = &d
	}
	if g := p.GetGroup(); g != nil {
		r.Group = &schedule.Group{
			UUID: mustID(g.GetUuid()), Policy: schedule.Policy(g.GetPolicy()), MaxPerHost: int(g.GetMaxServerPerHost()),
			Hosts: g.GetHosts(), MembersExact: g.GetMembersExact(),
		}
		for _, m := range g.GetMembers() {
			r.Group.Members = append(r.Group.Members, mustID(m))
		}
	}
	rules := &schedule.Rules{Filters: p.GetRules().GetFilters(), DefaultAvailabilityZone: p.GetRules().GetDefaultAvailabilityZone(), Options: optionsFrom(p.GetRules().GetOptions())}
	for _, w := range p.GetRules().GetWeighers() {
		rules.Weighers = append(rules.Weighers, schedule.Weigher{Name: w.GetName(), Multiplier: w.GetMultiplier()})
	}
	if text := p.GetRules().GetFilterExpression(); text != "" {
		asked, err := expression.Compile(text)
		if err != nil {
			panic(err)
		}
		rules.Expression = asked
	}
	if text := p.GetRules().GetWeighExpression(); text != "" {
		asked, err := expression.CompileWeight(text)
		if err != nil {
			panic(err)
		}
		rules.Weigh = asked
	}
	out := &schedule.Query{Request: r, Rules: rules, Seed: q.GetSeed(), Limit: int(q.GetLimit())}
	if k := q.GetKnown(); k != nil {
		out.Known = &schedule.Knowledge{Passed: k.GetPassed(), GroupHosts: k.GetGroupHosts(), GroupHostsKnown: k.GetGroupHostsKnown()}
		for i := 0; i < len(k.GetBoundsFlat()); i += 2 {
			out.Known.Bounds = append(out.Known.Bounds, schedule.Bounds{Min: k.GetBoundsFlat()[i], Max: k.GetBoundsFlat()[i+1]})
		}
	}
	for _, t := range q.GetTakes() {
		out.Takes = append(out.Takes, schedule.Take{Host: mustID(t.GetHostUuid()), Instance: mustID(t.GetInstanceUuid())})
	}
	return out
}

func mustID(s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

func proposalTo(p *schedule.Proposal) *cellv1.Proposal {
	out := &cellv1.Proposal{Hosts: int32(p.Hosts), Passed: int32(p.Passed)}
	for _, r := range p.Rejects {
		out.Rejects = append(out.Rejects, &cellv1.Reject{
			Filter: r.Filter, Detail: r.Detail, Hosts: int32(r.Hosts),
			Example: r.Example, ExceptionClass: r.Class, ExceptionMessage: r.Message,
		})
	}
	for _, b := range p.Bounds {
		out.BoundsFlat = append(out.BoundsFlat, b.Min, b.Max)
	}
	for _, g := range p.GroupHosts {
		out.GroupHosts = append(out.GroupHosts, &cellv1.GroupHost{HostUuid: g.Host.String(), ServiceHost: g.ServiceHost, Members: int32(g.Members)})
	}
	out.Columns = &cellv1.Candidates{}
	for i, c := range p.Candidates {
		to := out.Columns
		to.HostUuids = append(to.HostUuids, c.Host[:]...)
		to.ServiceHosts, to.Nodenames = append(to.ServiceHosts, c.ServiceHost), append(to.Nodenames, c.NodeName)
		to.Zones, to.Zone = append(to.Zones, c.Zone), append(to.Zone, int32(i))
		to.Raw, to.Weights, to.Ties = append(to.Raw, c.Raw...), append(to.Weights, c.Weight), append(to.Ties, c.Tie)
		if c.Multipliers != nil {
			to.Own, to.Multipliers = append(to.Own, int32(i)), append(to.Multipliers, c.Multipliers...)
		}
	}
	for i, c := range p.Candidates {
		if l := c.Limits; l != nil {
			of := &cellv1.HostLimits{Vcpus: l.VCPUs, MemoryMb: l.MemoryMB, DiskGb: l.DiskGB}
			if l.NUMA != nil {
				of.NumaCpuAllocationRatio, of.NumaRamAllocationRatio = &l.NUMA.CPURatio, &l.NUMA.RAMRatio
			}
			out.Columns.Limited, out.Columns.Limits = append(out.Columns.Limited, int32(i)), append(out.Columns.Limits, of)
		}
		if c.Allocation == nil {
			continue
		}
		of := &cellv1.HostAllocation{Allocations: allocationsOf(c.Allocation)}
		for _, m := range c.Allocation.Mappings {
			of.Mappings = append(of.Mappings, &cellv1.GroupProviders{Suffix: m.Suffix, ProviderUuids: idTexts(m.Providers)})
		}
		out.Columns.Allocated, out.Columns.Allocations = append(out.Columns.Allocated, int32(i)), append(out.Columns.Allocations, of)
	}
	for _, b := range p.Multipliers {
		out.MultipliersFlat = append(out.MultipliersFlat, b.Min, b.Max)
	}
	for _, w := range p.Warnings {
		out.Warnings = append(out.Warnings, &cellv1.Warning{
			Key: w.Key, Hosts: int32(w.Hosts), Example: w.Example, ExceptionClass: w.Class, ExceptionMessage: w.Message,
		})
	}
	if r := p.Raised; r != nil {
		out.Raised = &cellv1.Raised{Stage: r.Stage, Filter: r.Filter, Host: r.Host, Class: r.Class, Message: r.Message}
	}
	return out
}
