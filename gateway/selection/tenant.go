package selection

import (
	"slices"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/schedule"
)

// resolveTenant keeps Request.Tenant if an aggregate of some cell is named for the project,
// whether or not the cell takes requests. If none is, Nova does not restrict the request, or
// finds no host for it with placement_aggregate_required_for_tenants.
//
// Aggregates are known from the newest summary of each cell, however old. A cell that has not
// answered since the gateway started may have such an aggregate: then the request fails,
// since it could be placed outside the aggregate.
func (svc *Service) resolveTenant(r *schedule.Request) error {
	if r.Tenant == "" {
		return nil
	}
	var unknown cellclient.Missing
	for _, c := range svc.Cells.All {
		switch s := c.LastSummary(); {
		case s != nil && slices.Contains(s.GetTenants(), r.Tenant):
			return nil
		case s == nil && !c.Disabled():
			unknown.Add(c, nil)
		}
	}
	switch {
	case unknown.Len() > 0:
		return unknown.Fault("no aggregate known is named for tenant %s, but these cells have not answered yet", r.Tenant)
	case svc.Rules.TenantsRequireAggregate():
		return fault.New(fault.NoValidHost, "No valid host was found. No hosts available for tenant %s: no aggregate is named for it", r.Tenant)
	}
	r.Tenant = ""
	return nil
}
