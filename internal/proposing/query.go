package proposing

import (
	"cmp"
	"fmt"
	"math"

	"cellgate/internal/expression"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// request reads what a placement asks for.
func (r *Fields) request(p *cellv1.Placement) *schedule.Request {
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

// expressed is what has expressions: a placement, or its rules.
type expressed interface {
	GetFilterExpression() string
	GetWeighExpression() string
}

// expressions compiles those at a path; nil for none.
func (r *Fields) expressions(path string, of expressed) (filter schedule.Expression, weigh schedule.WeighExpression) {
	kept := cmp.Or(r.compiled, &expression.Cache{})
	if text := of.GetFilterExpression(); text != "" {
		if made, err := kept.Compile(text); err != nil {
			r.Problem(path+".filter_expression", "%v", err)
		} else {
			filter = made
		}
	}
	if text := of.GetWeighExpression(); text != "" {
		if made, err := kept.CompileWeight(text); err != nil {
			r.Problem(path+".weigh_expression", "%v", err)
		} else {
			weigh = made
		}
	}
	return filter, weigh
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
			r.Problem(path+".resource_class", "%s stands there already", a.GetResourceClass())
		}
		seen[a.GetResourceClass()] = struct{}{}
		out = append(out, schedule.Amount{Class: a.GetResourceClass(), N: int64(a.GetAmount())})
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

func (r *Fields) rules(in *cellv1.Rules) *schedule.Rules {
	out := &schedule.Rules{
		Filters: in.GetFilters(), DefaultAvailabilityZone: in.GetDefaultAvailabilityZone(),
		Options: r.options(in.GetOptions()),
	}
	out.Expression, out.Weigh = r.expressions("placement.rules", in)
	for i, w := range in.GetWeighers() {
		out.Weighers = append(out.Weighers, schedule.Weigher{
			Name:       w.GetName(),
			Multiplier: r.finite(fmt.Sprintf("placement.rules.weighers[%d].multiplier", i), w.GetMultiplier()),
		})
	}
	return out
}

func (r *Fields) known(in *cellv1.Knowledge) *schedule.Knowledge {
	if in == nil {
		return nil
	}
	out := &schedule.Knowledge{
		Passed:          in.GetPassed(),
		GroupHosts:      in.GetGroupHosts(),
		GroupHostsKnown: in.GetGroupHostsKnown(),
	}
	for i, b := range in.GetBounds() {
		out.Bounds = append(out.Bounds, r.bounds("known.bounds", i, b.GetMin(), b.GetMax()))
	}
	flat := in.GetBoundsFlat()
	switch {
	case len(flat)%2 != 0:
		r.Problem("known.bounds_flat", "must be pairs")
	case len(flat) > 0:
		out.Bounds = make([]schedule.Bounds, len(flat)/2)
		for i := range out.Bounds {
			out.Bounds[i] = r.bounds("known.bounds_flat", i, flat[2*i], flat[2*i+1])
		}
	}
	return out
}

// bounds reads the i-th bounds of a list.
func (r *Fields) bounds(list string, i int, low, high float64) schedule.Bounds {
	if math.IsNaN(low) || math.IsNaN(high) {
		r.Problem(ItemPath(list, i, ""), "must be numbers")
	}
	return schedule.Bounds{Min: low, Max: high}
}

func sets(in []*cellv1.NameSet) [][]string {
	var out [][]string
	for _, s := range in {
		out = append(out, s.GetNames())
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
