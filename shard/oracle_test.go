package shard

import (
	"fmt"
	"slices"
	"time"

	"cellgate/internal/fault"
)

// oracle is the rules of claims done the naive way: no usage rows and no
// indexes, everything counted anew over all claims each time.
type oracle struct {
	hosts  map[string]Host
	claims []*Claim
	pins   map[string]*Pin
}

// answer is what of an outcome does not depend on how it is worded.
type answer struct {
	kind           fault.Kind
	filter, detail string
	claim          string
	state          ClaimState
	pinned         string
	adopted        int
	conflicts      int
	over           int
}

func answerOf(o Outcome) answer {
	a := answer{pinned: o.PinnedTo, adopted: o.Adopted, conflicts: o.Conflicts, over: o.Overcommitted}
	if o.Refusal != nil {
		a.kind, a.filter, a.detail = o.Refusal.Kind, o.Refusal.Filter, o.Refusal.Detail
	}
	if o.Claim != nil {
		a.claim, a.state = o.Claim.ClaimID, o.Claim.State
	}
	return a
}

func (o *oracle) find(id string) *Claim {
	for _, c := range o.claims {
		if c.ClaimID == id {
			return c
		}
	}
	return nil
}

func (o *oracle) live(consumer string) *Claim {
	for _, c := range o.claims {
		if c.ConsumerUUID == consumer && c.State.Live() {
			return c
		}
	}
	return nil
}

func (o *oracle) inUse(host, provider, class string) int64 {
	var n int64
	for _, c := range o.claims {
		for _, a := range c.Allocations {
			if c.State.Live() && c.HostUUID == host && a.ProviderUUID == provider && a.ResourceClass == class {
				n += a.Amount
			}
		}
	}
	return n
}

func of(c *Claim) answer { return answer{claim: c.ClaimID, state: c.State} }

func (o *oracle) step(now time.Time, op Op) answer {
	switch {
	case op.Claim != nil:
		return o.claim(now, op.Claim)
	case op.Confirm != nil:
		c := o.find(op.Confirm.ClaimID)
		if c == nil || c.ConsumerUUID != op.Confirm.ConsumerUUID {
			return answer{kind: fault.NotFound}
		}
		if c.State == Released || c.State == Expired && (o.live(c.ConsumerUUID) != nil || o.refuses(c) != nil || c.Group != nil && c.Group.Policy == "affinity") {
			a := of(c)
			a.kind = fault.ClaimExpired
			return a
		}
		c.State = Confirmed
		return of(c)
	case op.Release != nil:
		c := o.find(op.Release.ClaimID)
		if c == nil {
			c = &Claim{ClaimID: op.Release.ClaimID, ConsumerUUID: op.Release.ConsumerUUID}
			o.claims = append(o.claims, c)
		}
		if c.ConsumerUUID != op.Release.ConsumerUUID {
			return answer{kind: fault.InvalidRequest}
		}
		if op.Release.PendingOnly && c.State == Confirmed {
			a := of(c)
			a.kind = fault.AlreadyExists
			return a
		}
		c.State = Released
		return of(c)
	case op.Expire != nil:
		c := o.find(op.Expire.ClaimID)
		if c == nil || c.ConsumerUUID != op.Expire.ConsumerUUID {
			return answer{}
		}
		if c.State == Pending && !c.ExpiresAt.After(now) {
			c.State = Expired
		}
		return of(c)
	case op.Pin != nil:
		p := o.pins[op.Pin.GroupUUID]
		if p == nil {
			p = &Pin{}
			o.pins[op.Pin.GroupUUID] = p
		}
		held := false
		for _, h := range p.Holders {
			held = held || h.ExpiresAt.After(now)
		}
		if held && p.ServiceHost != op.Pin.ServiceHost {
			return answer{kind: fault.Contended, pinned: p.ServiceHost}
		}
		if !held {
			p.Holders = nil
		}
		p.ServiceHost = op.Pin.ServiceHost
		p.Holders = append(p.Holders, Holder{op.Pin.ClaimID, now.Add(op.Pin.TTL)})
		return answer{pinned: p.ServiceHost}
	case op.Unpin != nil:
		if p := o.pins[op.Unpin.GroupUUID]; p != nil {
			p.Holders = slices.DeleteFunc(p.Holders, func(h Holder) bool { return h.ClaimID == op.Unpin.ClaimID })
		}
		return answer{}
	default:
		return o.putHost(op.PutHost)
	}
}

func (o *oracle) claim(now time.Time, n *NewClaim) answer {
	if c := o.find(n.ClaimID); c != nil {
		switch {
		case c.ConsumerUUID != n.ConsumerUUID, c.State.Live() && c.HostUUID != n.HostUUID:
			return answer{kind: fault.InvalidRequest}
		case !c.State.Live():
			a := of(c)
			a.kind = fault.ClaimExpired
			return a
		}
		return of(c)
	}
	if c := o.live(n.ConsumerUUID); c != nil {
		a := of(c)
		a.kind = fault.AlreadyExists
		return a
	}
	h, ok := o.hosts[n.HostUUID]
	if !ok {
		return answer{kind: fault.NotFound}
	}
	if h.Disabled {
		return answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: "disabled"}
	}
	c := &Claim{
		ClaimID: n.ClaimID, ConsumerUUID: n.ConsumerUUID, HostUUID: n.HostUUID, State: Pending,
		Allocations: n.Allocations, Group: n.Group, ExpiresAt: now.Add(n.TTL),
	}
	if r := o.refuses(c); r != nil {
		return *r
	}
	o.claims = append(o.claims, c)
	return of(c)
}

// refuses says why a host does not take a claim.
func (o *oracle) refuses(c *Claim) *answer {
	h := o.hosts[c.HostUUID]
	for _, a := range c.Allocations {
		fits := false
		for _, p := range h.Providers {
			for _, i := range p.Inventories {
				fits = fits || p.UUID == a.ProviderUUID && i.ResourceClass == a.ResourceClass &&
					a.Amount >= i.MinUnit && a.Amount <= i.MaxUnit && a.Amount%i.StepSize == 0 &&
					float64(o.inUse(h.UUID, p.UUID, i.ResourceClass)+a.Amount) <= float64(i.Total-i.Reserved)*i.AllocationRatio
			}
		}
		if !fits {
			return &answer{kind: fault.NoValidHost, filter: "ResourceFilter", detail: a.ResourceClass}
		}
	}
	if c.Group == nil {
		return nil
	}
	here := 0
	for _, m := range o.claims {
		if !m.State.Live() || m == c {
			continue
		}
		if (m.Group == nil || m.Group.UUID != c.Group.UUID) && !slices.Contains(c.Group.Members, m.ConsumerUUID) {
			continue
		}
		if c.Group.Policy == "affinity" && o.hosts[m.HostUUID].ServiceHost != h.ServiceHost {
			return &answer{kind: fault.NoValidHost, filter: "ServerGroupAffinityFilter"}
		}
		if m.HostUUID == c.HostUUID {
			here++
		}
	}
	if c.Group.Policy == "anti-affinity" && here >= max(1, int(c.Group.MaxPerHost)) {
		return &answer{kind: fault.NoValidHost, filter: "ServerGroupAntiAffinityFilter"}
	}
	return nil
}

func (o *oracle) putHost(p *PutHost) answer {
	var a answer
	old, known := o.hosts[p.Host.UUID]
	if !known || old.BootID != p.Host.BootID || old.StateVersion < p.Host.StateVersion {
		o.hosts[p.Host.UUID] = p.Host
		for _, c := range o.claims {
			if c.Adopted && c.State.Live() && c.HostUUID == p.Host.UUID &&
				!slices.ContainsFunc(p.Instances, func(i Instance) bool { return i.UUID == c.ConsumerUUID }) {
				c.State = Released
			}
		}
		for _, i := range p.Instances {
			switch c := o.live(i.UUID); {
			case c == nil:
				a.adopted++
				o.claims = append(o.claims, &Claim{
					ClaimID: fmt.Sprintf("adopted %d", len(o.claims)), ConsumerUUID: i.UUID, State: Confirmed,
					HostUUID: p.Host.UUID, Allocations: i.Allocations, Adopted: true,
				})
			case c.HostUUID != p.Host.UUID:
				a.conflicts++
			case c.Adopted:
				c.Allocations = i.Allocations
			default:
				c.State = Confirmed
			}
		}
	}
	a.over = len(o.over(p.Host.UUID))
	return a
}

// over lists what of a host is used beyond capacity.
func (o *oracle) over(host string) map[Used]bool {
	h := o.hosts[host]
	over := map[Used]bool{}
	for _, c := range o.claims {
		for _, a := range c.Allocations {
			if !c.State.Live() || c.HostUUID != host {
				continue
			}
			capacity := 0.0
			for _, p := range h.Providers {
				for _, i := range p.Inventories {
					if p.UUID == a.ProviderUUID && i.ResourceClass == a.ResourceClass {
						capacity = float64(i.Total-i.Reserved) * i.AllocationRatio
					}
				}
			}
			if float64(o.inUse(host, a.ProviderUUID, a.ResourceClass)) > capacity {
				over[Used{ProviderUUID: a.ProviderUUID, ResourceClass: a.ResourceClass}] = true
			}
		}
	}
	return over
}
