package schedule

import (
	"slices"
	"strings"
)

// filter gives the hosts that pass, and the rejects of the others by filter, in filter order and
// then by detail.
func (s *naiveState) filter(r *Request, rules *Rules, affinity []string) (passed []*Host, rejects []Reject) {
	for i := range s.hosts {
		h := &s.hosts[i]
		ok := true
		for _, f := range rules.Filters {
			detail, pass := s.check(f, h, r, rules, affinity)
			if pass {
				continue
			}
			ok = false
			at := slices.IndexFunc(rejects, func(x Reject) bool { return x.Filter == f && x.Detail == detail })
			if at < 0 {
				rejects = append(rejects, Reject{Filter: f, Detail: detail})
				at = len(rejects) - 1
			}
			rejects[at].Hosts++
			break
		}
		if ok {
			passed = append(passed, h)
		}
	}
	slices.SortFunc(rejects, func(a, b Reject) int {
		if d := slices.Index(rules.Filters, a.Filter) - slices.Index(rules.Filters, b.Filter); d != 0 {
			return d
		}
		return strings.Compare(a.Detail, b.Detail)
	})
	return passed, rejects
}

// check runs one filter on one host.
func (s *naiveState) check(filter string, h *Host, r *Request, rules *Rules, affinity []string) (detail string, pass bool) {
	rebuild := r.Nova != nil && r.Nova.Rebuild
	if rebuild && slices.Contains([]string{
		ComputeFilter, ZoneFilter, AggregateFilter, TraitFilter, ResourceFilter, AntiAffinityFilter, AffinityFilter,
	}, filter) {
		return "", true
	}
	switch filter {
	case HostFilter:
		if factsOfHost(h).broken {
			return Unreadable, false
		}
		return naiveHostFilter(h, r)
	case ComputeFilter:
		if h.Disabled {
			return "disabled", false
		}
		if h.Withheld != "" {
			return h.Withheld, false
		}
		if h.Down && !r.Forced() {
			return "down", false
		}
	case ZoneFilter:
		zones := naiveZones(h, rules)
		return "", r.AvailabilityZone == "" || slices.Contains(zones, r.AvailabilityZone)
	case AggregateFilter:
		inOne := func(set []string) bool {
			return slices.ContainsFunc(h.Aggregates, func(a Aggregate) bool { return slices.Contains(set, a.UUID) })
		}
		for _, set := range r.MemberOf {
			if !inOne(set) {
				return "", false
			}
		}
		if inOne(r.ForbiddenAggregates) {
			return "forbidden", false
		}
	case TraitFilter:
		for _, t := range r.Required {
			if !slices.Contains(h.Traits, t) && (r.Fallback == nil || slices.Contains(r.Fallback.Required, t)) {
				return t, false
			}
		}
		for _, t := range r.Forbidden {
			if slices.Contains(h.Traits, t) && (r.Fallback == nil || slices.Contains(r.Fallback.Forbidden, t)) {
				return "!" + t, false
			}
		}
		for _, set := range r.AnyOf {
			if !slices.ContainsFunc(set, func(t string) bool { return slices.Contains(h.Traits, t) }) {
				return strings.Join(set, "|"), false
			}
		}
	case ResourceFilter:
		for _, a := range r.Resources {
			if !slices.ContainsFunc(h.Resources, func(x Resource) bool { return naiveFits(x, a) }) &&
				(r.Fallback == nil || slices.Contains(r.Fallback.Resources, a)) {
				return a.Class, false
			}
		}
		// What both alternatives ask was judged above, and by TraitFilter if that runs.
		if f := r.Fallback; f != nil &&
			!naiveAll(h, naiveOwn(r.Resources, f.Resources), naiveOwn(r.Required, f.Required), naiveOwn(r.Forbidden, f.Forbidden)) &&
			!naiveAll(h, naiveOwn(f.Resources, r.Resources), naiveOwn(f.Required, r.Required), naiveOwn(f.Forbidden, r.Forbidden)) {
			return naiveEither(r), false
		}
	case TreeFilter: // TestTreeSearchIsNaive
	case ConfiguredExpressionFilter:
		if x, ok := rules.Expression.(testExpression); ok && !rebuild && !r.Forced() {
			return x.naive(h)
		}
	case ExpressionFilter:
		if x, ok := r.Expression.(testExpression); ok && !rebuild {
			return x.naive(h)
		}
	case AntiAffinityFilter:
		if r.Group != nil && r.Group.Policy == AntiAffinity && !r.Forced() {
			return "", s.hasMoving(h, r) || s.members(h, r) < max(1, r.Group.MaxPerHost)
		}
	case AffinityFilter:
		if r.Group != nil && r.Group.Policy == Affinity && !r.Forced() {
			return "", len(affinity) == 0 || slices.Contains(affinity, h.ServiceHost)
		}
	default:
		return s.novaFilter(filter, h, r, rules)
	}
	return "", true
}

// naiveAll reports whether a host's root provider meets all of these demands.
func naiveAll(h *Host, resources []Amount, required, forbidden []string) bool {
	for _, a := range resources {
		if !slices.ContainsFunc(h.Resources, func(x Resource) bool { return naiveFits(x, a) }) {
			return false
		}
	}
	for _, t := range required {
		if !slices.Contains(h.Traits, t) {
			return false
		}
	}
	for _, t := range forbidden {
		if slices.Contains(h.Traits, t) {
			return false
		}
	}
	return true
}

// naiveOwn gives the elements of a that are not in b.
func naiveOwn[T comparable](a, b []T) (own []T) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			own = append(own, x)
		}
	}
	return own
}

// naiveEither names the classes that only the request or only its fallback asks for, as "A,B|C".
func naiveEither(r *Request) string {
	sides := [2][]string{}
	for _, a := range r.Resources {
		if !slices.Contains(r.Fallback.Resources, a) {
			sides[0] = append(sides[0], a.Class)
		}
	}
	for _, a := range r.Fallback.Resources {
		if !slices.Contains(r.Resources, a) {
			sides[1] = append(sides[1], a.Class)
		}
	}
	var text []string
	for _, side := range sides {
		if len(side) > 0 {
			text = append(text, strings.Join(side, ","))
		}
	}
	return strings.Join(text, "|")
}

// naiveAllocation is the fallback's allocation from the root, if only the fallback fits; else nil.
func naiveAllocation(h *Host, r *Request) *Allocation {
	f := r.Fallback
	if f == nil || naiveAll(h, r.Resources, r.Required, r.Forbidden) || !naiveAll(h, f.Resources, f.Required, f.Forbidden) {
		return nil
	}
	out := &Allocation{Mappings: []Mapping{{Providers: []ID{h.UUID}}}}
	for _, a := range f.Resources {
		out.Amounts = append(out.Amounts, ProviderAmount{h.UUID, a.Class, a.N})
	}
	return out
}

func naiveHostFilter(h *Host, r *Request) (detail string, pass bool) {
	fold := func(list []string) bool {
		return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, h.ServiceHost) })
	}
	if d := r.Destination; d != nil {
		if d.Cell != "" && d.Cell != h.Cell && !d.AllowCrossCellMove {
			return "other cell", false
		}
		if d.Host != "" && d.Host != h.ServiceHost {
			return "other host", false
		}
		if d.Node != "" && d.Node != h.NodeName {
			return "other node", false
		}
	}
	if fold(r.IgnoreHosts) || slices.Contains(r.IgnoreUUIDs, h.UUID) {
		return "ignored", false
	}
	if len(r.ForceHosts) > 0 && !fold(r.ForceHosts) {
		return "not forced", false
	}
	if len(r.ForceNodes) > 0 && !slices.Contains(r.ForceNodes, h.NodeName) {
		return "not forced", false
	}
	return "", true
}

func naiveFits(x Resource, a Amount) bool {
	return x.Class == a.Class && x.Used+a.N <= x.Capacity &&
		x.MinUnit <= a.N && a.N <= x.MaxUnit && a.N%max(1, x.StepSize) == 0
}

// naiveZones are a host's zones, sorted, or the default zone.
func naiveZones(h *Host, rules *Rules) []string {
	var zones []string
	for _, a := range h.Aggregates {
		for _, z := range strings.Split(a.Metadata["availability_zone"], ",") {
			if z = strings.TrimSpace(z); z != "" {
				zones = append(zones, z)
			}
		}
	}
	if len(zones) == 0 {
		return []string{rules.DefaultAvailabilityZone}
	}
	slices.Sort(zones)
	return zones
}
