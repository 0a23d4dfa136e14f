package agents

import (
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// repeatOffer offers a claim again that its host rejected and has to hold all the same: one that
// is confirmed, and any in VerifyShadow. Else it would not be in the agent's book, and its
// room would be promised again. The agent is not asked for a verdict; one that rejects it
// all the same is heard, but not told again in spite of the same state. Nor is one that was
// given back (ABORTED): the agent would say the same, and what comes of it is the shard's to
// say; but it is where the claim took the place of another, which no abort ends. That it did
// is told the agent too that did not reject it, so that it refuses to abort it.
func (v *verifier) repeatOffer(h *verified, c *shard.Claim) {
	o := h.offers[c.ClaimID]
	if o == nil {
		return
	}
	moved := c.State == shard.Confirmed && c.Moves != ""
	if o.verdict.GetOutcome() != agentv1.Verdict_REJECTED {
		if moved && !o.confirmed {
			v.send(h, c, offerOf(c))
		}
		return
	}
	if o.verdict.GetReason() == agentv1.Verdict_ABORTED && !moved {
		return
	}
	if c.State != shard.Confirmed && (v.mode != VerifyShadow || c.State != shard.Pending) {
		return
	}
	if d := o.despite; d != nil && d.GetBootId() == o.verdict.GetBootId() && d.GetVersion() == o.verdict.GetVersion() {
		return
	}
	m := offerOf(c)
	m.GetClaimOffer().WantsVerdict = false
	v.send(h, c, m)
	if next := h.offers[c.ClaimID]; next != o {
		next.counted, next.despite = true, o.verdict
	}
}
