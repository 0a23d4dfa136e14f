package shard

import (
	"reflect"
	"time"

	"cellgate/internal/fault"
)

// refusedByHost is the answer of an operation on a claim that its host rejected; nil: the host did
// not reject it.
func refusedByHost(c *Claim) *answer {
	if c.State != Rejected && (c.Verdict == nil || c.Verdict.Outcome == "OK" || c.State != Pending && c.State != Expired) {
		return nil
	}
	a := no(fault.ClaimRejected, c)
	a.filter, a.detail = "HostVerdict", c.Verdict.Reason
	return &a
}

func (o *oracle) judge(j *RecordVerdict) answer {
	c := o.find(j.ClaimID)
	if c == nil {
		return answer{}
	}
	aborts := j.Verdict.Reason == "ABORTED"
	if h := o.hosts[c.HostUUID]; aborts && c.State == Confirmed && c.HostUUID == j.HostUUID && !c.Seen && c.TransferredFrom == "" && c.Moves == "" && !h.Imported && !h.InstancesUnknown && h.BootID == j.Verdict.BootID {
		verdict := j.Verdict
		c.Verdict, c.State = &verdict, Rejected
		return of(c)
	}
	if c.State == Pending && c.Verdict != nil && c.Verdict.Reason == "ABORTED" {
		return of(c)
	}
	if c.State == Pending && c.HostUUID == j.HostUUID && (c.Verdict == nil || c.Verdict.BootID != j.Verdict.BootID || c.Verdict.Version <= j.Verdict.Version) {
		if v := c.Verdict; v == nil || j.End || v.BootID != j.Verdict.BootID || v.Outcome != j.Verdict.Outcome || v.Reason != j.Verdict.Reason {
			verdict := j.Verdict
			c.Verdict = &verdict
			if aborts && !j.End {
				c.Allocations = nil
			}
		}
		if j.End {
			c.State = Rejected
		}
	}
	return of(c)
}

func (o *oracle) claim(now time.Time, n *NewClaim) answer {
	if c := o.find(n.ClaimID); c != nil {
		switch {
		case c.ConsumerUUID != n.ConsumerUUID,
			c.State.Live() && (c.HostUUID != n.HostUUID || c.Moves != n.Moves || !reflect.DeepEqual(c.Group, n.Group) || !reflect.DeepEqual(c.Allocations, n.Allocations)):
			return answer{kind: fault.InvalidRequest}
		case c.State == Rejected:
			return *refusedByHost(c)
		case !c.State.Live():
			a := of(c)
			a.kind = fault.ClaimExpired
			return a
		}
		return of(c)
	}
	if c := o.beside(n.ConsumerUUID, n.Moves); c != nil {
		return no(fault.AlreadyExists, c)
	}
	h, ok := o.hosts[n.HostUUID]
	if !ok {
		return answer{kind: fault.NotFound}
	}
	if h.ServiceHost == "" {
		return answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: "no compute service"}
	}
	if h.Disabled {
		return answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: "disabled"}
	}
	if a := o.keepsAway(now, n.HostUUID); a != nil {
		return *a
	}
	c := &Claim{
		ClaimID: n.ClaimID, ConsumerUUID: n.ConsumerUUID, HostUUID: n.HostUUID, ServiceHost: h.ServiceHost, State: Pending,
		Allocations: n.Allocations, Group: n.Group, TTL: n.TTL, ExpiresAt: now.Add(n.TTL), CreatedAt: now, Moves: n.Moves, Attempt: n.Attempt, Guest: n.Guest,
		ForMigration: o.byNova(n.ConsumerUUID),
	}
	if r := o.refuses(c); r != nil {
		return *r
	}
	c.ConsumerGeneration = o.generation(n.ConsumerUUID) + 1
	o.claims = append(o.claims, c)
	return of(c)
}

// confirmAs confirms the claim that ref names.
func (o *oracle) confirmAs(now time.Time, ref *ClaimRef) answer {
	c := o.find(ref.ClaimID)
	if c == nil || c.ConsumerUUID != ref.ConsumerUUID {
		return answer{kind: fault.NotFound}
	}
	if a := refusedByHost(c); a != nil {
		return *a
	}
	if c.State == Released || c.State == Expired && (o.beside(c.ConsumerUUID, c.Moves) != nil || o.refuses(c) != nil || c.Group != nil && c.Group.Policy == "affinity") {
		a := of(c)
		a.kind = fault.ClaimExpired
		return a
	}
	if c.State == Expired {
		c.ConsumerGeneration = o.generation(c.ConsumerUUID) + 1
	}
	if c.State == Expired && ref.Reinstate {
		c.State, c.ExpiresAt = Pending, now.Add(min(ReinstateTTL, c.TTL))
		o.renewed[c.ClaimID] = true
		return of(c)
	}
	if l := ref.Lease; c.State == Pending && l != nil && o.renewed[c.ClaimID] && !l.Equal(c.ExpiresAt) {
		return of(c)
	}
	if c.State != Confirmed {
		await(c, true)
	}
	o.confirm(c)
	return of(c)
}

func (o *oracle) release(ref *ClaimRef) answer {
	c := o.find(ref.ClaimID)
	if c == nil {
		c = &Claim{ClaimID: ref.ClaimID, ConsumerUUID: ref.ConsumerUUID}
		o.claims = append(o.claims, c)
	}
	if c.ConsumerUUID != ref.ConsumerUUID {
		return answer{kind: fault.InvalidRequest}
	}
	if c.State == Rejected {
		return of(c)
	}
	if at := ref.Unchanged; at != nil && c.State != Released && c.State != "" && !at.Equal(c.UpdatedAt) {
		return no(fault.StaleGeneration, c)
	}
	guarded := ref.PendingOnly || ref.Attempt != ""
	if guarded && c.State == Confirmed || c.State != Released && c.State != "" && ref.Attempt != "" && ref.Attempt != c.Attempt {
		return no(fault.AlreadyExists, c)
	}
	c.State = Released
	return of(c)
}

func (o *oracle) swap(now time.Time, s *Swap) answer {
	c := o.find(s.ClaimID)
	switch {
	case c == nil || c.ConsumerUUID != s.ConsumerUUID:
		return answer{kind: fault.NotFound}
	case c.State == Released, c.State == Rejected:
		return no(fault.ClaimExpired, c)
	case c.State.Live() && c.HostUUID == s.HostUUID:
		return of(c)
	case c.State == Confirmed:
		return no(fault.AlreadyExists, c)
	}
	if c.State == Expired {
		cs := o.onComputes(c.ConsumerUUID)
		if len(cs) > 1 || len(cs) == 1 && cs[0].ClaimID != c.Moves && cs[0].Moves != c.ClaimID {
			return no(fault.AlreadyExists, cs[0])
		}
		if c.Group != nil && c.Group.Policy == "affinity" {
			return no(fault.ClaimExpired, c)
		}
	}
	h, ok := o.hosts[s.HostUUID]
	if !ok {
		return answer{kind: fault.NotFound}
	}
	if h.ServiceHost == "" {
		return answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: "no compute service"}
	}
	if h.Disabled {
		return answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: "disabled"}
	}
	if a := o.keepsAway(now, s.HostUUID); a != nil {
		return *a
	}
	n := *c
	n.HostUUID, n.Allocations = s.HostUUID, s.Allocations
	if r := o.refuses(&n); r != nil {
		return *r
	}
	c.Guest = n.Guest
	if c.Verdict != nil && c.Verdict.Outcome == "REJECTED" {
		if len(c.Rejections) == 8 {
			c.Rejections = c.Rejections[1:]
		}
		c.Rejections = append(c.Rejections, Rejection{HostUUID: c.HostUUID, Verdict: *c.Verdict})
	}
	c.Verdict = nil
	c.ConsumerGeneration = o.generation(c.ConsumerUUID) + 1
	c.HostUUID, c.ServiceHost, c.Allocations, c.State, c.TTL, c.ExpiresAt = s.HostUUID, h.ServiceHost, s.Allocations, Pending, s.TTL, now.Add(s.TTL)
	if now.After(c.CreatedAt) {
		o.renewed[c.ClaimID] = true
	}
	return of(c)
}

func (o *oracle) transfer(f *Transfer) answer {
	c := o.find(f.ClaimID)
	switch {
	case c == nil || c.ConsumerUUID != f.ConsumerUUID && c.ConsumerUUID != f.ToConsumer:
		return answer{kind: fault.NotFound}
	case !c.State.Live():
		return no(fault.ClaimExpired, c)
	case c.ConsumerUUID == f.ToConsumer:
		return of(c)
	}
	if cs := o.onComputes(f.ToConsumer); len(cs) > 0 {
		return no(fault.AlreadyExists, cs[0])
	}
	first := instanceOf(c)
	c.ConsumerGeneration = o.generation(f.ToConsumer) + 1
	c.ConsumerUUID, c.TransferredFrom = f.ToConsumer, ""
	if first != f.ToConsumer {
		c.TransferredFrom = first
	}
	return of(c)
}
