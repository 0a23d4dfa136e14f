package gateway

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// A shard may have less room than the legacy rows show: they lag, or the shard holds
// claims that they do not have. A claim that is refused for that tells the stand-in, for
// all requests; from the second refusal on, a request asks the cell for all hosts
// without room for it, so that one that nothing can take ends as soon as that is known.

// roomRefusals is what a request met in the shard of a cell that the stand-in answers for.
type roomRefusals struct {
	// rounds are its attempts at which the shard had no room.
	rounds int
	// hosts counts the refusals by service host.
	hosts map[string]int
	// want is what one instance takes of its host, for a cell that is to be asked.
	want []*cellv1.Amount
}

// maxRefusals is how often a request claims on a host whose shard has no room, while
// rows or other requests' claims that ended show some again.
const maxRefusals = 3

// refusedByShard takes a refusal of a host that passed. One of a cell's own table does
// so by itself when the table is newer.
func (s *selection) refusedByShard(o claimOrder, r *cellv1.Refusal) {
	if !s.views[o.cell].standIn {
		return
	}
	switch r.GetFilter() {
	case schedule.ResourceFilter:
		f := s.roomRefusals[o.cell]
		if f == nil {
			f = &roomRefusals{hosts: map[string]int{}}
			if s.roomRefusals == nil {
				s.roomRefusals = map[int]*roomRefusals{}
			}
			s.roomRefusals[o.cell] = f
		}
		f.want = wanted(o.claim)
		if f.hosts[o.host]++; f.hosts[o.host] >= maxRefusals {
			s.excludeHost(o.host, r.GetDetail())
		}
	case schedule.AffinityFilter:
		if s.request.Group == nil || !s.bindGroup(r.GetGroupHosts()) {
			s.excludeHost(o.host, r.GetFilter())
		}
	default:
		s.excludeHost(o.host, r.GetFilter())
	}
}

// wanted is what a claim takes of the host's root, by class.
func wanted(c *cellv1.NewClaim) (out []*cellv1.Amount) {
	for _, a := range c.GetAllocations() {
		if a.GetProviderUuid() == c.GetHostUuid() {
			out = append(out, &cellv1.Amount{ResourceClass: a.GetResourceClass(), Amount: a.GetAmount()})
		}
	}
	return out
}

// bindGroup narrows a group with hard affinity to the hosts of members that only the
// shard knows. It reports false when they were known.
func (s *selection) bindGroup(hosts []string) bool {
	bound := func(r *schedule.Request) (*schedule.Request, bool) {
		out, news := *r, false
		out.Group = new(*r.Group)
		for _, h := range hosts {
			if !slices.Contains(out.Group.Hosts, h) {
				out.Group.Hosts, news = append(slices.Clip(out.Group.Hosts), h), true
			}
		}
		return &out, news
	}
	asked, news := bound(s.originalRequest)
	if s.request == s.originalRequest {
		s.request = asked
	} else {
		s.request, _ = bound(s.request)
	}
	s.originalRequest = asked
	return news
}

func (s *selection) excludeHost(name, why string) {
	if s.excludedHosts == nil {
		s.excludedHosts = map[string]string{}
	}
	s.excludedHosts[name] = why
}

// toPlan is the request as it is planned: without the hosts that it keeps from.
func (s *selection) toPlan() *schedule.Request {
	if len(s.excludedHosts) == 0 {
		return s.request
	}
	r := *s.request
	r.IgnoreHosts = slices.Concat(r.IgnoreHosts, slices.Sorted(maps.Keys(s.excludedHosts)))
	return &r
}

// askForRoom asks the cells that refused claims of orders for want of room which of
// their hosts have none, at the second time, the fourth, the eighth and so on.
func (s *selection) askForRoom(ctx context.Context, orders []claimOrder) {
	for _, o := range orders {
		f := s.roomRefusals[o.cell]
		if f == nil || f.want == nil {
			continue
		}
		want := f.want
		f.want = nil
		if f.rounds++; f.rounds < 2 || bits.OnesCount(uint(f.rounds)) != 1 {
			continue
		}
		if err := s.views[o.cell].gate.askForRoom(ctx, want); err != nil && ctx.Err() == nil {
			s.g.log.DebugContext(ctx, "a cell does not say which hosts have no room", "cell", s.g.cells[o.cell].cfg.Name, "error", err)
		}
	}
}

// askedRoom is the newest answer of a cell to what hosts lack.
type askedRoom struct {
	of []*cellv1.Amount
	at time.Time
}

// askForRoom asks the cell for the hosts that lack some of the amounts, and tells the
// stand-in. Of requests at once one asks for all that want as much or less.
func (w *gate) askForRoom(ctx context.Context, want []*cellv1.Amount) error {
	began := w.g.now()
	if err := w.enter(ctx); err != nil {
		return err
	}
	defer w.leave()
	if w.room.at.After(began) && covers(w.room.of, want) {
		return nil
	}
	at := w.g.now()
	resp, err := callFor(ctx, w.cell, w.cell.cfg.Name, w.cell.claimBudget, &cellv1.ReportLegacyRequest{
		Gateway: w.report.gateway, Look: true, ShortOf: want,
	}, cellv1.CellSchedulerClient.ReportLegacy)
	if err != nil {
		return err
	}
	w.parts.StandIn.Rooms(resp.GetShort())
	w.room = askedRoom{want, at}
	return nil
}

// covers reports whether a host that lacks some of b lacks some of a as well.
func covers(a, b []*cellv1.Amount) bool {
	return !slices.ContainsFunc(b, func(want *cellv1.Amount) bool {
		return !slices.ContainsFunc(a, func(have *cellv1.Amount) bool {
			return have.GetResourceClass() == want.GetResourceClass() && have.GetAmount() >= want.GetAmount()
		})
	})
}

// refused tells the stand-in of an operation that the shard had no room for.
func (w *gate) refused(op *cellv1.ClaimOp, r *cellv1.Refusal) {
	if fault.Kind(r.GetReason()) != fault.NoValidHost || r.GetFilter() != schedule.ResourceFilter {
		return
	}
	host, allocations := op.GetClaim().GetHostUuid(), op.GetClaim().GetAllocations()
	if swap := op.GetSwap(); swap != nil {
		host, allocations = swap.GetHostUuid(), swap.GetAllocations()
	}
	for _, a := range allocations {
		if a.GetProviderUuid() == host && a.GetResourceClass() == r.GetDetail() {
			w.parts.StandIn.Refused(host, a.GetResourceClass(), int64(a.GetAmount()))
		}
	}
}

// blameShards tells hosts that the request kept from, since the shard refused them, from
// those that its caller told it to ignore.
func (s *selection) blameShards(d *cellgatev1.NoValidHost) {
	for host, why := range s.excludedHosts {
		if !slices.Contains(s.request.IgnoreHosts, host) {
			d.Rejects = notIgnored(d.GetRejects(), proposing.ShardFilter, why)
		}
	}
}

// notIgnored counts a host that the request kept from by itself, and that its cell counted
// with those that its caller told it to ignore, for what it was.
func notIgnored(counts []*cellgatev1.RejectCount, filter, detail string) []*cellgatev1.RejectCount {
	i := slices.IndexFunc(counts, func(r *cellgatev1.RejectCount) bool {
		return r.GetFilter() == schedule.HostFilter && r.GetDetail() == "ignored"
	})
	if i < 0 {
		return counts // another filter left it out before
	}
	counts = addReject(counts, &cellgatev1.RejectCount{Filter: schedule.HostFilter, Detail: "ignored", Hosts: -1})
	if counts[i].GetHosts() == 0 {
		counts = slices.Delete(counts, i, i+1)
	}
	return addReject(counts, &cellgatev1.RejectCount{Filter: filter, Detail: detail, Hosts: 1})
}
