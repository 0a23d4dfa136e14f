package shard

import (
	"reflect"
	"slices"
	"time"

	"cellgate/internal/fault"
)

// oracle implements the rules of claims the naive way. It has no usage rows and no indexes: it
// counts over all claims each time.
type oracle struct {
	hosts  map[string]Host
	claims []*Claim
	pins   map[string]*Pin
	// renewed are the claims whose lease was set again since they were made.
	renewed map[string]bool
	// admin has the operators' states of hosts, ends when such a state ends (zero: never).
	admin map[string]ConditionState
	// reported are hosts as they were put; ratios are the allocation ratios of their last import, pools the devices that
	// it has of a host whose agent does not know its instances.
	reported map[string]Host
	ratios   map[string]map[string]float64
	pools    map[string]string
	// versions are those of the imports that last changed ratios or pools of agents' hosts.
	versions map[string]uint64
	// nova has the states of the hosts' services; novaAt is when each was read.
	nova   map[string]ConditionState
	novaAt map[string]time.Time
	// silent are the hosts whose agents are silent.
	silent map[string]bool
	ends   map[string]time.Time
	// because are the hosts for which an operator gave a reason. writes counts the writes of admin
	// states; asOf is that count at the generation that operations name.
	because      map[string]bool
	writes, asOf map[string]int
	// ended counts the maintenances that EndMaintenance ended.
	ended int
	// The gate; revision 0: there is none.
	gate            GateState
	reason          string
	epoch, revision int64
}

func newOracle() *oracle {
	return &oracle{
		hosts: map[string]Host{}, pins: map[string]*Pin{}, renewed: map[string]bool{},
		reported: map[string]Host{}, ratios: map[string]map[string]float64{}, pools: map[string]string{}, versions: map[string]uint64{}, admin: map[string]ConditionState{}, nova: map[string]ConditionState{}, novaAt: map[string]time.Time{}, silent: map[string]bool{}, ends: map[string]time.Time{},
		because: map[string]bool{}, writes: map[string]int{}, asOf: map[string]int{},
	}
}

// answer has the parts of an outcome that are not message text.
type answer struct {
	kind             fault.Kind
	filter, detail   string
	claim            string
	state            ClaimState
	pinned           string
	adopted          int
	conflicts        int
	over             int
	confirmed        int
	released         int
	left, same       bool
	taken            bool
	held, followed   bool
	outdated         bool
	otherIncarnation string
	kept             int
	// The gate, after an operation that moves it.
	gate            GateState
	epoch, revision int64
	// Fields of the claim.
	consumer, host, moves, from, attempt string
	// The newest verdict of the claim's host.
	verdict, why string
	// Rejections by hosts that the claim was on before.
	rejections string
	// What an operator set for the host.
	admin ConditionState
	until time.Time
	nova  ConditionState
	// silent: the host's agent is.
	silent bool
	// reason is why a write of the Placement API was refused.
	reason PlacementReason
}

func answerOf(o Outcome) answer {
	a := answer{pinned: o.PinnedTo, adopted: o.Adopted, conflicts: o.ClaimedElsewhere, over: o.Overcommitted, confirmed: o.Confirmed, released: o.Released, left: o.OwnedByAgent, taken: o.InstancesTaken, same: o.Unchanged, held: o.Held, followed: o.Followed, outdated: o.Outdated, otherIncarnation: o.CurrentBootID, kept: o.NewerClaimsSkipped}
	if o.AdminState != nil {
		a.admin, a.until, a.nova, a.silent = o.AdminState.State, o.AdminState.Until, o.AdminState.Nova, o.AdminState.Silent
	}
	if o.Gate != nil {
		a.gate, a.epoch, a.revision = o.Gate.State, o.Gate.Epoch, o.Gate.Revision
	}
	if o.Refusal != nil {
		a.kind, a.filter, a.detail = o.Refusal.Kind, o.Refusal.Filter, o.Refusal.Detail
		if o.Refusal.Placement != nil {
			a.reason = o.Refusal.Placement.Reason
		}
	}
	if o.Claim != nil {
		claim := of(o.Claim)
		a.claim, a.state, a.consumer, a.host, a.moves, a.from, a.attempt, a.verdict, a.why, a.rejections = claim.claim, claim.state, claim.consumer, claim.host, claim.moves, claim.from, claim.attempt, claim.verdict, claim.why, claim.rejections
	}
	return a
}

func of(c *Claim) answer {
	a := answer{claim: c.ClaimID, state: c.State, consumer: c.ConsumerUUID, host: c.HostUUID, moves: c.Moves, from: c.TransferredFrom, attempt: c.Attempt}
	if c.Verdict != nil {
		a.verdict, a.why = string(c.Verdict.Outcome), c.Verdict.Reason
	}
	for _, r := range c.Rejections {
		a.rejections += r.HostUUID + " " + r.Verdict.Reason + "; "
	}
	return a
}

func no(kind fault.Kind, c *Claim) answer {
	a := of(c)
	a.kind = kind
	return a
}

// step runs an operation, and sets UpdatedAt in the claims that it wrote.
func (o *oracle) step(now time.Time, op Op) answer {
	before := map[*Claim]Claim{}
	for _, c := range o.claims {
		before[c] = *c
	}
	a := o.decide(now, op)
	o.giveBack()
	for _, c := range o.claims {
		if was := before[c]; !reflect.DeepEqual(was, *c) {
			c.UpdatedAt = now
			if !now.After(was.UpdatedAt) {
				c.UpdatedAt = was.UpdatedAt.Add(time.Microsecond)
			}
			// If the report also changes the claim's compute service, that is a write of its own.
			if op.PutHost != nil && was.State.Live() && was.ServiceHost != c.ServiceHost {
				was.ServiceHost, was.UpdatedAt = c.ServiceHost, c.UpdatedAt
				if !reflect.DeepEqual(was, *c) {
					c.UpdatedAt = c.UpdatedAt.Add(time.Microsecond)
				}
			}
		}
	}
	return a
}

// decide is step without the times of claims.
func (o *oracle) decide(now time.Time, op Op) answer {
	switch {
	case op.SetAdminState != nil:
		p := op.SetAdminState
		until := p.Until
		if p.For > 0 {
			until = now.Add(p.For)
		}
		return o.counted(p.HostUUID, p.AsOf > 0, func() answer { return o.operate(now, p.HostUUID, p.State, until, p.EndsNova, p.AsOf > 0) })
	case op.EndMaintenance != nil:
		host := op.EndMaintenance.HostUUID
		return o.counted(host, false, func() answer {
			if end := o.ends[host]; !end.IsZero() && !now.Before(end) {
				o.admin[host], o.ends[host] = ConditionEnabled, time.Time{}
				o.ended++
			}
			return o.adminStateOf(host)
		})
	case op.SetNovaState != nil:
		p := op.SetNovaState
		return o.counted(p.HostUUID, false, func() answer { return o.serve(now, p) })
	case op.SetSilent != nil:
		p := op.SetSilent
		return o.counted(p.HostUUID, false, func() answer { return o.hush(p.HostUUID, p.Silent) })
	case op.WritePlacement != nil:
		return o.writePlacement(op.WritePlacement)
	case op.Claim != nil:
		return o.claim(now, op.Claim)
	case op.Confirm != nil:
		return o.confirmAs(now, op.Confirm)
	case op.MoveGate != nil:
		m := op.MoveGate
		if m.Revision == o.revision {
			if m.State != o.gate || m.Reason != o.reason {
				o.revision++
			}
			o.reason = m.Reason
			if m.State != o.gate {
				o.gate, o.epoch = m.State, o.epoch+1
			}
			return answer{gate: o.gate, epoch: o.epoch, revision: o.revision}
		}
		return answer{kind: fault.StaleGeneration, gate: o.gate, epoch: o.epoch, revision: o.revision}
	case op.RecordVerdict != nil:
		return o.judge(op.RecordVerdict)
	case op.Swap != nil:
		return o.swap(now, op.Swap)
	case op.Transfer != nil:
		return o.transfer(op.Transfer)
	case op.Release != nil:
		return o.release(op.Release)
	case op.TakeOver != nil:
		c := o.find(op.TakeOver.ClaimID)
		switch {
		case c == nil || c.ConsumerUUID != op.TakeOver.ConsumerUUID:
			return answer{kind: fault.NotFound}
		case !c.State.Live():
			return no(fault.ClaimExpired, c)
		}
		c.Attempt = op.TakeOver.Attempt
		return of(c)
	case op.Expire != nil:
		c := o.find(op.Expire.ClaimID)
		if c == nil || c.ConsumerUUID != op.Expire.ConsumerUUID {
			return answer{}
		}
		switch {
		case c.State != Pending || c.ExpiresAt.After(now):
		case (c.ForMigration || o.byNova(c.ConsumerUUID)) && (c.Verdict == nil || c.Verdict.Outcome == "OK") && !has(o.live(c.ConsumerUUID), c.Moves):
			await(c, true)
			o.confirm(c)
		default:
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
