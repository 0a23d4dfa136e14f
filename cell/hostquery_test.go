package cell

import (
	"slices"

	"cellgate/schedule"
	"cellgate/shard"
)

// hostQueryOf is what a database can answer of a request: every host that passes the
// rules is among those that it finds. The other filters, and the rest of the
// request's own restriction, are for a table of what it found.
func hostQueryOf(r *schedule.Request, rules *schedule.Rules) shard.HostQuery {
	var q shard.HostQuery
	runs := func(filter string) bool {
		return rules.Filters == nil || slices.Contains(rules.Filters, filter)
	}
	if runs(schedule.ResourceFilter) {
		for _, a := range r.Resources {
			q.Resources = append(q.Resources, shard.AmountOf{ResourceClass: a.Class, Amount: a.N})
		}
	}
	if runs(schedule.TraitFilter) {
		q.Required, q.Forbidden, q.AnyOf = r.Required, r.Forbidden, r.AnyOf
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
