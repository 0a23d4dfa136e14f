package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule/hardware"
)

// setGrace is how long a claim that one replica offered stays although another replica's set of claims
// lacks it: the other replica may not know it yet.
const setGrace = 10 * time.Second

// ledger is a host's record of the resources that are taken: its inventories, its instances, and the
// claims on it, both those that its cell offered and those made on the host itself. It has no lock and
// no clock: callers hold a lock and pass the time.
//
// The free amount of a provider's class is (total - reserved) * ratio, minus the usage of the
// instances, minus the claims whose instance is not there yet.
type ledger struct {
	state *agentv1.FullState
	// stock is the capacity, used the instances' part of it.
	stock map[stock]float64
	used  map[stock]int64
	// exist are the instances on the host, with their usages.
	exist map[string][]*agentv1.Usage
	// hardware is the free hardware in the host's state, parsed on first use.
	hardware *hardware.Host
	held     map[string]*heldClaim
	// rejected are the offers that were rejected, until they end.
	rejected map[string]rejectedOffer
	// queuedVerdicts are the claims that were rejected or aborted after their offer was accepted, by
	// the stream that offered them and gets the verdict.
	queuedVerdicts map[any][]string
	// over are claims that ended for good recently, and when: another replica's offer of such a claim
	// may still arrive.
	over map[string]time.Time
	// confirmations counts how often a claim of the cell became confirmed, or a confirmed claim was
	// removed.
	confirmations uint64
	// claimsKnown: the cell has sent its set of claims.
	claimsKnown bool
	// ran are the claims that a simulated host runs, with their instances. left are instances of such
	// claims that ended, until the state no longer has them.
	ran  map[string]string
	left map[string]struct{}
}

// stock names a provider's resource class.
type stock struct{ provider, class string }

// heldClaim is a claim on the host.
type heldClaim struct {
	id, instance, moves string
	usages              []*agentv1.Usage
	guest               *hardware.Check // nil for none
	confirmed           bool
	// since is when the claim was first known to be confirmed.
	since time.Time
	// offers are the streams that offered the claim; none for a claim that was made on the host.
	offers map[any]struct{}
	// first is when the claim was first offered, at when last; until is the end of a claim made on the
	// host.
	first, at, until time.Time
	// kind is the operation on the host that took up the claim; "" for none yet. An aborted claim takes
	// nothing.
	kind    claimKind
	aborted bool
}

type rejectedOffer struct {
	instance string
	verdict  *agentv1.Verdict
	offers   map[any]struct{}
	at       time.Time
}

func newLedger(state *agentv1.FullState) *ledger {
	l := &ledger{held: map[string]*heldClaim{}, rejected: map[string]rejectedOffer{}, over: map[string]time.Time{}}
	l.observe(state)
	return l
}

// observe applies the host's newest state.
func (l *ledger) observe(state *agentv1.FullState) {
	l.state, l.hardware = state, nil
	l.stock, l.used, l.exist = map[stock]float64{}, map[stock]int64{}, make(map[string][]*agentv1.Usage, len(state.GetInstances()))
	for _, p := range state.GetProviders() {
		for _, i := range p.GetInventories() {
			l.stock[stock{p.GetUuid(), i.GetResourceClass()}] = float64(i.GetTotal()-i.GetReserved())*i.GetAllocationRatio() - float64(i.GetUnaccounted())
		}
	}
	left := l.left
	l.left = nil
	for _, i := range state.GetInstances() {
		l.exist[i.GetInstanceUuid()] = i.GetUsages()
		for _, u := range i.GetUsages() {
			l.used[stock{u.GetProviderUuid(), u.GetResourceClass()}] += int64(u.GetAmount())
		}
		if _, is := left[i.GetInstanceUuid()]; is {
			l.leave(i.GetInstanceUuid())
		}
	}
	for id, c := range l.held {
		// The instance now takes what the claim held.
		if len(c.offers) == 0 && l.covered(c) {
			delete(l.held, id)
		}
	}
	l.recheck()
}

// leave counts an instance as gone from the host before a state shows it, unless a confirmed claim
// keeps it there.
func (l *ledger) leave(instance string) {
	for _, c := range l.held {
		if c.instance == instance && c.confirmed {
			return
		}
	}
	for _, u := range l.exist[instance] {
		l.used[stock{u.GetProviderUuid(), u.GetResourceClass()}] -= int64(u.GetAmount())
	}
	delete(l.exist, instance)
	if l.left == nil {
		l.left = map[string]struct{}{}
	}
	l.left[instance] = struct{}{}
}

// covered reports whether the claim's instance is on the host and takes the claim's resources. While an
// instance is resized, this is the claim that the other one moves, until the instance has the new size.
func (l *ledger) covered(c *heldClaim) bool {
	usages, there := l.exist[c.instance]
	switch {
	case !there:
		return false
	case c.moves == "" && c.kind != resizeClaim, sameUsages(c.usages, usages):
		return true
	case c.kind == resizeClaim:
		return false
	}
	from := l.held[c.moves]
	return from == nil || from.instance != c.instance
}

// alone reports whether the claim's instance is on the host, in any size, and the cell has no other
// claim of it there.
func (l *ledger) alone(c *heldClaim) bool {
	_, there := l.exist[c.instance]
	from := l.held[c.moves]
	return there && len(c.offers) > 0 && (from == nil || from.instance != c.instance)
}

// movesForGood reports whether the claim has replaced the claim that it moves.
func (c *heldClaim) movesForGood() bool { return c.confirmed && c.moves != "" && len(c.offers) > 0 }

// occupies reports whether a held claim takes resources in addition to the host's instances.
func (l *ledger) occupies(c *heldClaim) bool { return !c.aborted && !l.covered(c) }

// expire drops claims made on the host whose time is over, and forgets claims that ended some time ago.
func (l *ledger) expire(now time.Time) {
	for id, at := range l.over {
		if now.Sub(at) > setGrace {
			delete(l.over, id)
		}
	}
	for id, c := range l.held {
		if len(c.offers) == 0 && !c.until.After(now) {
			delete(l.held, id)
		}
	}
}

// judge says why the host cannot hold a claim beside those that it holds; it returns ok and "" if it
// can.
func (l *ledger) judge(c *heldClaim) (reason agentv1.Verdict_Reason, detail string) {
	if l.state.GetDisabled() {
		if _, there := l.exist[c.instance]; !there {
			return agentv1.Verdict_DISABLED, "the host takes no instances: " + l.state.GetDisabledReason()
		}
	}
	return l.fits(c)
}

// fits is judge for a host that takes instances.
func (l *ledger) fits(c *heldClaim) (reason agentv1.Verdict_Reason, detail string) {
	for _, o := range l.held {
		if o.id != c.id && o.instance == c.instance && o.id != c.moves && o.moves != c.id && !o.aborted {
			return agentv1.Verdict_INSTANCE_EXISTS, fmt.Sprintf("instance %s has claim %s here", c.instance, o.id)
		}
	}
	if l.covered(c) {
		return ok, ""
	}
	asked := map[stock]int64{}
	for _, u := range c.usages {
		s := stock{u.GetProviderUuid(), u.GetResourceClass()}
		if _, there := l.stock[s]; !there {
			return agentv1.Verdict_UNKNOWN_PROVIDER, fmt.Sprintf("provider %s has no %s here", s.provider, s.class)
		}
		asked[s] += int64(u.GetAmount())
	}
	taken := map[stock]int64{}
	var guests []*hardware.Check
	for _, o := range l.held {
		if o.id == c.id || !l.occupies(o) {
			continue
		}
		for _, u := range o.usages {
			taken[stock{u.GetProviderUuid(), u.GetResourceClass()}] += int64(u.GetAmount())
		}
		if o.guest != nil {
			guests = append(guests, o.guest)
		}
	}
	for _, u := range c.usages {
		s := stock{u.GetProviderUuid(), u.GetResourceClass()}
		if before := l.used[s] + taken[s]; float64(before+asked[s]) > l.stock[s] {
			return agentv1.Verdict_NO_ROOM, fmt.Sprintf("%d %s asked for, %d of %d free: instances use %d, other claims hold %d",
				asked[s], s.class, int64(l.stock[s])-before, int64(l.stock[s]), l.used[s], taken[s])
		}
	}
	if c.guest == nil {
		return ok, ""
	}
	if l.hardware == nil {
		var err error
		if l.hardware, err = readHardware(l.state); err != nil {
			return agentv1.Verdict_NO_NUMA, "the host's own state cannot be read: " + err.Error()
		}
	}
	return judgeGuest(*l.hardware, ratiosOf(l.state), c.guest, guests)
}

// ok is the reason of a claim that fits.
const ok = agentv1.Verdict_REASON_UNSPECIFIED

// hold records a claim.
func (l *ledger) hold(c *heldClaim) { l.held[c.id] = c }

// verdict builds a verdict on a claim, by the host's newest state.
func (l *ledger) verdict(id string, reason agentv1.Verdict_Reason, detail string) *agentv1.Verdict {
	v := &agentv1.Verdict{
		ClaimId: id, Outcome: agentv1.Verdict_OK, Reason: reason, Detail: detail,
		BootId: l.state.GetBootId(), Version: l.state.GetVersion(),
	}
	if reason != ok {
		v.Outcome = agentv1.Verdict_REJECTED
	}
	return v
}

// offered processes an offer of the cell and returns the verdict; nil if none is asked for, or if the
// claim ended. A held claim is accepted again; a rejected one is judged again. An aborted claim gets
// its verdict, asked or not.
func (l *ledger) offered(now time.Time, by any, o *agentv1.ClaimOffer) *agentv1.Verdict {
	l.expire(now)
	id := o.GetClaimId()
	if _, is := l.over[id]; is {
		return nil
	}
	if c := l.held[id]; c != nil && c.instance == o.GetInstanceUuid() && sameUsages(c.usages, o.GetUsages()) {
		if c.offers == nil {
			c.offers = map[any]struct{}{}
		}
		if c.confirmed != o.GetConfirmed() {
			c.since = now
			l.confirmations++
		}
		c.offers[by], c.at, c.confirmed = struct{}{}, now, o.GetConfirmed()
		c.undoAbortOfMove()
		if l.gaveBack(c) {
			return l.abortOf(c)
		}
		if !o.GetWantsVerdict() {
			return nil
		}
		return l.verdict(id, ok, "")
	}
	c := &heldClaim{
		id: id, instance: o.GetInstanceUuid(), moves: o.GetMovesClaimId(), usages: o.GetUsages(), confirmed: o.GetConfirmed(),
		offers: map[any]struct{}{by: {}}, first: now, at: now, since: now,
	}
	if before := l.held[id]; before != nil && before.instance == c.instance {
		c.kind, c.aborted, c.first = before.kind, before.aborted, before.first
		c.undoAbortOfMove()
		if c.confirmed && before.confirmed {
			c.since = before.since
		}
	}
	var reason agentv1.Verdict_Reason
	var detail string
	var err error
	if len(o.GetGuest()) > 0 {
		c.guest, err = hardware.DecodeCheck(o.GetGuest())
	}
	if err != nil {
		reason, detail = agentv1.Verdict_NO_NUMA, "what the claim asks of NUMA cells and devices cannot be read: "+err.Error()
	} else if o.GetWantsVerdict() && !c.aborted {
		reason, detail = l.judge(c)
	}
	if reason != ok {
		v := l.verdict(id, reason, detail)
		offers := map[any]struct{}{by: {}}
		maps.Copy(offers, l.rejected[id].offers)
		l.rejected[id] = rejectedOffer{c.instance, v, offers, now}
		delete(l.held, id)
		return v
	}
	delete(l.rejected, id)
	if before := l.held[id]; c.confirmed || before != nil && before.confirmed {
		l.confirmations++
	}
	l.hold(c)
	if l.gaveBack(c) {
		return l.abortOf(c)
	}
	if !o.GetWantsVerdict() {
		return nil
	}
	return l.verdict(id, ok, "")
}

// abort gives a claim back, and queues the verdict for each stream that offered it.
func (l *ledger) abort(c *heldClaim) {
	if c.aborted {
		return
	}
	c.aborted = true
	for by := range c.offers {
		l.queueVerdict(by, c.id)
	}
}

// queueVerdict makes pendingVerdicts return the claim's verdict to the stream that offered it.
func (l *ledger) queueVerdict(by any, id string) {
	if l.queuedVerdicts == nil {
		l.queuedVerdicts = map[any][]string{}
	}
	l.queuedVerdicts[by] = append(l.queuedVerdicts[by], id)
}

// abortOf is the verdict on a claim that was aborted.
func (l *ledger) abortOf(c *heldClaim) *agentv1.Verdict {
	return l.verdict(c.id, agentv1.Verdict_ABORTED, "an operation on the host gave it back")
}

// aborts returns the verdicts on all aborted claims that by offered.
func (l *ledger) aborts(by any) (verdicts []*agentv1.Verdict) {
	for _, c := range l.held {
		if _, offered := c.offers[by]; offered && l.gaveBack(c) {
			verdicts = append(verdicts, l.abortOf(c))
		}
	}
	return verdicts
}

// gaveBack reports whether a claim was aborted and its instance is not on the host.
func (l *ledger) gaveBack(c *heldClaim) bool { return c.aborted && !l.covered(c) && !l.alone(c) }

// undoAbortOfMove undoes the abort of a confirmed move: the cell confirmed it before the abort arrived.
func (c *heldClaim) undoAbortOfMove() { c.aborted = c.aborted && !c.movesForGood() }

// ended drops a claim that the cell ended, with its final state, or moved to another host.
func (l *ledger) ended(now time.Time, id, state string) {
	l.expire(now)
	if state == "RELEASED" || state == "REJECTED" { // claims in other states may come back
		l.over[id] = now
	}
	delete(l.rejected, id)
	l.drop(id)
}

// drop removes a held claim.
func (l *ledger) drop(id string) {
	if c := l.held[id]; c != nil && c.confirmed {
		l.confirmations++
	}
	delete(l.held, id)
	if instance, runs := l.ran[id]; runs {
		l.leave(instance)
	}
}

// set drops the claims that a replica's set does not name: those that this replica offered, and those
// that others offered more than setGrace ago.
func (l *ledger) set(now time.Time, by any, s *agentv1.ClaimSet) {
	l.claimsKnown = true
	named := make(map[string]struct{}, len(s.GetClaimIds()))
	for _, id := range s.GetClaimIds() {
		named[id] = struct{}{}
	}
	gone := func(id string, offers map[any]struct{}, at time.Time) bool {
		if _, is := named[id]; is || len(offers) == 0 {
			return false
		}
		_, own := offers[by]
		return own || now.Sub(at) > setGrace
	}
	for id, c := range l.held {
		if gone(id, c.offers, c.at) {
			l.drop(id)
		}
	}
	for id, r := range l.rejected {
		if gone(id, r.offers, r.at) {
			delete(l.rejected, id)
		}
	}
	for _, id := range s.GetConfirmedClaimIds() {
		if c := l.held[id]; c != nil && !c.confirmed {
			c.confirmed, c.since = true, now
			c.undoAbortOfMove()
			l.confirmations++
		}
	}
}

// recheck judges accepted offers again by the host's newest state, unless the cell has confirmed them
// or an operation on the host has taken them up. An offer is rejected if it no longer fits beside the
// instances and earlier offers: something unknown to the host uses its resources. That the host is
// disabled ends no offer.
func (l *ledger) recheck() {
	var open []*heldClaim
	for id, c := range l.held {
		if len(c.offers) > 0 && !c.confirmed && !c.aborted && c.kind == "" && !l.covered(c) {
			open = append(open, c)
			delete(l.held, id)
		}
	}
	slices.SortFunc(open, func(a, b *heldClaim) int {
		return cmp.Or(a.first.Compare(b.first), strings.Compare(a.id, b.id))
	})
	for _, c := range open {
		reason, detail := l.fits(c)
		switch reason {
		case agentv1.Verdict_NO_ROOM, agentv1.Verdict_NO_NUMA, agentv1.Verdict_NO_PCI:
		default:
			l.hold(c)
			continue
		}
		v := l.verdict(c.id, reason, detail)
		l.rejected[c.id] = rejectedOffer{c.instance, v, c.offers, c.at}
		for by := range c.offers {
			l.queueVerdict(by, c.id)
		}
	}
}

// pendingVerdicts returns, once, the verdicts queued for a stream: rejections of offers that were
// accepted before, and aborts.
func (l *ledger) pendingVerdicts(by any) (verdicts []*agentv1.Verdict) {
	for _, id := range l.queuedVerdicts[by] {
		if r, is := l.rejected[id]; is {
			verdicts = append(verdicts, r.verdict)
		} else if c := l.held[id]; c != nil && l.gaveBack(c) {
			verdicts = append(verdicts, l.abortOf(c))
		}
	}
	delete(l.queuedVerdicts, by)
	return verdicts
}

func sameUsages(a, b []*agentv1.Usage) bool {
	if len(a) != len(b) {
		return false
	}
	amounts := map[stock]int64{}
	for i := range a {
		amounts[stock{a[i].GetProviderUuid(), a[i].GetResourceClass()}] += int64(a[i].GetAmount())
		amounts[stock{b[i].GetProviderUuid(), b[i].GetResourceClass()}] -= int64(b[i].GetAmount())
	}
	for _, n := range amounts {
		if n != 0 {
			return false
		}
	}
	return true
}
