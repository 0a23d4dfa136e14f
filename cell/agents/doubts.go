package agents

import (
	"context"

	"cellgate/cell/replica"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// putOffRejection is a rejection that has not been applied yet.
type putOffRejection struct {
	session *stream
	verdict *agentv1.Verdict
}

// putOff defers a rejection for lack of room, and reports whether it did: another replica may have
// ended claims on the host that this replica has not read yet. The second rejection of a claim is not
// deferred.
func (v *verifier) putOff(a *stream, in *agentv1.Verdict) bool {
	switch in.GetReason() {
	case agentv1.Verdict_NO_ROOM, agentv1.Verdict_NO_NUMA, agentv1.Verdict_NO_PCI, agentv1.Verdict_INSTANCE_EXISTS:
	default:
		return false
	}
	if !v.journal.HasOthers() {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.hosts[a.host]
	if h == nil || h.session != a {
		return false
	}
	o := h.offers[in.GetClaimId()]
	if o == nil || o.again || len(v.putOffs) >= maxVerdicts {
		return false
	}
	o.again = true
	v.putOffs = append(v.putOffs, putOffRejection{a, in})
	select {
	case v.check <- struct{}{}:
	default:
	}
	return true
}

// recheck reads the journal for the deferred rejections, all that wait at once, and offers their claims
// again, until ctx ends. If the journal cannot be read in time, the rejections count.
func (v *verifier) recheck(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.check:
		}
		v.mu.Lock()
		list := v.putOffs
		v.putOffs = nil
		v.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, replica.MaxBehind)
		err := v.journal.CatchUp(bounded)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		for _, d := range list {
			if err != nil {
				v.handleVerdict(d.session, d.verdict)
				continue
			}
			v.offerAgain(d)
		}
	}
}

// offerAgain sends the ends of claims that the journal brought, then offers the rejected claim again.
func (v *verifier) offerAgain(d putOffRejection) {
	v.mu.Lock()
	defer v.mu.Unlock()
	host, id := d.session.host, d.verdict.GetClaimId()
	h := v.hosts[host]
	if h == nil || h.session != d.session {
		return // a stream begins with all offers
	}
	v.sendEnds(host, h)
	c := v.rows.Claim(id)
	before := h.offers[id]
	if c == nil || c.HostUUID != host || before == nil {
		return
	}
	delete(h.offers, id)
	if !h.known {
		v.schedule(host, v.now())
		return
	}
	m := v.offerOf(c)
	m.GetClaimOffer().WantsVerdict = true // as before: it may be confirmed by now
	if v.send(h, c, m); h.offers[id] != nil {
		h.offers[id].again, h.offers[id].despite = true, before.despite
	}
}
