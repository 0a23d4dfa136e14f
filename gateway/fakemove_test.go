package gateway

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// give gives back what a claim holds.
func (f *fakeCell) give(c *cellgatev1.Claim) {
	host := mustID(c.GetHostUuid())
	h, _ := f.table.Host(host)
	var used, freed []schedule.Amount
	for _, r := range h.Resources {
		for _, a := range c.GetAllocations() {
			if a.GetResourceClass() == r.Class {
				r.Used -= int64(a.GetAmount())
				freed = append(freed, schedule.Amount{Class: r.Class, N: int64(a.GetAmount())})
			}
		}
		used = append(used, schedule.Amount{Class: r.Class, N: r.Used})
	}
	v, back := h.View, consumed(freed)
	v.VCPUsUsed, v.FreeRAMMB, v.FreeDiskMB = v.VCPUsUsed-back.VCPUs, v.FreeRAMMB+back.RAMMB, v.FreeDiskMB+back.DiskMB
	v.NumInstances, v.NumIOOps = v.NumInstances-1, v.NumIOOps-1
	e := f.table.Edit()
	e.SetUsage(host, used, v)
	e.RemoveConsumer(mustID(c.GetConsumerUuid()))
	f.set(e.Table())
	// The table knows a consumer once; where it holds two claims, the other one's
	// membership is written again.
	for _, o := range f.liveOf(func(o *cellgatev1.Claim) bool {
		return o.GetConsumerUuid() == c.GetConsumerUuid() && o.GetClaimId() != c.GetClaimId()
	}) {
		f.member(o)
	}
}

// member notes where a claim's consumer is.
func (f *fakeCell) member(c *cellgatev1.Claim) {
	e := f.table.Edit()
	m := schedule.Consumer{Instance: mustID(c.GetConsumerUuid())}
	if c.GetGroupUuid() != "" {
		m.Group = mustID(c.GetGroupUuid())
	}
	e.PutConsumer(mustID(c.GetHostUuid()), m)
	f.set(e.Table())
}

func requestFor(c *cellgatev1.Claim, amounts []schedule.Amount) *schedule.Request {
	r := &schedule.Request{Resources: amounts, Consume: consumed(amounts)}
	if c.GetGroupUuid() != "" {
		r.Group = &schedule.Group{UUID: mustID(c.GetGroupUuid())}
	}
	return r
}

// change notes that a claim's row is written.
func (c *fakeClaim) change() {
	c.claim.UpdatedAt = timestamppb.New(c.claim.GetUpdatedAt().AsTime().Add(time.Microsecond))
}

// take takes what a claim asks for; it refuses what does not fit.
func (f *fakeCell) take(c *cellgatev1.Claim, allocations []*cellgatev1.Allocation, host string) *cellv1.ClaimOutcome {
	h, ok := f.table.Host(mustID(host))
	if !ok {
		return refuse(fault.NotFound, "no such host")
	}
	var amounts []schedule.Amount
	children := childUsage(&h)
	for _, a := range allocations {
		if a.GetProviderUuid() != host {
			x := schedule.ProviderAmount{Provider: mustID(a.GetProviderUuid()), Class: a.GetResourceClass()}
			if _, ok := children[x]; !ok {
				return refuse(fault.NoValidHost, "does not fit")
			}
			children[x] += int64(a.GetAmount())
			continue
		}
		i := slices.IndexFunc(h.Resources, func(r schedule.Resource) bool { return r.Class == a.GetResourceClass() })
		amount := int64(a.GetAmount())
		if i < 0 || h.Resources[i].Used+amount > h.Resources[i].Capacity {
			out := refuse(fault.NoValidHost, "does not fit")
			out.Refusal.Filter, out.Refusal.Detail = schedule.ResourceFilter, a.GetResourceClass()
			return out
		}
		amounts = append(amounts, schedule.Amount{Class: a.GetResourceClass(), N: amount})
	}
	e := f.table.Edit()
	e.Take(schedule.Take{Host: h.UUID, Instance: mustID(c.GetConsumerUuid())}, requestFor(c, amounts))
	var used []schedule.ProviderAmount
	for x, n := range children {
		x.N = n
		used = append(used, x)
	}
	e.SetChildUsage(h.UUID, used)
	f.set(e.Table())
	c.HostUuid, c.ServiceHost, c.Allocations = host, h.ServiceHost, allocations
	return nil
}

func (f *fakeCell) confirm(ref *cellv1.ClaimRef) *cellv1.ClaimOutcome {
	c := f.claims[ref.GetClaimId()]
	switch {
	case c == nil || c.claim.GetConsumerUuid() != ref.GetConsumerUuid():
		return refuse(fault.NotFound, "no such claim")
	case c.claim.GetState() == cellgatev1.ClaimState_EXPIRED:
		if have := f.liveOf(func(o *cellgatev1.Claim) bool {
			return o.GetConsumerUuid() == ref.GetConsumerUuid() && o.GetClaimId() != c.claim.GetMovesClaimId()
		}); len(have) > 0 {
			return refuse(fault.ClaimExpired, "its consumer has another claim")
		}
		if out := f.take(c.claim, c.claim.GetAllocations(), c.claim.GetHostUuid()); out != nil {
			return refuse(fault.ClaimExpired, out.GetRefusal().GetMessage())
		}
		c.claim.State = cellgatev1.ClaimState_PENDING
		c.claim.ExpiresAt = timestamppb.New(time.Now().Add(30 * time.Second))
		c.retaken = true
		if ref.GetRetake() {
			return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
		}
	case !isLive(c.claim):
		out := refuse(fault.ClaimExpired, "the claim has ended")
		out.Claim = proto.CloneOf(c.claim)
		return out
	case c.retaken && c.claim.GetState() == cellgatev1.ClaimState_PENDING && ref.GetLease() != nil && !proto.Equal(ref.GetLease(), c.claim.GetExpiresAt()):
		return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
	}
	c.claim.State, c.claim.ExpiresAt = cellgatev1.ClaimState_CONFIRMED, nil
	if from := f.claims[c.claim.GetMovesClaimId()]; from != nil && c.origin.GetMovesCell() == f.name &&
		isLive(from.claim) && from.claim.GetConsumerUuid() == ref.GetConsumerUuid() {
		from.claim.State = cellgatev1.ClaimState_RELEASED
		f.give(from.claim)
	}
	return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
}

func (f *fakeCell) keep(ref *cellv1.ClaimRef) *cellv1.ClaimOutcome {
	c := f.claims[ref.GetClaimId()]
	switch {
	case c == nil || c.claim.GetConsumerUuid() != ref.GetConsumerUuid():
		return refuse(fault.NotFound, "no such claim")
	case !isLive(c.claim):
		return refuse(fault.ClaimExpired, "the claim has ended")
	}
	c.origin = proto.CloneOf(c.origin)
	c.origin.Attempt = ref.GetAttempt()
	return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
}

func (f *fakeCell) swap(s *cellv1.SwapClaim) *cellv1.ClaimOutcome {
	c := f.claims[s.GetClaimId()]
	switch {
	case c == nil || c.claim.GetConsumerUuid() != s.GetConsumerUuid():
		return refuse(fault.NotFound, "no such claim")
	case c.claim.GetState() == cellgatev1.ClaimState_RELEASED:
		return refuse(fault.ClaimExpired, "the claim was released")
	case c.claim.GetHostUuid() == s.GetHostUuid():
		return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
	case c.claim.GetState() == cellgatev1.ClaimState_CONFIRMED:
		return refuse(fault.AlreadyExists, "the claim is confirmed")
	}
	old := proto.CloneOf(c.claim)
	if out := f.take(c.claim, s.GetAllocations(), s.GetHostUuid()); out != nil {
		return out
	}
	if isLive(old) {
		old.ClaimId = ""
		f.give(old)
	}
	c.claim.State = cellgatev1.ClaimState_PENDING
	c.claim.ExpiresAt = timestamppb.New(time.Now().Add(s.GetTtl().AsDuration()))
	c.retaken = true
	c.origin = proto.CloneOf(c.origin)
	c.origin.Answer = s.GetAnswer()
	return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
}

func (f *fakeCell) transfer(t *cellv1.TransferClaim) *cellv1.ClaimOutcome {
	c := f.claims[t.GetClaimId()]
	switch {
	case c != nil && c.claim.GetConsumerUuid() == t.GetToConsumer():
		return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
	case c == nil || c.claim.GetConsumerUuid() != t.GetConsumerUuid():
		return refuse(fault.NotFound, "no such claim")
	case !isLive(c.claim):
		return refuse(fault.ClaimExpired, "the claim has ended")
	}
	if have := f.liveOf(func(c *cellgatev1.Claim) bool { return c.GetConsumerUuid() == t.GetToConsumer() }); len(have) > 0 {
		out := refuse(fault.AlreadyExists, "the consumer has a claim")
		out.Claim = have[0]
		return out
	}
	if c.claim.TransferredFrom == t.GetToConsumer() {
		c.claim.TransferredFrom = ""
	} else {
		c.claim.TransferredFrom = c.claim.GetConsumerUuid()
	}
	c.claim.ConsumerUuid = t.GetToConsumer()
	c.change()
	return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim), ClaimOrigin: c.origin}
}

// childUsage is what is used of each class that a host's children have.
func childUsage(h *schedule.Host) map[schedule.ProviderAmount]int64 {
	used := map[schedule.ProviderAmount]int64{}
	for _, c := range h.Children {
		for _, r := range c.Resources {
			used[schedule.ProviderAmount{Provider: c.UUID, Class: r.Class}] = r.Used
		}
	}
	return used
}
