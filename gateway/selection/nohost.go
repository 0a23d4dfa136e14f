package selection

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// noHost gives the error of an instance that found no host, with counts. If every cell was searched, it is
// NO_VALID_HOST. If a cell did not answer, it is CELL_UNAVAILABLE, since that cell might have a host; or OVERLOADED,
// without counts, if such a cell is overloaded. If no cell answered, there are no counts either. If patient is set,
// it asks cells again that had no time to look for near misses.
func (s *selection) noHost(ctx context.Context, m *merged, pending []int, patient bool) error {
	index := pending[m.result.Failed]
	which := ""
	if len(s.instances) > 1 {
		which = fmt.Sprintf(" for instance %d of %d (%s)", index+1, len(s.instances), s.instances[index])
	}
	lost := s.lost()
	if lost.Len() > 0 {
		if e := lost.Fault("no valid host was found%s in the cells that answered; these could not be used", which); e.Kind == fault.Overloaded {
			return e
		}
		if !slices.ContainsFunc(s.cells, func(c cellState) bool { return c.answered }) {
			return lost.Fault("no cell that the request may use answered%s", which)
		}
	}
	// The reports must be of the failed instance, not of the first one.
	for i := range s.cells {
		s.cells[i].report = nil
	}
	s.report(m)
	detail := &cellgatev1.NoValidHost{InstanceIndex: int32(index)}
	for k, p := range m.result.Last {
		if p == nil {
			continue
		}
		r := reportOf(p)
		r.TableVersion = m.versions[k]
		r.Rejects = s.blameHosts(m.cells[k], r.Rejects)
		s.cells[m.cells[k]].report = r
		detail.Hosts += int32(p.Hosts)
		for _, x := range r.GetRejects() {
			detail.Rejects = AddReject(detail.Rejects, x)
		}
	}
	sortRejects(detail)
	detail.Cells, _ = s.cellReports()
	instances := make([]schedule.ID, 0, len(pending))
	for _, i := range pending {
		instances = append(instances, s.instances[i])
	}
	s.whyNot(ctx, m, m.result, instances, patient).addTo(detail)
	detail.TenantMessage = tenantMessage(detail)
	message := noHostMessage(detail, which)
	if lost.Len() == 0 {
		detail.UnknownValues = s.svc.UnknownValues(ctx, s.req.GetRequestSpec())
		message = strings.Join(append([]string{message}, detail.UnknownValues...), "; ")
	}
	e := fault.New(fault.NoValidHost, "%s", message)
	if lost.Len() > 0 {
		e = lost.Fault("%s; these cells did not answer, and may have one", e.Message)
	}
	e.Detail = detail
	return e
}

// sortRejects sorts by number of hosts, the most first.
func sortRejects(d *cellgatev1.NoValidHost) {
	slices.SortStableFunc(d.Rejects, func(a, b *cellgatev1.RejectCount) int { return cmp.Compare(b.GetHosts(), a.GetHosts()) })
}

// AddReject adds a reject to counts, to the count of the same filter and detail if there is one.
func AddReject(counts []*cellgatev1.RejectCount, r *cellgatev1.RejectCount) []*cellgatev1.RejectCount {
	i := slices.IndexFunc(counts, func(have *cellgatev1.RejectCount) bool {
		return have.GetFilter() == r.GetFilter() && have.GetDetail() == r.GetDetail()
	})
	if i < 0 {
		return append(counts, r)
	}
	have := counts[i]
	counts[i] = &cellgatev1.RejectCount{
		Filter: have.GetFilter(), Detail: have.GetDetail(), Hosts: have.GetHosts() + r.GetHosts(),
		Example: have.GetExample(), ExceptionClass: have.GetExceptionClass(), ExceptionMessage: have.GetExceptionMessage(),
	}
	return counts
}

// noHostMessage gives the text for operators: "No valid host was found. 0 of 3,000 hosts: 1,640 lack trait X, 148 are
// disabled; cell3 skipped: disabled by …".
func noHostMessage(d *cellgatev1.NoValidHost, which string) string {
	message := fmt.Sprintf("No valid host was found. 0 of %s hosts%s", thousands(d.GetHosts()), which)
	if text := RejectsText(d.GetRejects()); text != "" {
		message += ": " + text
	}
	for _, c := range d.GetConditions() {
		for _, b := range c.GetBounds() {
			if text := boundText(c.GetDetail(), b); text != "" {
				message += "; " + text
			}
		}
	}
	for _, c := range d.GetCells() {
		if c.GetOutcome() == cellgatev1.CellOutcome_SKIPPED {
			message += fmt.Sprintf("; %s skipped: %s", c.GetCell(), c.GetReason())
		}
	}
	return message
}

// boundText says which bound of inventories rejects an amount: max_unit, min_unit or step_size; "" if too little is
// free.
func boundText(class string, b *cellgatev1.BoundCount) string {
	of := func(extreme string) string {
		if b.GetHosts() == 1 {
			return fmt.Sprintf("of 1 host (%d)", b.GetNearest())
		}
		return fmt.Sprintf("of %s hosts (the %s is %d)", thousands(b.GetHosts()), extreme, b.GetNearest())
	}
	switch schedule.Bound(b.GetBound()) {
	case schedule.BoundMax:
		return fmt.Sprintf("%d %s is more than the max_unit %s", b.GetAsked(), class, of("greatest"))
	case schedule.BoundMin:
		return fmt.Sprintf("%d %s is less than the min_unit %s", b.GetAsked(), class, of("least"))
	case schedule.BoundStep:
		return fmt.Sprintf("%d %s is no multiple of the step_size %s", b.GetAsked(), class, of("least"))
	}
	return ""
}
