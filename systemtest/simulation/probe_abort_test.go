package simulation

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/agents"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// given is a claim that a host gives back in a probe.
type given struct {
	*promise
	confirmed bool
	host      *host
	agent     *agentRun
}

// probeAbort makes hosts abort claims while their connections are cut. Once they are connected
// again, the resources are free. The pending claim cannot be confirmed, but can move to an
// alternate. The confirmed claim ends.
func (w *world) probeAbort() {
	d := w.gateways[0]
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var all []*given
	for n, confirmed := range []bool{false, true} {
		if g := w.claimToAbort(ctx, d, n, confirmed); g != nil {
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		return // everything is full
	}
	sleep(time.Second) // the cell has offered the claims
	for _, g := range all {
		for _, r := range g.host.cell.replicas {
			w.net.cut(g.host.name, r.name)
		}
		if !w.abort(g.host, g.agent, g.promise) {
			w.wrong("%s does not abort claim %s", g.host.name, short8(g.claim))
		}
	}
	sleep(longestConnect)
	w.checks.poll()
	for _, g := range all {
		w.checkAborted(ctx, d, g)
		w.releaseProbe(d, g.consumer, g.claim)
	}
	w.count("probed: hosts aborted claims")
}

// claimToAbort makes a claim, and its host takes it up. It returns nil if everything is full.
func (w *world) claimToAbort(ctx context.Context, d *gatewayNode, n int, confirmed bool) *given {
	consumer := uuidOf(0xf, 94_001+n)
	req := probeRequest(fmt.Sprintf("abort-%d", n), 1, consumer)
	req.ClaimTtl, req.ReturnAlternates = durationpb.New(10*time.Minute), true
	began := time.Now()
	got, err := d.scheduler().SelectDestinations(ctx, req)
	if err != nil {
		if fault.KindOf(err) != fault.NoValidHost {
			w.wrong("nothing is placed when all is quiet: %v", err)
		}
		return nil
	}
	g := &given{promise: w.checks.promised(consumer, got.GetDestinations()[0], began), confirmed: confirmed}
	g.set(func(p *promise) { p.confirming, p.releasing, p.swapping = confirmed, true, true })
	if confirmed {
		if _, err := d.claims().ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: consumer, ClaimId: g.claim}); err != nil {
			w.wrong("a claim of a probe is not confirmed: %v", err)
		}
	}
	g.host = w.hostOf(g.hostUUID)
	g.host.mu.Lock()
	g.agent = g.host.agent
	g.host.mu.Unlock()
	if _, err := g.agent.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{ClaimId: g.claim, InstanceUuid: consumer, Usages: usagesOf(g.hostUUID, 1)}); err != nil {
		w.wrong("%s does not take up claim %s: %v", g.host.name, short8(g.claim), err)
	}
	return g
}

// checkAborted checks what an abort did to a claim.
func (w *world) checkAborted(ctx context.Context, d *gatewayNode, g *given) {
	w.checks.mu.Lock()
	c := w.checks.claimOf(g.claim)
	w.checks.mu.Unlock()
	switch {
	case w.plan.mode == agents.VerifyShadow:
		if !c.State.Live() || len(c.Allocations) == 0 {
			w.wrong("a claim was aborted on its host, and in mode shadow it is %s and takes %v", c.State, c.Allocations)
		}
		return
	case g.confirmed:
		if c.State != shard.Rejected {
			w.wrong("a confirmed claim was aborted on its host, and is %s", c.State)
		}
		return
	case !c.GaveBack():
		w.wrong("a claim was aborted on its host, and is %s, its verdict %+v", c.State, c.Verdict)
		return
	}
	if _, err := d.claims().ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: g.consumer, ClaimId: g.claim}); fault.KindOf(err) != fault.ClaimRejected {
		w.wrong("a claim was aborted on its host, and its confirm is %v", err)
	}
	if len(g.alternates) == 0 {
		return
	}
	got, err := d.claims().ClaimAlternate(ctx, &cellgatev1.ClaimAlternateRequest{
		ConsumerUuid: g.consumer, ClaimId: g.claim, HostUuid: g.alternates[0], ClaimTtl: durationpb.New(time.Minute),
	})
	if err != nil || len(got.GetClaim().GetAllocations()) == 0 {
		w.wrong("a claim that was aborted on its host goes to an alternate as %v: %v", got.GetClaim(), err)
	}
}
