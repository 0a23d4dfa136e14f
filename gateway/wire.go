package gateway

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// placementBytes gives the serialized placement of a request and its rules, as
// queries carry it. moving is the instance that is being moved; "" for none.
func placementBytes(r *schedule.Request, rules *schedule.Rules, moving string) []byte {
	p := placementOf(r, rules)
	p.MovingInstance = moving
	// Marshalling fails only on invalid UTF-8, which has come in through
	// proto or JSON and so is valid.
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return text
}

// placementOf gives the wire form of a request and its rules.
func placementOf(r *schedule.Request, rules *schedule.Rules) *cellv1.Placement {
	p := &cellv1.Placement{
		RequiredTraits:      r.Required,
		ForbiddenTraits:     r.Forbidden,
		AnyTraits:           nameSets(r.AnyOf),
		MemberOf:            nameSets(r.MemberOf),
		ForbiddenAggregates: r.ForbiddenAggregates,
		AvailabilityZone:    r.AvailabilityZone,
		IgnoreHosts:         r.IgnoreHosts,
		ForceHosts:          r.ForceHosts,
		ForceNodes:          r.ForceNodes,
		IgnoreHostUuids:     idTexts(r.IgnoreUUIDs),
		CheckForced:         r.CheckForced,
		Consume: &cellv1.Consumption{
			Vcpus: int32(r.Consume.VCPUs), MemoryMb: int32(r.Consume.RAMMB), DiskMb: r.Consume.DiskMB,
		},
		Rules: &cellv1.Rules{
			Filters: rules.Filters, DefaultAvailabilityZone: rules.DefaultAvailabilityZone,
			Options: optionsOf(rules.Options),
		},
		Nova:   novaOf(r.Nova),
		Tenant: r.Tenant,
	}
	if r.Isolated != nil {
		p.Isolated = &cellv1.Isolation{Traits: r.Isolated.Traits}
	}
	p.Resources = amountsOf(r.Resources)
	if t := r.Tree; t != nil {
		p.Tree = treeOf(t)
		if len(t.Groups) > 0 {
			p.Rules.Filters = append(slices.Clone(rules.Filters), schedule.TreeFilter)
		}
		if t.Places() {
			p.Rules.Filters = append(p.Rules.Filters, schedule.PlacesFilter)
		}
	}
	ask := func(filter string, x schedule.Expression) string {
		if x == nil {
			return ""
		}
		if !slices.Contains(p.Rules.Filters, filter) {
			p.Rules.Filters = append(slices.Clone(p.Rules.Filters), filter)
		}
		return x.Text()
	}
	p.Rules.FilterExpression = ask(schedule.ConfiguredExpressionFilter, rules.Expression)
	p.FilterExpression = ask(schedule.ExpressionFilter, r.Expression)
	if rules.Weigh != nil {
		p.Rules.WeighExpression = rules.Weigh.Text()
	}
	if r.Weigh != nil {
		p.WeighExpression = r.Weigh.Text()
	}
	if f := r.Fallback; f != nil {
		p.Fallback = &cellv1.Fallback{Resources: amountsOf(f.Resources), RequiredTraits: f.Required, ForbiddenTraits: f.Forbidden}
	}
	if d := r.Destination; d != nil {
		p.DestinationHost, p.DestinationNode, p.DestinationCell = d.Host, d.Node, d.Cell
		p.AllowCrossCellMove = d.AllowCrossCellMove
	}
	if g := r.Group; g != nil {
		p.Group = &cellv1.Group{
			Uuid: g.UUID.String(), Policy: string(g.Policy), MaxServerPerHost: int32(g.MaxPerHost),
			Members: idTexts(g.Members), Hosts: g.Hosts, MembersExact: g.MembersExact,
		}
	}
	for _, w := range rules.Weighers {
		p.Rules.Weighers = append(p.Rules.Weighers, &cellv1.Weigher{Name: w.Name, Multiplier: w.Multiplier})
	}
	return p
}

func treeOf(t *schedule.Tree) *cellv1.Tree {
	out := &cellv1.Tree{RequiredTraits: t.Required, ForbiddenTraits: t.Forbidden, Both: t.Both, Isolate: t.Isolate, SameSubtree: nameSets(t.SameSubtree)}
	for _, g := range t.Groups {
		group := &cellv1.ResourceGroup{
			Suffix: g.Suffix, Resources: amountsOf(g.Resources), RequiredTraits: g.Required, ForbiddenTraits: g.Forbidden,
			MemberOf: nameSets(g.MemberOf), ForbiddenAggregates: g.ForbiddenAggregates,
		}
		if g.InTree != (schedule.ID{}) {
			group.InTree = g.InTree.String()
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

func amountsOf(in []schedule.Amount) []*cellv1.Amount {
	var out []*cellv1.Amount
	for _, a := range in {
		out = append(out, &cellv1.Amount{ResourceClass: a.Class, Amount: int32(a.N)})
	}
	return out
}

func nameSets(sets [][]string) []*cellv1.NameSet {
	var out []*cellv1.NameSet
	for _, s := range sets {
		out = append(out, &cellv1.NameSet{Names: s})
	}
	return out
}

func idTexts(ids []schedule.ID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}

// queryOf gives the wire form of a query of a placement that is serialized
// already.
func queryOf(q *schedule.Query, placement []byte) *cellv1.Query {
	out := &cellv1.Query{Placement: placement, Seed: q.Seed, Limit: int32(q.Limit), Known: knowledgeOf(q.Known), Columns: true}
	for _, t := range q.Takes {
		out.Takes = append(out.Takes, &cellv1.Take{HostUuid: t.Host.String(), InstanceUuid: t.Instance.String()})
	}
	return out
}

func knowledgeOf(k *schedule.Knowledge) *cellv1.Knowledge {
	if k == nil {
		return nil
	}
	out := &cellv1.Knowledge{Passed: k.Passed, GroupHosts: k.GroupHosts, GroupHostsKnown: k.GroupHostsKnown}
	if len(k.Bounds) > 0 {
		out.BoundsFlat = make([]float64, 0, 2*len(k.Bounds))
	}
	for _, b := range k.Bounds {
		out.BoundsFlat = append(out.BoundsFlat, b.Min, b.Max)
	}
	return out
}

// proposalFrom reads a cell's answer. A malformed one is an error that says
// where.
func proposalFrom(p *cellv1.Proposal) (*schedule.Proposal, error) {
	out := &schedule.Proposal{Hosts: int(p.GetHosts()), Passed: int(p.GetPassed()), Raised: raisedFrom(p.GetRaised())}
	var err error
	if out.Bounds, err = boundsFrom(p.GetBoundsFlat()); err != nil {
		return nil, fmt.Errorf("bounds_flat: %w", err)
	}
	if out.Multipliers, err = boundsFrom(p.GetMultipliersFlat()); err != nil {
		return nil, fmt.Errorf("multipliers_flat: %w", err)
	}
	for _, w := range p.GetWarnings() {
		out.Warnings = append(out.Warnings, schedule.Warning{
			Key: w.GetKey(), Hosts: int(w.GetHosts()), Example: w.GetExample(), Class: w.GetExceptionClass(), Message: w.GetExceptionMessage(),
		})
	}
	if n := len(p.GetRejects()); n > 0 {
		out.Rejects = make([]schedule.Reject, 0, n)
	}
	for _, r := range p.GetRejects() {
		out.Rejects = append(out.Rejects, schedule.Reject{
			Filter: r.GetFilter(), Detail: r.GetDetail(), Hosts: int(r.GetHosts()),
			Example: r.GetExample(), Class: r.GetExceptionClass(), Message: r.GetExceptionMessage(),
		})
	}
	for i, g := range p.GetGroupHosts() {
		id, err := schedule.ParseID(g.GetHostUuid())
		if err != nil {
			return nil, fmt.Errorf("group_hosts[%d].host_uuid: %w", i, err)
		}
		out.GroupHosts = append(out.GroupHosts, schedule.GroupHost{Host: id, ServiceHost: g.GetServiceHost(), Members: int(g.GetMembers())})
	}
	if out.Candidates, err = candidatesFrom(p.GetColumns(), len(out.Bounds)); err != nil {
		return nil, fmt.Errorf("columns: %w", err)
	}
	return out, nil
}
