package cell

import (
	"fmt"
	"math"
	"strconv"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// reader reads a message's fields and keeps what is wrong with them.
type reader struct{ bad []fault.Field }

func (r *reader) problem(path, format string, args ...any) {
	r.bad = append(r.bad, fault.Field{Path: path, Problem: fmt.Sprintf(format, args...)})
}

// id reads a uuid; the zero ID when it is none.
func (r *reader) id(path, s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		r.problem(path, "%v", err)
	}
	return id
}

// ids reads a list of uuids; nil for none.
func (r *reader) ids(path string, in []string) []schedule.ID {
	var out []schedule.ID
	for i, s := range in {
		out = append(out, r.id(fmt.Sprintf("%s[%d]", path, i), s))
	}
	return out
}

// uuid reads a uuid and gives its canonical text.
func (r *reader) uuid(path, s string) string { return r.id(path, s).String() }

// finite reads a number that must be one.
func (r *reader) finite(path string, x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		r.problem(path, "must be a finite number")
	}
	return x
}

// itemPath is the path of a list's item.
func itemPath(list string, i int, field string) string {
	return list + "[" + strconv.Itoa(i) + "]" + field
}

func (r *reader) request(p *cellv1.Placement) *schedule.Request {
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
		req.Moving = r.id("placement.moving_instance", p.GetMovingInstance())
	}
	return req
}

func (r *reader) amounts(list string, in []*cellv1.Amount) []schedule.Amount {
	var out []schedule.Amount
	seen := make(map[string]struct{}, len(in))
	for i, a := range in {
		path := itemPath(list, i, "")
		if a.GetResourceClass() == "" {
			r.problem(path+".resource_class", "must not be empty")
		}
		if a.GetAmount() < 1 {
			r.problem(path+".amount", "must be at least 1")
		}
		if _, ok := seen[a.GetResourceClass()]; ok {
			r.problem(path+".resource_class", "%s stands there already", a.GetResourceClass())
		}
		seen[a.GetResourceClass()] = struct{}{}
		out = append(out, schedule.Amount{Class: a.GetResourceClass(), N: int64(a.GetAmount())})
	}
	return out
}

func (r *reader) group(g *cellv1.Group) *schedule.Group {
	if g == nil {
		return nil
	}
	policy := schedule.Policy(g.GetPolicy())
	switch policy {
	case "", schedule.Affinity, schedule.AntiAffinity, schedule.SoftAffinity, schedule.SoftAntiAffinity:
	default:
		r.problem("placement.group.policy", "%q is not a server group policy", g.GetPolicy())
	}
	return &schedule.Group{
		UUID:         r.id("placement.group.uuid", g.GetUuid()),
		Policy:       policy,
		MaxPerHost:   int(g.GetMaxServerPerHost()),
		Members:      r.ids("placement.group.members", g.GetMembers()),
		Hosts:        g.GetHosts(),
		MembersExact: g.GetMembersExact(),
	}
}

func (r *reader) rules(in *cellv1.Rules) *schedule.Rules {
	out := &schedule.Rules{
		Filters: in.GetFilters(), DefaultAvailabilityZone: in.GetDefaultAvailabilityZone(),
		Options: r.options(in.GetOptions()),
	}
	for i, w := range in.GetWeighers() {
		out.Weighers = append(out.Weighers, schedule.Weigher{
			Name:       w.GetName(),
			Multiplier: r.finite(fmt.Sprintf("placement.rules.weighers[%d].multiplier", i), w.GetMultiplier()),
		})
	}
	return out
}

func (r *reader) known(in *cellv1.Knowledge) *schedule.Knowledge {
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
		r.problem("known.bounds_flat", "must be pairs")
	case len(flat) > 0:
		out.Bounds = make([]schedule.Bounds, len(flat)/2)
		for i := range out.Bounds {
			out.Bounds[i] = r.bounds("known.bounds_flat", i, flat[2*i], flat[2*i+1])
		}
	}
	return out
}

// bounds reads the i-th bounds of a list.
func (r *reader) bounds(list string, i int, low, high float64) schedule.Bounds {
	if math.IsNaN(low) || math.IsNaN(high) {
		r.problem(itemPath(list, i, ""), "must be numbers")
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

// sameUUID compares uuids whatever their letters' case.
func sameUUID(a, b string) bool {
	x, err := schedule.ParseID(a)
	if err != nil {
		return false
	}
	y, err := schedule.ParseID(b)
	return err == nil && x == y
}

func (r *reader) tree(in *cellv1.Tree) *schedule.Tree {
	if in == nil {
		return nil
	}
	out := &schedule.Tree{
		Required: in.GetRequiredTraits(), Forbidden: in.GetForbiddenTraits(),
		Both: in.GetBoth(), Isolate: in.GetIsolate(), SameSubtree: sets(in.GetSameSubtree()),
	}
	for i, g := range in.GetGroups() {
		group := schedule.ResourceGroup{
			Suffix: g.GetSuffix(), Resources: r.amounts(itemPath("placement.tree.groups", i, ".resources"), g.GetResources()),
			Required: g.GetRequiredTraits(), Forbidden: g.GetForbiddenTraits(),
			MemberOf: sets(g.GetMemberOf()), ForbiddenAggregates: g.GetForbiddenAggregates(),
		}
		if g.GetInTree() != "" {
			group.InTree = r.id(itemPath("placement.tree.groups", i, ".in_tree"), g.GetInTree())
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}
