package simulation

import (
	"slices"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// promise is a claim that a caller was given. What the caller has done with it decides which ends
// of the claim are right.
type promise struct {
	checks                          *checks
	claim, consumer, cell, hostUUID string
	alternates                      []string
	// began is when the request that was last answered with the claim was first sent, confirmedAt
	// when the claim was confirmed.
	began, confirmedAt time.Time

	confirmed, released, refused, moved bool
	// releasing, confirming, swapping, moving: such a call was sent, and may take effect late.
	releasing, confirming, swapping, moving bool
	// doubted: the request was sent again and is not answered yet. superseded: the repeated request
	// was answered with another claim.
	doubted, superseded bool
	// abortedOn is the host that aborted the claim, abortedBy the agent that ran there.
	abortedOn string
	abortedBy *agentRun
	// left: the lease is to end the claim. kept: the instance has ended, and the caller did not
	// release the claim.
	left, kept bool
}

func (p *promise) set(change func(*promise)) {
	p.checks.mu.Lock()
	defer p.checks.mu.Unlock()
	change(p)
}

// mayEnd reports whether some call may release the claim.
func (p *promise) mayEnd() bool {
	return p.releasing || p.moving || p.doubted || p.superseded
}

// promised records an answer. Answers with the same claim share one promise.
func (k *checks) promised(consumer string, d *cellgatev1.Destinations, began time.Time) *promise {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := d.GetSelected()
	p := k.promises[s.GetClaimId()]
	if p == nil {
		p = &promise{checks: k, claim: s.GetClaimId(), consumer: consumer, cell: s.GetCell(), hostUUID: s.GetComputeNodeUuid()}
		k.promises[p.claim] = p
	}
	if p.consumer != consumer || p.hostUUID != s.GetComputeNodeUuid() {
		k.world.wrong("claim %s of %s on %s was answered to %s as on %s", short8(p.claim), p.consumer, p.hostUUID, consumer, s.GetComputeNodeUuid())
	}
	p.began, p.alternates = began, nil
	for _, a := range d.GetAlternates() {
		p.alternates = append(p.alternates, a.GetComputeNodeUuid())
	}
	k.asked = append(k.asked, p)
	return p
}

// ask schedules a check of the promise, once all that was acknowledged by now has been read.
func (k *checks) ask(p *promise) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, p)
}

// kept checks a promise against the claim in the shard. The caller holds mu.
func (k *checks) kept(p *promise) {
	k.count++
	c := k.claimOf(p.claim)
	switch {
	case c == nil:
		k.world.wrong("I3: %s was told that it has claim %s in %s; there is no such claim", p.consumer, short8(p.claim), p.cell)
	case p.confirmed && c.State == shard.Expired && !p.mayEnd():
		k.world.wrong("I3: claim %s of %s was confirmed and is EXPIRED", short8(p.claim), p.consumer)
	case !c.State.Live():
		if why := k.ends[c.ClaimID]; why != "" && !p.mayEnd() {
			k.world.wrong("I3: %s was told that it has claim %s; %s", p.consumer, short8(p.claim), why)
		}
	case p.released:
		k.world.wrong("I3: claim %s of %s was released and is %s", short8(p.claim), p.consumer, c.State)
	case c.HostUUID != p.hostUUID && !p.swapping:
		k.world.wrong("I3: %s was told that claim %s is on %s; it is on %s", p.consumer, short8(p.claim), p.hostUUID, c.HostUUID)
	case p.confirmed && c.State != shard.Confirmed:
		k.world.wrong("I3: claim %s of %s was confirmed and is %s", short8(p.claim), p.consumer, c.State)
	case p.confirmed:
		k.oneConfirmed(p, c)
	}
}

// oneConfirmed checks that a consumer has one confirmed claim over the cells that answer (ADR 5).
func (k *checks) oneConfirmed(p *promise, c *shard.Claim) {
	for _, cell := range k.cells {
		for _, o := range cell.claims {
			if o.ConsumerUUID != c.ConsumerUUID || o.ClaimID == c.ClaimID || o.State != shard.Confirmed || o.Adopted || o.Moves == c.ClaimID {
				continue
			}
			if k.world.calmSince(p.began) {
				k.world.wrong("I2: %s has two confirmed claims, %s and %s, and all cells answered", p.consumer, short8(c.ClaimID), short8(o.ClaimID))
			} else {
				k.world.count("confirmed twice, not all cells answered")
			}
		}
	}
}

// hostOf returns the host of a claim in its shard now, or "".
func (k *checks) hostOf(id string) string {
	k.poll()
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.claimOf(id); c != nil {
		return c.HostUUID
	}
	return ""
}

func (k *checks) claimOf(id string) *shard.Claim {
	var found *shard.Claim
	for _, cell := range k.cells {
		if c := cell.claims[id]; c != nil && (found == nil || c.State.Live()) {
			found = c
		}
	}
	return found
}

// wanted returns the claims that must be live at the end, and those that may be.
func (k *checks) wanted() (want, may map[string]*promise) {
	k.mu.Lock()
	defer k.mu.Unlock()
	want, may = map[string]*promise{}, map[string]*promise{}
	for id, p := range k.promises {
		switch {
		case p.released, p.moved:
		case p.confirmed && !p.mayEnd() && !p.kept && p.abortedOn == "":
			want[id] = p
		case p.confirming, p.mayEnd(), p.swapping, p.kept:
			may[id] = p
		}
	}
	return want, may
}

func short8(id string) string {
	if len(id) > 8 {
		return id[len(id)-8:]
	}
	return id
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// sortedKeys gives a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
