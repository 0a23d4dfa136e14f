package main

import (
	"context"
	"slices"
	"strings"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// gate tells where the cell's gate is, and what it waits for. Hosts that hold it are told
// one by one elsewhere; what the comparisons found is told here alone.
func (u *upgrade) gate(r *replicas) {
	ctx, cancel := context.WithTimeout(u.ctx, 10*time.Second)
	defer cancel()
	resp, err := ofAny(ctx, r, &cellv1.ReportLegacyRequest{Gateway: "cellgate doctor", Look: true}, cellv1.CellSchedulerClient.ReportLegacy)
	if err != nil {
		u.say("gate", warned, "the cell does not say where it is: "+problemOf(err), "start the cell's scheduler of this version")
		return
	}
	u.withoutInstance(resp.GetWithoutInstance())
	g := resp.GetGate()
	u.askReaders(ctx, r, g)
	if g == nil {
		u.say("gate", noted, "there is none yet", "start a gateway with this gateway.legacy: it makes it, at LEGACY")
		return
	}
	u.required = g.GetRequiredVersion()
	u.native = g.GetState() == cellgatev1.Gate_NATIVE
	what := "is " + g.GetState().String() + ": " + g.GetReason()
	if waits := g.GetWaitsFor(); len(waits) > 0 {
		what += "; it waits for " + strings.Join(waits, "; ")
	}
	u.differs = slices.ContainsFunc(g.GetWaitsFor(), func(w string) bool { return strings.Contains(w, "comparisons differed") })
	if all := g.GetDifferences(); len(all) > 0 && g.GetState() == cellgatev1.Gate_SHADOW {
		what += "; the newest difference: " + all[0].GetDetail()
	}
	switch {
	case g.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED:
		u.say("gate", noted, what+"; pinned: "+g.GetPinReason(), "cellgate cells unpin "+u.conf.Cell+", when it is to move by itself")
	case u.differs:
		u.say("gate", unhealthy, what, "correct what differs: totals, ratios and reserved amounts that the agent reports otherwise than nova-compute, or instances that it does not report; where a disk has more free by the shard than was measured, set reserve_used_disk at the agents (with instances_dir), and remove directories left over of instances; confirm or revert resizes and migrations (the lines \"move of …\" name them); cellgate cells "+u.conf.Cell+" lists the newest")
	case len(g.GetWaitsFor()) > 0 && !u.native:
		u.say("gate", noted, what, "see the other lines of the cell, and what each says to do")
	default:
		u.doctor.ok(u.conf.Cell+" gate", "%s", what)
	}
}

// withoutInstance tells of claims that hold room for nothing that anybody reports.
func (u *upgrade) withoutInstance(claims []*cellv1.AwaitedClaim) {
	var all []diagnosis
	for _, c := range claims {
		host := c.GetHostUuid()
		if h := u.agents[host]; h != nil {
			host = h.GetServiceHost()
		}
		all = append(all, diagnosis{
			Check: "claim of " + c.GetConsumerUuid(),
			What:  "on " + host + ": it was confirmed more than five minutes ago, and no report of the host has had its instance; what it holds is in no row, and SHADOW does not compare that host's answers",
			Do:    "cellgate claims release " + c.GetConsumerUuid() + " " + c.GetClaimId() + ", if there is no such instance",
		})
	}
	u.each("claims without an instance", warned, all)
}
