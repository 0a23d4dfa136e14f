package agent

import (
	"cmp"
	"slices"
	"strings"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// recheck judges anew, by the host's newest state, the offers that it took and that
// neither its cell has confirmed nor an operation on the host has taken up. One that no
// longer fits beside the instances and what was offered before it is rejected: what it
// was promised is used by something that the host did not know of. That the host takes
// no instances any more ends no offer.
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

// pendingVerdicts gives, once, the verdicts that are queued for a stream: rejections of offers
// that were accepted before, and aborts.
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
