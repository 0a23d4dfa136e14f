package wire

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/expression"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// EncodePlacement serializes a request and its rules for Query.placement (ADR 7).
func EncodePlacement(r *schedule.Request, rules *schedule.Rules) []byte {
	// Marshalling fails only on invalid UTF-8. These texts came in through proto or JSON, so they are
	// valid.
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(placementOf(r, rules))
	return text
}

func placementOf(r *schedule.Request, rules *schedule.Rules) *cellv1.Placement {
	p := &cellv1.Placement{
		RequiredTraits:      r.Required,
		ForbiddenTraits:     r.Forbidden,
		AnyTraits:           setsOf(r.AnyOf),
		MemberOf:            setsOf(r.MemberOf),
		ForbiddenAggregates: r.ForbiddenAggregates,
		AvailabilityZone:    r.AvailabilityZone,
		IgnoreHosts:         r.IgnoreHosts,
		ForceHosts:          r.ForceHosts,
		ForceNodes:          r.ForceNodes,
		IgnoreHostUuids:     IDTexts(r.IgnoreUUIDs),
		CheckForced:         r.CheckForced,
		Consume: &cellv1.Consumption{
			Vcpus: int32(r.Consume.VCPUs), MemoryMb: int32(r.Consume.RAMMB), DiskMb: r.Consume.DiskMB,
		},
		Rules:  rulesOf(rules),
		Nova:   novaOf(r.Nova),
		Tenant: r.Tenant,
	}
	if r.Isolated != nil {
		p.Isolated = &cellv1.Isolation{Traits: r.Isolated.Traits}
	}
	p.Resources = amountsOf(r.Resources)
	p.Tree = treeOf(r.Tree)
	if r.Moving != (schedule.ID{}) {
		p.MovingInstance = r.Moving.String()
	}
	if r.Expression != nil {
		p.FilterExpression = r.Expression.Text()
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
			Members: IDTexts(g.Members), Hosts: g.Hosts, MembersExact: g.MembersExact,
		}
	}
	return p
}

// Request decodes the request of a placement.
func (r *Fields) Request(p *cellv1.Placement) *schedule.Request {
	req := &schedule.Request{
		Resources:           r.amounts("placement.resources", p.GetResources()),
		Required:            p.GetRequiredTraits(),
		Forbidden:           p.GetForbiddenTraits(),
		AnyOf:               sets(p.GetAnyTraits()),
		MemberOf:            sets(p.GetMemberOf()),
		ForbiddenAggregates: p.GetForbiddenAggregates(),
		AvailabilityZone:    p.GetAvailabilityZone(),
		IgnoreHosts:         p.GetIgnoreHosts(),
		ForceHosts:          p.GetForceHosts(),
		ForceNodes:          p.GetForceNodes(),
		IgnoreUUIDs:         r.IDs("placement.ignore_host_uuids", p.GetIgnoreHostUuids()),
		Group:               r.group(p.GetGroup()),
		CheckForced:         p.GetCheckForced(),
		Consume: schedule.Consumption{
			VCPUs:  int64(p.GetConsume().GetVcpus()),
			RAMMB:  int64(p.GetConsume().GetMemoryMb()),
			DiskMB: p.GetConsume().GetDiskMb(),
		},
		Nova:   r.nova(p.GetNova()),
		Tenant: p.GetTenant(),
	}
	req.Tree = r.tree(p.GetTree())
	req.Expression, req.Weigh = r.expressions("placement", p)
	if f := p.GetFallback(); f != nil {
		req.Fallback = &schedule.Fallback{
			Resources: r.amounts("placement.fallback.resources", f.GetResources()),
			Required:  f.GetRequiredTraits(), Forbidden: f.GetForbiddenTraits(),
		}
	}
	if p.GetIsolated() != nil {
		req.Isolated = &schedule.Isolation{Traits: p.GetIsolated().GetTraits()}
	}
	d := schedule.Destination{
		Host:               p.GetDestinationHost(),
		Node:               p.GetDestinationNode(),
		Cell:               p.GetDestinationCell(),
		AllowCrossCellMove: p.GetAllowCrossCellMove(),
	}
	if d != (schedule.Destination{}) {
		req.Destination = &d
	}
	if p.GetMovingInstance() != "" {
		req.Moving = r.ID("placement.moving_instance", p.GetMovingInstance())
	}
	return req
}

// expressed is a message with expressions: a placement, or its rules.
type expressed interface {
	GetFilterExpression() string
	GetWeighExpression() string
}

// expressions compiles the expressions of the message at a path; nil for an empty one.
func (r *Fields) expressions(path string, of expressed) (filter schedule.Expression, weigh schedule.WeighExpression) {
	cache := cmp.Or(r.Expressions, &expression.Cache{})
	if text := of.GetFilterExpression(); text != "" {
		if made, err := cache.Compile(text); err != nil {
			r.Problem(path+".filter_expression", "%v", err)
		} else {
			filter = made
		}
	}
	if text := of.GetWeighExpression(); text != "" {
		if made, err := cache.CompileWeight(text); err != nil {
			r.Problem(path+".weigh_expression", "%v", err)
		} else {
			weigh = made
		}
	}
	return filter, weigh
}

func treeOf(t *schedule.Tree) *cellv1.Tree {
	if t == nil {
		return nil
	}
	out := &cellv1.Tree{RequiredTraits: t.Required, ForbiddenTraits: t.Forbidden, Both: t.Both, Isolate: t.Isolate, SameSubtree: setsOf(t.SameSubtree)}
	for _, g := range t.Groups {
		group := &cellv1.ResourceGroup{
			Suffix: g.Suffix, Resources: amountsOf(g.Resources), RequiredTraits: g.Required, ForbiddenTraits: g.Forbidden,
			MemberOf: setsOf(g.MemberOf), ForbiddenAggregates: g.ForbiddenAggregates,
		}
		if g.InTree != (schedule.ID{}) {
			group.InTree = g.InTree.String()
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

func (r *Fields) tree(in *cellv1.Tree) *schedule.Tree {
	if in == nil {
		return nil
	}
	out := &schedule.Tree{
		Required: in.GetRequiredTraits(), Forbidden: in.GetForbiddenTraits(),
		Both: in.GetBoth(), Isolate: in.GetIsolate(), SameSubtree: sets(in.GetSameSubtree()),
	}
	for i, g := range in.GetGroups() {
		group := schedule.ResourceGroup{
			Suffix: g.GetSuffix(), Resources: r.amounts(ItemPath("placement.tree.groups", i, ".resources"), g.GetResources()),
			Required: g.GetRequiredTraits(), Forbidden: g.GetForbiddenTraits(),
			MemberOf: sets(g.GetMemberOf()), ForbiddenAggregates: g.GetForbiddenAggregates(),
		}
		if g.GetInTree() != "" {
			group.InTree = r.ID(ItemPath("placement.tree.groups", i, ".in_tree"), g.GetInTree())
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

func (r *Fields) amounts(list string, in []*cellv1.Amount) []schedule.Amount {
	var out []schedule.Amount
	seen := make(map[string]struct{}, len(in))
	for i, a := range in {
		path := ItemPath(list, i, "")
		if a.GetResourceClass() == "" {
			r.Problem(path+".resource_class", "must not be empty")
		}
		if a.GetAmount() < 1 {
			r.Problem(path+".amount", "must be at least 1")
		}
		if _, ok := seen[a.GetResourceClass()]; ok {
			r.Problem(path+".resource_class", "%s is listed twice", a.GetResourceClass())
		}
		seen[a.GetResourceClass()] = struct{}{}
		out = append(out, schedule.Amount{Class: a.GetResourceClass(), N: int64(a.GetAmount())})
	}
	return out
}

func setsOf(sets [][]string) []*cellv1.NameSet {
	var out []*cellv1.NameSet
	for _, s := range sets {
		out = append(out, &cellv1.NameSet{Names: s})
	}
	return out
}

func sets(in []*cellv1.NameSet) [][]string {
	var out [][]string
	for _, s := range in {
		out = append(out, s.GetNames())
	}
	return out
}

func (r *Fields) group(g *cellv1.Group) *schedule.Group {
	if g == nil {
		return nil
	}
	policy := schedule.Policy(g.GetPolicy())
	switch policy {
	case "", schedule.Affinity, schedule.AntiAffinity, schedule.SoftAffinity, schedule.SoftAntiAffinity:
	default:
		r.Problem("placement.group.policy", "%q is not a server group policy", g.GetPolicy())
	}
	return &schedule.Group{
		UUID:         r.ID("placement.group.uuid", g.GetUuid()),
		Policy:       policy,
		MaxPerHost:   int(g.GetMaxServerPerHost()),
		Members:      r.IDs("placement.group.members", g.GetMembers()),
		Hosts:        g.GetHosts(),
		MembersExact: g.GetMembersExact(),
	}
}

// IDTexts encodes uuids as text; nil for none.
func IDTexts(ids []schedule.ID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}
