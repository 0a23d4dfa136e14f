package agent

import (
	"cmp"
	"slices"
	"strings"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

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
