package shard

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"cellgate/internal/fault"
)

// oracle is the rules of claims done the naive way: no usage rows and no
// indexes, everything counted anew over all claims each time.
type oracle struct {
	hosts  map[string]Host
	claims []*Claim
	pins   map[string]*Pin
	// renewed are the claims that have had another lease since they were made.
	renewed map[string]bool
	// words of operators, and when those end that do.
	words map[string]Admin
	// nova is what services say, novaAt of which reading.
	nova   map[string]NovaState
	novaAt map[string]time.Time
	// silent are the hosts whose agents are.
	silent map[string]bool
	ends   map[string]time.Time
	// ended counts maintenances whose end was written.
	ended int
	// The gate; revision 0 for none.
	gate            GateState
	reason          string
	epoch, revision int64
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
	confirmed      int
	released       int
	left, same     bool
	taken          bool
	retaken        bool
	// The gate, after an operation that moves it.
	gate            GateState
	epoch, revision int64
	// Of the claim.
	consumer, host, moves, from, attempt string
	// What its host said last.
	word, why string
	// Of the hosts that it left.
	rejections string
	// What an operator said of the host.
	admin Admin
	until time.Time
	nova  NovaState
	// silent: of its agent.
	silent bool
}

func answerOf(o Outcome) answer {
	a := answer{pinned: o.PinnedTo, adopted: o.Adopted, conflicts: o.Conflicts, over: o.Overcommitted, confirmed: o.Confirmed, released: o.Released, left: o.LeftToAgent, taken: o.InstancesTaken, same: o.Unchanged, retaken: o.Retaken}
	if o.AdminState != nil {
		a.admin, a.until, a.nova, a.silent = o.AdminState.State, o.AdminState.Until, o.AdminState.Nova, o.AdminState.Silent
	}
	if o.Gate != nil {
		a.gate, a.epoch, a.revision = o.Gate.State, o.Gate.Epoch, o.Gate.Revision
	}
	if o.Refusal != nil {
		a.kind, a.filter, a.detail = o.Refusal.Kind, o.Refusal.Filter, o.Refusal.Detail
	}
	if o.Claim != nil {
		claim := of(o.Claim)
		a.claim, a.state, a.consumer, a.host, a.moves, a.from, a.attempt, a.word, a.why, a.rejections = claim.claim, claim.state, claim.consumer, claim.host, claim.moves, claim.from, claim.attempt, claim.word, claim.why, claim.rejections
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

// live lists a consumer's live claims, the one that another moves first, else by
// id.
func (o *oracle) live(consumer string) []*Claim {
	var cs []*Claim
	for _, c := range o.claims {
		if c.ConsumerUUID == consumer && c.State.Live() {
			cs = append(cs, c)
		}
	}
	slices.SortFunc(cs, func(a, b *Claim) int { return strings.Compare(a.ClaimID, b.ClaimID) })
	if len(cs) == 2 && cs[0].Moves == cs[1].ClaimID && cs[1].Moves != cs[0].ClaimID {
		slices.Reverse(cs)
	}
	return cs
}

// forInstance lists the live claims whose resources are an instance's.
func (o *oracle) forInstance(instance string) []*Claim {
	var cs []*Claim
	for _, c := range o.claims {
		if c.State.Live() && instanceOf(c) == instance {
			cs = append(cs, c)
		}
	}
	return cs
}

func instanceOf(c *Claim) string {
	if c.TransferredFrom == "" {
		return c.ConsumerUUID
	}
	return c.TransferredFrom
}

// unlike gives the first claim with another id than this.
func unlike(cs []*Claim, id string) *Claim {
	for _, c := range cs {
		if c.ClaimID != id {
			return c
		}
	}
	return nil
}

func has(cs []*Claim, id string) bool {
	return slices.ContainsFunc(cs, func(c *Claim) bool { return c.ClaimID == id })
}

// beside gives the claim that keeps a consumer from having one more, that moves
// another.
func (o *oracle) beside(consumer, moves string) *Claim {
	cs := o.live(consumer)
	if has(cs, moves) {
		return unlike(cs, moves)
	}
	return unlike(cs, "")
}

// confirm makes a claim CONFIRMED and ends the one it moves, once.
func (o *oracle) confirm(c *Claim) {
	if c.State == Confirmed {
		return
	}
	c.State = Confirmed
	if m := o.find(c.Moves); m != nil && m.State.Live() && m.ConsumerUUID == c.ConsumerUUID && c.TransferredFrom == "" {
		m.State = Released
	}
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

func of(c *Claim) answer {
	a := answer{claim: c.ClaimID, state: c.State, consumer: c.ConsumerUUID, host: c.HostUUID, moves: c.Moves, from: c.TransferredFrom, attempt: c.Attempt}
	if c.Verdict != nil {
		a.word, a.why = string(c.Verdict.Outcome), c.Verdict.Reason
	}
	for _, r := range c.Rejections {
		a.rejections += r.HostUUID + " " + r.Verdict.Reason + "; "
	}
	return a
}

// refusedByHost answers with a claim that its host rejected; nil for any other.
func refusedByHost(c *Claim) *answer {
	if c.State != Rejected && (c.Verdict == nil || c.Verdict.Outcome == "OK" || c.State != Pending && c.State != Expired) {
		return nil
	}
	a := no(fault.ClaimRejected, c)
	a.filter, a.detail = "HostVerdict", c.Verdict.Reason
	return &a
}

func (o *oracle) judge(j *Judge) answer {
	c := o.find(j.ClaimID)
	if c == nil {
		return answer{}
	}
	aborts := j.Verdict.Reason == "ABORTED"
	if h := o.hosts[c.HostUUID]; aborts && c.State == Confirmed && c.HostUUID == j.HostUUID && !c.Seen && c.TransferredFrom == "" && !h.Imported && !h.InstancesUnknown && h.BootID == j.Verdict.BootID {
		word := j.Verdict
		c.Verdict, c.State = &word, Rejected
		return of(c)
	}
	if c.State == Pending && c.Verdict != nil && c.Verdict.Reason == "ABORTED" {
		return of(c)
	}
	if c.State == Pending && c.HostUUID == j.HostUUID && (c.Verdict == nil || c.Verdict.BootID != j.Verdict.BootID || c.Verdict.Version <= j.Verdict.Version) {
		if v := c.Verdict; v == nil || j.End || v.BootID != j.Verdict.BootID || v.Outcome != j.Verdict.Outcome || v.Reason != j.Verdict.Reason {
			word := j.Verdict
			c.Verdict = &word
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

func no(kind fault.Kind, c *Claim) answer {
	a := of(c)
	a.kind = kind
	return a
}

// operate takes an operator's word, and forgets those that are over.
func (o *oracle) operate(now time.Time, host string, word Admin, until time.Time, ends bool) answer {
	if !until.IsZero() && !until.After(now) {
		return answer{kind: fault.InvalidRequest}
	}
	if _, there := o.hosts[host]; !there {
		return answer{kind: fault.NotFound}
	}
	if word == AdminEnabled && o.words[host] == "" {
		return answer{}
	}
	o.words[host], o.ends[host] = word, until
	if ends {
		o.nova[host], o.novaAt[host] = "", time.Time{}
	}
	return o.wordsOf(host)
}

// serve takes the word of a host's service, unless it is of an older reading.
func (o *oracle) serve(now time.Time, host string, word NovaState, at time.Time) answer {
	if _, there := o.hosts[host]; !there {
		return answer{kind: fault.NotFound}
	}
	if word == "" && o.words[host] == "" {
		return answer{}
	}
	known := o.novaAt[host]
	older := !at.IsZero() && at.Before(known) && known.Sub(now) <= time.Minute
	if o.nova[host] == word || older {
		return o.wordsOf(host)
	}
	o.nova[host], o.novaAt[host] = word, at
	if o.words[host] == "" {
		o.words[host] = AdminEnabled
	}
	return o.wordsOf(host)
}

// hush takes whether a host's agent is silent.
func (o *oracle) hush(host string, silent bool) answer {
	h, there := o.hosts[host]
	switch {
	case !there:
		return answer{kind: fault.NotFound}
	case silent && !h.Imported:
		o.silent[host] = true
	case !silent:
		delete(o.silent, host)
	}
	if o.silent[host] && o.words[host] == "" {
		o.words[host] = AdminEnabled
	}
	return o.wordsOf(host)
}

// wordsOf is what is said of a host.
func (o *oracle) wordsOf(host string) answer {
	return answer{admin: o.words[host], until: o.ends[host], nova: o.nova[host], silent: o.silent[host]}
}

// keepsAway says by what word an operator, or Nova, keeps new claims from a host; nil for none.
func (o *oracle) keepsAway(now time.Time, host string) *answer {
	how := map[Admin]string{
		AdminDisabled: "disabled by operator: why", AdminMaintenance: "in maintenance: why", AdminForcedDown: "forced down by operator: why",
	}[o.words[host]]
	byNova := map[NovaState]string{NovaDisabled: "disabled in Nova: why", NovaForcedDown: "forced down in Nova: why", NovaSilent: "its nova-compute is down"}[o.nova[host]]
	end := o.ends[host]
	over := how == "" || !end.IsZero() && !now.Before(end)
	switch {
	case byNova == "" && over:
		return nil
	case byNova != "" && how != "":
		how += "; " + byNova
	case byNova != "":
		how = byNova
	}
	return &answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: how}
}

func (o *oracle) step(now time.Time, op Op) answer {
	switch {
	case op.SetAdminState != nil:
		p := op.SetAdminState
		until := p.Until
		if p.For > 0 {
			until = now.Add(p.For)
		}
		return o.operate(now, p.HostUUID, p.State, until, p.EndsNova)
	case op.EndMaintenance != nil:
		host := op.EndMaintenance.HostUUID
		if end := o.ends[host]; !end.IsZero() && !now.Before(end) {
			o.words[host], o.ends[host] = AdminEnabled, time.Time{}
			o.ended++
		}
		return o.wordsOf(host)
	case op.SetNovaState != nil:
		return o.serve(now, op.SetNovaState.HostUUID, op.SetNovaState.State, op.SetNovaState.At)
	case op.SetSilent != nil:
		return o.hush(op.SetSilent.HostUUID, op.SetSilent.Silent)
	case op.Claim != nil:
		return o.claim(now, op.Claim)
	case op.Confirm != nil:
		c := o.find(op.Confirm.ClaimID)
		if c == nil || c.ConsumerUUID != op.Confirm.ConsumerUUID {
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
		if c.State == Expired && op.Confirm.Retake {
			c.State, c.ExpiresAt = Pending, now.Add(min(RetakeTTL, c.TTL))
			o.renewed[c.ClaimID] = true
			return of(c)
		}
		if l := op.Confirm.Lease; c.State == Pending && l != nil && o.renewed[c.ClaimID] && !l.Equal(c.ExpiresAt) {
			return of(c)
		}
		o.confirm(c)
		return of(c)
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
	case op.Judge != nil:
		return o.judge(op.Judge)
	case op.Swap != nil:
		return o.swap(now, op.Swap)
	case op.Transfer != nil:
		return o.transfer(op.Transfer)
	case op.Release != nil:
		c := o.find(op.Release.ClaimID)
		if c == nil {
			c = &Claim{ClaimID: op.Release.ClaimID, ConsumerUUID: op.Release.ConsumerUUID}
			o.claims = append(o.claims, c)
		}
		if c.ConsumerUUID != op.Release.ConsumerUUID {
			return answer{kind: fault.InvalidRequest}
		}
		if c.State == Rejected {
			return of(c)
		}
		guarded := op.Release.PendingOnly || op.Release.Attempt != ""
		if guarded && c.State == Confirmed || c.State != Released && c.State != "" && op.Release.Attempt != "" && op.Release.Attempt != c.Attempt {
			return no(fault.AlreadyExists, c)
		}
		c.State = Released
		return of(c)
	case op.Keep != nil:
		c := o.find(op.Keep.ClaimID)
		switch {
		case c == nil || c.ConsumerUUID != op.Keep.ConsumerUUID:
			return answer{kind: fault.NotFound}
		case !c.State.Live():
			return no(fault.ClaimExpired, c)
		}
		c.Attempt = op.Keep.Attempt
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
	if n.GateEpoch != o.epoch {
		return answer{kind: fault.StaleGeneration}
	}
	if c := o.beside(n.ConsumerUUID, n.Moves); c != nil {
		return no(fault.AlreadyExists, c)
	}
	h, ok := o.hosts[n.HostUUID]
	if !ok {
		return answer{kind: fault.NotFound}
	}
	if h.Disabled {
		return answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: "disabled"}
	}
	if a := o.keepsAway(now, n.HostUUID); a != nil {
		return *a
	}
	c := &Claim{
		ClaimID: n.ClaimID, ConsumerUUID: n.ConsumerUUID, HostUUID: n.HostUUID, State: Pending,
		Allocations: n.Allocations, Group: n.Group, TTL: n.TTL, ExpiresAt: now.Add(n.TTL), CreatedAt: now, Moves: n.Moves, Attempt: n.Attempt,
	}
	if r := o.refuses(c); r != nil {
		return *r
	}
	o.claims = append(o.claims, c)
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
		cs := o.live(c.ConsumerUUID)
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
	if c.Verdict != nil && c.Verdict.Outcome == "REJECTED" {
		if len(c.Rejections) == 8 {
			c.Rejections = c.Rejections[1:]
		}
		c.Rejections = append(c.Rejections, Rejection{HostUUID: c.HostUUID, Verdict: *c.Verdict})
	}
	c.Verdict = nil
	c.HostUUID, c.Allocations, c.State, c.TTL, c.ExpiresAt = s.HostUUID, s.Allocations, Pending, s.TTL, now.Add(s.TTL)
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
	if cs := o.live(f.ToConsumer); len(cs) > 0 {
		return no(fault.AlreadyExists, cs[0])
	}
	first := instanceOf(c)
	c.ConsumerUUID, c.TransferredFrom = f.ToConsumer, ""
	if first != f.ToConsumer {
		c.TransferredFrom = first
	}
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
	here := map[string]bool{}
	for _, m := range o.claims {
		if !m.State.Live() || instanceOf(m) == instanceOf(c) {
			continue
		}
		if (m.Group == nil || m.Group.UUID != c.Group.UUID) && !slices.Contains(c.Group.Members, instanceOf(m)) {
			continue
		}
		if c.Group.Policy == "affinity" && o.hosts[m.HostUUID].ServiceHost != h.ServiceHost {
			return &answer{kind: fault.NoValidHost, filter: "ServerGroupAffinityFilter"}
		}
		if m.HostUUID == c.HostUUID {
			here[instanceOf(m)] = true
		}
	}
	for _, own := range o.forInstance(instanceOf(c)) {
		if c.Group.Policy == "anti-affinity" && own.HostUUID == c.HostUUID {
			return nil
		}
	}
	if c.Group.Policy == "anti-affinity" && len(here) >= max(1, int(c.Group.MaxPerHost)) {
		return &answer{kind: fault.NoValidHost, filter: "ServerGroupAntiAffinityFilter"}
	}
	return nil
}

func (o *oracle) putHost(p *PutHost) answer {
	var a answer
	old, known := o.hosts[p.Host.UUID]
	next := p.Host
	if next.Imported {
		next.AgentVersion = old.AgentVersion
	}
	sameLife := known && old.Imported == next.Imported && old.BootID == next.BootID
	content := func(h Host) Host {
		h.BootID, h.StateVersion = "", 0
		return h
	}
	switch {
	case known && next.Imported && !old.Imported && (p.Retake == nil || p.Retake.BootID != old.BootID || p.Retake.StateVersion != old.StateVersion):
		a.left, a.taken = true, old.InstancesUnknown
		if a.taken {
			o.instances(p, &a)
		}
	case sameLife && next.Imported && next.StateVersion < old.StateVersion:
		a.same = true
	case sameLife && !next.Imported && next.StateVersion <= old.StateVersion:
	case known && next.Imported && reflect.DeepEqual(content(next), content(old)):
		a.same = true
		o.instances(p, &a)
	default:
		a.retaken = known && next.Imported && !old.Imported
		o.hosts[p.Host.UUID] = next
		if !next.InstancesUnknown {
			o.instances(p, &a)
		}
	}
	a.over = len(o.over(p.Host.UUID))
	return a
}

// instances brings the claims on a host in line with a report.
func (o *oracle) instances(p *PutHost, a *answer) {
	for _, c := range o.claims {
		if (c.Adopted || p.Host.Imported && c.State == Confirmed && c.Seen) && c.State.Live() && c.HostUUID == p.Host.UUID && c.TransferredFrom == "" &&
			!slices.ContainsFunc(p.Instances, func(i Instance) bool { return i.UUID == c.ConsumerUUID }) {
			c.State = Released
			a.released++
		}
	}
	for _, i := range p.Instances {
		all := o.forInstance(i.UUID)
		here := slices.DeleteFunc(slices.Clone(all), func(c *Claim) bool { return c.HostUUID != p.Host.UUID })
		switch {
		case len(all) == 0 && len(o.live(i.UUID)) > 0:
			a.conflicts++
		case len(all) == 0:
			a.adopted++
			o.claims = append(o.claims, &Claim{
				ClaimID: fmt.Sprintf("adopted %d", len(o.claims)), ConsumerUUID: i.UUID, State: Confirmed,
				HostUUID: p.Host.UUID, Allocations: i.Allocations, Adopted: true,
			})
		case len(here) == 0:
			a.conflicts++
		case len(here) > 1:
		default:
			here[0].Seen = true
			switch {
			case here[0].Adopted && here[0].TransferredFrom == "":
				here[0].Allocations = i.Allocations
			case here[0].State == Pending:
				a.confirmed++
				if v := here[0].Verdict; v != nil && v.Reason == "ABORTED" {
					here[0].Allocations = i.Allocations
				}
				here[0].Verdict = nil
				o.confirm(here[0])
			}
		}
	}
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
