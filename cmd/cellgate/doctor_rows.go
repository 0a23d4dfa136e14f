package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/legacy"
)

// remedies are what to do about rows that are no hosts, and whether they stand in the
// way: a compute that runs without one does.
var remedies = map[legacy.Reason]struct{ status, do string }{
	legacy.NoHost:          {warned, "delete the row, it is from before Kilo; or start its nova-compute once"},
	legacy.NoService:       {warned, "start its nova-compute, or delete the row"},
	legacy.MappedElsewhere: {unhealthy, "nova-manage cell_v2 delete_host --cell_uuid UUID --host HOST where it does not belong, then discover_hosts"},
	legacy.Unmapped:        {unhealthy, "nova-manage cell_v2 discover_hosts"},
	legacy.BadUUID:         {unhealthy, "restart its nova-compute, which gives the row a uuid of its own"},
	legacy.TooLarge:        {unhealthy, "see what fills the row's texts"},
	legacy.NoNode:          {unhealthy, "delete the row, or restart its nova-compute"},
	legacy.NullColumn:      {unhealthy, "restart its nova-compute, which fills the column"},
	legacy.NegativeTotal:   {unhealthy, "restart its nova-compute, which fills the column"},
	legacy.NotReported:     {warned, "wait until its nova-compute has reported, or restart it"},
	legacy.NotImportable:   {unhealthy, "correct what is named; where its nova-compute writes it, restart that"},
	legacy.Unreadable:      {unhealthy, "restart its nova-compute, which writes the column anew; Nova fails whole requests on it"},
}

// aggregates names those without a uuid of their own.
func (u *upgrade) aggregates(x *legacy.Snapshot) {
	var all []diagnosis
	for _, a := range x.NamelessAggregates() {
		all = append(all, diagnosis{
			Check: fmt.Sprintf("aggregate %d", a.ID),
			What:  fmt.Sprintf("%q: its uuid %s; %s stands for it", a.Name, a.Why, a.UUID),
			Do:    fmt.Sprintf("give it that one, or another, in the API database: UPDATE aggregates SET uuid = '%s' WHERE id = %d", a.UUID, a.ID),
		})
	}
	u.each("aggregates", noted, all)
}

// remedyOf is what to do about a row that is no host.
func remedyOf(l *legacy.LeftOut) string {
	if strings.Contains(l.Detail, "compared with case") {
		return "give compute_nodes.host and services.host the same case: nova-compute's [DEFAULT] host"
	}
	return remedies[l.Reason].do
}

func (u *upgrade) leftOut(x *legacy.Snapshot) {
	by := map[legacy.Reason][]diagnosis{}
	for _, l := range x.LeftOut {
		by[l.Reason] = append(by[l.Reason], diagnosis{
			Check: fmt.Sprintf("row %d of compute_nodes", l.NodeID), What: strings.Join(strings.Fields(fmt.Sprintf("is no host (%s): %s %s %s", l.Reason, l.Host, l.Column, l.Detail)), " "), Do: remedyOf(&l),
		})
	}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		u.each("compute_nodes: "+string(why), remedies[why].status, by[why])
	}
}
