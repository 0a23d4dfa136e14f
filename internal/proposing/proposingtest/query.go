package proposingtest

import (
	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Query is what a gateway sends; flat: bounds as one that asks for columns does.
func Query(q *schedule.Query, version string, consumers []string, flat bool) *cellv1.Query {
	req := q.Request
	p := &cellv1.Placement{
		RequiredTraits: req.Required, ForbiddenTraits: req.Forbidden,
		AnyTraits: wireSets(req.AnyOf), MemberOf: wireSets(req.MemberOf),
		ForbiddenAggregates: req.ForbiddenAggregates, AvailabilityZone: req.AvailabilityZone,
		IgnoreHosts: req.IgnoreHosts, ForceHosts: req.ForceHosts, ForceNodes: req.ForceNodes,
		CheckForced: req.CheckForced,
		Consume: &cellv1.Consumption{
			Vcpus: int32(req.Consume.VCPUs), MemoryMb: int32(req.Consume.RAMMB), DiskMb: req.Consume.DiskMB,
		},
		Rules: &cellv1.Rules{Filters: q.Rules.Filters, DefaultAvailabilityZone: q.Rules.DefaultAvailabilityZone},
	}
	p.Tenant, p.Nova, p.Rules.Options = req.Tenant, Nova(req.Nova), Options(q.Rules.Options)
	if req.Moving != (schedule.ID{}) {
		p.MovingInstance = req.Moving.String()
	}
	for _, id := range req.IgnoreUUIDs {
		p.IgnoreHostUuids = append(p.IgnoreHostUuids, id.String())
	}
	if req.Isolated != nil {
		p.Isolated = &cellv1.Isolation{Traits: req.Isolated.Traits}
	}
	for _, a := range req.Resources {
		p.Resources = append(p.Resources, &cellv1.Amount{ResourceClass: a.Class, Amount: int32(a.N)})
	}
	if t := req.Tree; t != nil {
		p.Tree = &cellv1.Tree{RequiredTraits: t.Required, ForbiddenTraits: t.Forbidden, Both: t.Both, Isolate: t.Isolate, SameSubtree: wireSets(t.SameSubtree)}
		for _, g := range t.Groups {
			group := &cellv1.ResourceGroup{Suffix: g.Suffix, RequiredTraits: g.Required, ForbiddenTraits: g.Forbidden}
			for _, a := range g.Resources {
				group.Resources = append(group.Resources, &cellv1.Amount{ResourceClass: a.Class, Amount: int32(a.N)})
			}
			p.Tree.Groups = append(p.Tree.Groups, group)
		}
	}
	if req.Expression != nil {
		p.FilterExpression = req.Expression.Text()
	}
	if req.Weigh != nil {
		p.WeighExpression = req.Weigh.Text()
	}
	if f := req.Fallback; f != nil {
		p.Fallback = &cellv1.Fallback{RequiredTraits: f.Required, ForbiddenTraits: f.Forbidden}
		for _, a := range f.Resources {
			p.Fallback.Resources = append(p.Fallback.Resources, &cellv1.Amount{ResourceClass: a.Class, Amount: int32(a.N)})
		}
	}
	if q.Rules.Expression != nil {
		p.Rules.FilterExpression = q.Rules.Expression.Text()
	}
	if q.Rules.Weigh != nil {
		p.Rules.WeighExpression = q.Rules.Weigh.Text()
	}
	for _, w := range q.Rules.Weighers {
		p.Rules.Weighers = append(p.Rules.Weighers, &cellv1.Weigher{Name: w.Name, Multiplier: w.Multiplier})
	}
	if d := req.Destination; d != nil {
		p.DestinationHost, p.DestinationNode = d.Host, d.Node
		p.DestinationCell, p.AllowCrossCellMove = d.Cell, d.AllowCrossCellMove
	}
	if g := req.Group; g != nil {
		p.Group = &cellv1.Group{
			Uuid: g.UUID.String(), Policy: string(g.Policy), MaxServerPerHost: int32(g.MaxPerHost),
			Hosts: g.Hosts, MembersExact: g.MembersExact,
		}
		for _, m := range g.Members {
			p.Group.Members = append(p.Group.Members, m.String())
		}
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		panic(err)
	}
	out := &cellv1.Query{Placement: text, Seed: q.Seed, Limit: int32(q.Limit), TableVersion: version, ConsumerUuids: consumers}
	if k := q.Known; k != nil {
		out.Known = &cellv1.Knowledge{Passed: k.Passed, GroupHosts: k.GroupHosts, GroupHostsKnown: k.GroupHostsKnown}
		for _, b := range k.Bounds {
			if flat {
				out.Known.BoundsFlat = append(out.Known.BoundsFlat, b.Min, b.Max)
				continue
			}
			out.Known.Bounds = append(out.Known.Bounds, &cellv1.Bounds{Min: b.Min, Max: b.Max})
		}
	}
	for _, t := range q.Takes {
		out.Takes = append(out.Takes, &cellv1.Take{HostUuid: t.Host.String(), InstanceUuid: t.Instance.String()})
	}
	return out
}

func wireSets(in [][]string) []*cellv1.NameSet {
	var out []*cellv1.NameSet
	for _, s := range in {
		out = append(out, &cellv1.NameSet{Names: s})
	}
	return out
}
