package replica

import (
	"slices"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/shard"
)

// HostQueryOf is the part of a request that a database can answer. If ComputeFilter is among the rules,
// every host that passes them is among the hosts that the database finds. The other filters, and the
// rest of the request's own restrictions, must run on a table of those hosts.
func HostQueryOf(r *schedule.Request, rules *schedule.Rules) shard.HostQuery {
	var q shard.HostQuery
	runs := func(filter string) bool {
		return rules.Filters == nil || slices.Contains(rules.Filters, filter)
	}
	// If a request has a fallback, the database may require only what both alternatives require.
	both := schedule.Fallback{Resources: r.Resources, Required: r.Required, Forbidden: r.Forbidden}
	if f := r.Fallback; f != nil {
		both = schedule.Fallback{
			Resources: common(r.Resources, f.Resources), Required: common(r.Required, f.Required), Forbidden: common(r.Forbidden, f.Forbidden),
		}
	}
	if runs(schedule.ResourceFilter) {
		for _, a := range both.Resources {
			q.Resources = append(q.Resources, shard.AmountOf{ResourceClass: a.Class, Amount: a.N, OrChild: r.Tree != nil})
		}
	}
	if runs(schedule.TraitFilter) {
		for _, t := range both.Required {
			if r.Tree != nil && slices.Contains(r.Tree.Required, t) && !slices.Contains(r.Tree.Both, t) {
				q.Somewhere = append(q.Somewhere, t)
			} else {
				q.Required = append(q.Required, t)
			}
		}
		for _, t := range both.Forbidden {
			// A root with a trait that the unsuffixed group forbids may still pass by its children.
			if r.Tree == nil || !slices.Contains(r.Tree.Forbidden, t) || slices.Contains(r.Tree.Both, t) {
				q.Forbidden = append(q.Forbidden, t)
			}
		}
		q.AnyOf = r.AnyOf
	}
	if runs(schedule.AggregateFilter) {
		q.MemberOf, q.ForbiddenAggregates = r.MemberOf, r.ForbiddenAggregates
	}
	if runs(schedule.ZoneFilter) {
		q.Zone, q.Unzoned = r.AvailabilityZone, r.AvailabilityZone == rules.DefaultAvailabilityZone
	}
	if d := r.Destination; d != nil {
		q.ServiceHost, q.NodeName = d.Host, d.Node
	}
	return q
}

// common returns the elements of both lists, in the order of the first.
func common[T comparable](a, b []T) []T {
	var out []T
	for _, x := range a {
		if slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// judgeable refuses a request whose answer depends on hosts that HostQueryOf may not find: on where
// other instances are, on disabled hosts, or on errors that any host raises. It refuses requests for
// hardware, too: their claims also need a whole table.
func judgeable(r *schedule.Request, rules *schedule.Rules) error {
	runs := func(filter string) bool {
		return slices.Contains(rules.Filters, filter)
	}
	n := r.Nova
	if n == nil {
		n = &schedule.NovaRequest{}
	}
	hints := func(name string) bool {
		return slices.ContainsFunc(n.Hints, func(h schedule.Hint) bool { return h.Name == name })
	}
	what := ""
	switch {
	case r.Group != nil:
		what = "where the members of a server group are"
	case n.NUMA != nil || len(n.PCI) > 0:
		what = "which NUMA cells and devices are taken"
	case runs(schedule.DifferentHostFilter) && hints("different_host"), runs(schedule.SameHostFilter) && hints("same_host"),
		runs(schedule.TypeAffinityFilter):
		what = "which instances are on a host"
	case n.Rebuild || rules.Filters != nil && !runs(schedule.ComputeFilter):
		what = "what disabled hosts have"
	case rules.Options != nil && rules.Options.StrictNova:
		what = "what Nova would raise for any host"
	default:
		return nil
	}
	return fault.New(fault.CellUnavailable, "the cell's replica is loading its shard, and cannot say yet %s", what)
}
