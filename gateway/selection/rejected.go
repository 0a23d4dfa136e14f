package selection

import (
	"slices"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// verdictFilter is the filter in the reject counts of hosts that rejected a claim; the detail is the reason.
const verdictFilter = "HostVerdict"

// rejectedBy records that an order's host rejected it. The request then avoids that host,
// whatever the next plan shows: the host has less than its cell knows.
func (s *selection) rejectedBy(o claimOrder, r *cellv1.Refusal) {
	s.rejections = append(s.rejections, &cellgatev1.RejectedClaim{
		InstanceUuid: s.instances[o.index].String(), Cell: s.svc.Cells.All[o.cell].Name(),
		HostUuid: o.claim.GetHostUuid(), ServiceHost: o.host, ClaimId: o.claim.GetClaimId(),
		Reason: r.GetDetail(), Message: r.GetMessage(),
	})
}

// planned gives the request to plan, which ignores the hosts that rejected a claim of it.
func (s *selection) planned() *schedule.Request {
	if len(s.rejections) == 0 {
		return s.request
	}
	r := *s.request
	for _, x := range s.rejections {
		// The uuid is that of a candidate, so it is valid.
		id, err := schedule.ParseID(x.GetHostUuid())
		if err == nil && !slices.Contains(r.IgnoreUUIDs, id) {
			r.IgnoreUUIDs = append(r.IgnoreUUIDs, id)
		}
	}
	return &r
}

// blameHosts counts a cell's hosts that rejected a claim of the request apart from those that
// the caller ignores.
func (s *selection) blameHosts(cell int, counts []*cellgatev1.RejectCount) []*cellgatev1.RejectCount {
	seen := map[string]struct{}{}
	for _, x := range s.rejections {
		if _, is := seen[x.GetHostUuid()]; is || x.GetCell() != s.svc.Cells.All[cell].Name() {
			continue
		}
		seen[x.GetHostUuid()] = struct{}{}
		counts = notIgnored(counts, verdictFilter, x.GetReason())
	}
	return counts
}

// notIgnored moves one host from the count of ignored hosts to that of filter and detail,
// since the gateway ignored it, not the caller.
func notIgnored(counts []*cellgatev1.RejectCount, filter, detail string) []*cellgatev1.RejectCount {
	i := slices.IndexFunc(counts, func(r *cellgatev1.RejectCount) bool {
		return r.GetFilter() == schedule.HostFilter && r.GetDetail() == "ignored"
	})
	if i < 0 {
		return counts // an earlier filter left the host out
	}
	counts = AddReject(counts, &cellgatev1.RejectCount{Filter: schedule.HostFilter, Detail: "ignored", Hosts: -1})
	if counts[i].GetHosts() == 0 {
		counts = slices.Delete(counts, i, i+1)
	}
	return AddReject(counts, &cellgatev1.RejectCount{Filter: filter, Detail: detail, Hosts: 1})
}
