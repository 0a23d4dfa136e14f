package selection

import (
	"context"
	"fmt"
	"slices"

	"cellgate/gateway/cellclient"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// route leaves cells out, with a reason. A reason never depends on load or free amounts, since summaries are late. A
// final reason stands. Cells left out for another reason are asked after all if no other cell can hold the request. A
// cell that cannot be asked now is lost.
//
// With hard affinity every enabled cell is asked: the group's members decide, even in a cell that could not hold the
// request. Members in a disabled cell are seen only if the request names their hosts.
func (s *selection) route(ctx context.Context) {
	_, step := s.svc.Telemetry.Stage(ctx, telemetry.StageRoute)
	defer step.End(nil)
	r := s.request
	for i, c := range s.svc.Cells.All {
		at := &s.cells[i]
		disabled := s.svc.Gates.Disabled(c)
		switch {
		case c.Disabled():
			at.skip, at.final = "disabled by the gateway's configuration", true
		case disabled != "" && !isDestination(r.Destination, c):
			at.skip, at.final = disabled, true
		case hardAffinity(r):
		case elsewhere(r.Destination, c):
			at.skip, at.final = "another cell is the requested destination", true
		default:
			// A summary with a reason (its cell cannot serve) may not list all that the cell could hold.
			if known := s.svc.Cells.RoutingSummary(c); known != nil && known.GetTotals().GetReason() == "" {
				at.skip = cannotHold(r, known, s.svc.Rules.DefaultZone())
			}
		}
		if err := c.Unusable(); err != nil && at.skip == "" {
			s.markUnavailable(ctx, i, err)
		}
	}
}

// isDestination reports whether the request may only go to this cell. Nova then asks the cell
// even if it is disabled.
func isDestination(d *schedule.Destination, c *cellclient.Cell) bool {
	return d != nil && d.Cell != "" && !d.AllowCrossCellMove && d.Cell == c.UUID()
}

// elsewhere reports whether the request may only go to another cell. The uuid of the requested cell is known
// (resolveDestination), so a cell that never answered is not the requested one.
func elsewhere(d *schedule.Destination, c *cellclient.Cell) bool {
	return d != nil && d.Cell != "" && !d.AllowCrossCellMove && d.Cell != c.UUID()
}

// cannotHold says why no host of a cell could pass even if empty; "" if one might.
func cannotHold(r *schedule.Request, s *cellclient.Summary, defaultZone string) string {
	why := lacks(r, r.Resources, r.Required, s)
	if why != "" && (r.Fallback == nil || lacks(r, r.Fallback.Resources, r.Fallback.Required, s) != "") {
		return why
	}
	if r.Tree != nil {
		for _, g := range r.Tree.Groups {
			if why := tooSmall(g.Resources, s, true); why != "" {
				return why
			}
		}
	}
	for _, set := range r.AnyOf {
		if !intersect(set, s.GetTraits()) {
			return fmt.Sprintf("no host has any of the traits %v", set)
		}
	}
	for _, set := range r.MemberOf {
		if !intersect(set, s.GetAggregates()) {
			return fmt.Sprintf("no host is in any of the aggregates %v", set)
		}
	}
	if r.Tenant != "" && !slices.Contains(s.GetTenants(), r.Tenant) {
		return fmt.Sprintf("no host is in an aggregate of tenant %s", r.Tenant)
	}
	if z := r.AvailabilityZone; z != "" && !slices.Contains(s.GetAvailabilityZones(), z) &&
		(z != defaultZone || !s.GetHasUnzonedHosts()) {
		return fmt.Sprintf("no host is in availability zone %s", z)
	}
	return ""
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// lacks says what no host of a cell has even if empty; "" for nothing.
func lacks(r *schedule.Request, resources []schedule.Amount, required []string, s *cellclient.Summary) string {
	if why := tooSmall(resources, s, r.Tree != nil); why != "" {
		return why
	}
	for _, t := range required {
		child := r.Tree != nil && slices.Contains(r.Tree.Required, t) && !slices.Contains(r.Tree.Both, t) && slices.Contains(s.GetChildTraits(), t)
		if !child && !slices.Contains(s.GetTraits(), t) {
			return fmt.Sprintf("no host has trait %s", t)
		}
	}
	return ""
}

// tooSmall says which amount is too large for every root provider, and for every child if
// children is set; "" for none. Of children only the classes are known.
func tooSmall(resources []schedule.Amount, s *cellclient.Summary, children bool) string {
	for _, a := range resources {
		if children && slices.Contains(s.GetChildClasses(), a.Class) {
			continue
		}
		i := slices.IndexFunc(s.GetLargest(), func(m *cellv1.MaxUnit) bool { return m.GetResourceClass() == a.Class })
		switch {
		case i < 0:
			return fmt.Sprintf("no host has %s", a.Class)
		case s.GetLargest()[i].GetAmount() < a.N:
			return fmt.Sprintf("no host is large enough: %s %d, the largest has %d", a.Class, a.N, s.GetLargest()[i].GetAmount())
		}
	}
	return ""
}
