package agents

import (
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// followEnds tells agents which claims have ended or left their host, whichever replica offered them:
// an agent judges the next offer by the claims that are left.
func (v *verifier) followEnds(changes []shard.Change) {
	for i := range changes {
		c := changes[i].Claim
		if c == nil {
			continue
		}
		now := v.rows.Claim(c.ClaimID)
		was, ok := v.at[c.ClaimID]
		switch {
		case ok && (now == nil || now.HostUUID != was):
			v.sendEnded(was, c.ClaimID)
		case !ok && now == nil && !c.State.Live():
			v.sendEnded(c.HostUUID, c.ClaimID)
		}
	}
}

// followOffer offers a claim that is new on its host. A claim that was confirmed although the host
// rejected it is offered again.
func (v *verifier) followOffer(id string) {
	c := v.rows.Claim(id)
	if c == nil {
		return
	}
	h := v.hosts[c.HostUUID]
	switch {
	case h == nil:
	case h.offers[id] != nil:
		v.repeatOffer(h, c)
	case c.State != shard.Pending:
	case !h.known:
		v.schedule(c.HostUUID, v.now())
	default:
		v.offer(h, c)
	}
}

// followConfirm offers a claim again after another replica confirmed it.
func (v *verifier) followConfirm(id string) {
	c := v.rows.Claim(id)
	if c == nil {
		return
	}
	if h := v.hosts[c.HostUUID]; h != nil {
		v.repeatOffer(h, c)
	}
}

// offer sends a claim to its host's agent. If it cannot be sent, the next sweep offers it again. A
// claim on the same host that it moves goes first: the agent must know whose instance it sees.
func (v *verifier) offer(h *verifyingHost, c *shard.Claim) {
	if from := v.rows.Claim(c.Moves); from != nil && from.HostUUID == c.HostUUID && h.offers[from.ClaimID] == nil {
		v.send(h, from, v.offerOf(from))
	}
	v.send(h, c, v.offerOf(c))
}

func (v *verifier) send(h *verifyingHost, c *shard.Claim, m *agentv1.ReportResponse) {
	if !v.sessions.Send(c.HostUUID, m) {
		v.noteMissed(c.HostUUID, h)
		return
	}
	h.offers[c.ClaimID] = &offer{sent: v.now(), counted: c.State != shard.Pending, confirmed: c.State == shard.Confirmed}
	v.at[c.ClaimID] = c.HostUUID
}

// sendEnded tells a host's agent that a claim is no longer on the host.
func (v *verifier) sendEnded(host, id string) {
	h := v.hosts[host]
	if h == nil {
		delete(v.at, id)
		return
	}
	state := "MOVED"
	if v.rows.Claim(id) == nil {
		state = v.rows.EndedState(id)
	}
	if !v.sessions.Send(host, &agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimEnded{
		ClaimEnded: &agentv1.ClaimEnded{ClaimId: id, State: state},
	}}) {
		v.noteMissed(host, h)
		return
	}
	delete(h.offers, id)
	delete(v.at, id)
}

// sendEnds tells a host's agent which of the claims that it was offered are no longer on the host.
func (v *verifier) sendEnds(host string, h *verifyingHost) {
	for id := range h.offers {
		if c := v.rows.Claim(id); c == nil || c.HostUUID != host {
			v.sendEnded(host, id)
		}
	}
}

// noteMissed notes that a message to a host's agent could not be sent.
func (v *verifier) noteMissed(host string, h *verifyingHost) {
	h.known = false
	v.schedule(host, v.now())
}

// sweep brings the claims that a host's agent knows in line with the table, and sends the agent the set
// of all claims on the host.
func (v *verifier) sweep(host string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sweepLocked(host)
}

func (v *verifier) sweepLocked(host string) {
	h := v.hosts[host]
	if h == nil {
		return
	}
	// Ends first, then the set, then offers: the agent judges an offer by what is left.
	claims, now := v.rows.ClaimsOn(host), v.now()
	h.known = true
	v.sendEnds(host, h)
	set := &agentv1.ClaimSet{ClaimIds: make([]string, 0, len(claims))}
	for _, c := range claims {
		set.ClaimIds = append(set.ClaimIds, c.ClaimID)
		if c.State == shard.Confirmed {
			set.ConfirmedClaimIds = append(set.ConfirmedClaimIds, c.ClaimID)
		}
	}
	if !h.known || !v.sessions.Send(host, &agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimSet{ClaimSet: set}}) {
		v.noteMissed(host, h)
		return
	}
	for _, c := range claims {
		o := h.offers[c.ClaimID]
		switch {
		case o == nil && c.Seen && h.listsInstance(c):
			// The host already has the claim's instance.
		case o == nil && c.GaveBack():
			// The claim takes no resources on the host.
		case o == nil:
			if v.offer(h, c); !h.known {
				return // the agent reads too slowly: the next sweep sends the rest
			}
		case o.verdict == nil && !o.counted && now.Sub(o.sent) > unansweredAfter:
			o.counted = true
			v.tel.OfferUnanswered()
		default:
			v.repeatOffer(h, c)
		}
	}
	h.reported = nil
	// Spread the sweeps of the hosts over time.
	h.sweptAt = now.Add(-rand.N(VerifySweep / 4))
}

// listsInstance reports whether the agent listed the claim's instance when its stream began. An agent that
// restarted without an instance that it had before does not know the claim.
func (h *verifyingHost) listsInstance(c *shard.Claim) bool {
	if h.reported == nil {
		return true
	}
	_, there := h.reported[c.Instance()]
	return there
}

// reportedIn returns the instances of a state, by canonical uuid.
func reportedIn(s *agentv1.FullState) map[string]struct{} {
	out := make(map[string]struct{}, len(s.GetInstances()))
	for _, i := range s.GetInstances() {
		out[strings.ToLower(i.GetInstanceUuid())] = struct{}{}
	}
	return out
}

// repeatOffer offers a claim again that its host rejected and must hold all the same: a confirmed
// claim, and any claim if the verdict does not count. Otherwise the agent's ledger would lack the claim, and its room
// would be promised twice. The agent is not asked for a verdict. If it rejects the claim again, that is
// recorded, and the claim is not offered again for the same state.
//
// A claim that was given back (ABORTED) is not repeated: the agent would answer the same, and the shard
// decides what follows. The exception is a confirmed move, which no abort ends. An agent that did not
// reject the move is also sent its confirmation, so that it refuses to abort the claim.
func (v *verifier) repeatOffer(h *verifyingHost, c *shard.Claim) {
	o := h.offers[c.ClaimID]
	if o == nil {
		return
	}
	moved := c.State == shard.Confirmed && c.Moves != ""
	if o.verdict.GetOutcome() != agentv1.Verdict_REJECTED {
		if moved && !o.confirmed {
			v.send(h, c, v.offerOf(c))
		}
		return
	}
	if o.verdict.GetReason() == agentv1.Verdict_ABORTED && !moved {
		return
	}
	if c.State != shard.Confirmed && (v.counts(c.HostUUID, o.verdict) || c.State != shard.Pending) {
		return
	}
	if d := o.despite; d != nil && d.GetBootId() == o.verdict.GetBootId() && d.GetVersion() == o.verdict.GetVersion() {
		return
	}
	m := v.offerOf(c)
	m.GetClaimOffer().WantsVerdict = false
	v.send(h, c, m)
	if next := h.offers[c.ClaimID]; next != o {
		next.counted, next.despite = true, o.verdict
	}
}

// offerOf builds the offer of a claim for its host's agent. It does not name NUMA cells and devices that Nova's tables
// count: the agent does not know what instances use of them.
func (v *verifier) offerOf(c *shard.Claim) *agentv1.ReportResponse {
	o := &agentv1.ClaimOffer{
		ClaimId: c.ClaimID, InstanceUuid: c.Instance(), ConsumerUuid: c.ConsumerUUID,
		Confirmed:    c.State == shard.Confirmed,
		MovesClaimId: c.Moves, WantsVerdict: c.State == shard.Pending,
		Usages: make([]*agentv1.Usage, len(c.Allocations)),
	}
	if !c.ExpiresAt.IsZero() {
		o.ExpiresAt = timestamppb.New(c.ExpiresAt)
	}
	usages := make([]agentv1.Usage, len(c.Allocations))
	for i, a := range c.Allocations {
		usages[i].ProviderUuid, usages[i].ResourceClass, usages[i].Amount = a.ProviderUUID, a.ResourceClass, int32(a.Amount)
		o.Usages[i] = &usages[i]
	}
	if c.Guest.HasHardware() {
		if h := v.rows.HostInService(c.HostUUID); h == nil || !h.Nova.CountsHardware() {
			o.Guest = c.Guest.Hardware
		}
	}
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimOffer{ClaimOffer: o}}
}
