package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/agents"
	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard/shardtest"
)

// probe runs after all is quiet and compared. It checks that hosts still judge claims: an operation
// takes all of a host, without the cell's knowledge, and then an instance is requested there.
func (w *world) probe() {
	w.probeResync()
	w.probeOperator()
	w.probeUndo()
	w.probeKeep()
	w.probeLate()
	w.probeAbort()
	w.probeWord()
	w.probeRelease()
	for _, c := range w.cells {
		rows, _, err := shardtest.LoadRows(context.Background(), c.store)
		w.must(err)
		for _, h := range w.hosts {
			if h.cell != c || rows.Hosts[h.uuid] == nil {
				continue
			}
			left := min(free(rows, h, "VCPU"), free(rows, h, "MEMORY_MB")/1024, free(rows, h, "DISK_GB")/10)
			if left > 0 && len(h.booked()) == 0 {
				w.count("probed")
				all := &agentv1.Usage{ProviderUuid: h.uuid, ResourceClass: "VCPU", Amount: h.left()}
				if err := h.claim("probe-"+h.name, time.Minute, []*agentv1.Usage{all}); err != nil {
					w.wrong("%s has %d VCPU free and does not take them: %v", h.name, all.GetAmount(), err)
				}
				w.probeHost(h)
				break
			}
		}
	}
	w.probeSilence()
	w.probeGhost()
}

// probeSilence restarts the replicas of a cell while a host is down. They must not propose the host
// until its agent reports again.
func (w *world) probeSilence() {
	h := w.hosts[int(w.plan.seed)%len(w.hosts)]
	silent := func() bool {
		rows, _, err := shardtest.LoadRows(context.Background(), h.cell.store)
		w.must(err)
		return rows.AdminStates[h.uuid].IsSilent()
	}
	h.killAgent()
	sleep(downAfter + downAfter/10 + 2*time.Second)
	if !silent() {
		w.wrong("the shard does not have it that the agent of %s is silent", h.name)
	}
	for _, r := range h.cell.replicas {
		r.stopIncarnation(w.plan.seed%2 == 0)
	}
	for _, r := range h.cell.replicas {
		r.start()
	}
	sleep(downAfter / 2) // a host that had just reported would still be up
	for _, r := range h.cell.replicas {
		if up, err := r.proposes(h); up || err != nil {
			w.wrong("%s was started and proposes %s, whose agent is gone: %t, %v", r.name, h.name, up, err)
		}
	}
	h.start()
	sleep(longestConnect)
	for _, r := range h.cell.replicas {
		if up, err := r.proposes(h); !up || err != nil {
			w.wrong("%s does not propose %s, whose agent is back: %t, %v", r.name, h.name, up, err)
		}
	}
	if silent() {
		w.wrong("the shard has it that the agent of %s, which is back, is silent", h.name)
	}
	w.count("started with a host that was down")
}

// longestConnect covers an agent's waits between connections, and the time until its report is in
// the shard.
const longestConnect = 20 * time.Second

// proposes reports whether a replica proposes the host for a request without resources.
func (r *replica) proposes(h *host) (bool, error) {
	incarnation := newIncarnation()
	defer incarnation.die()
	conn, err := r.world.net.dialer("prober", incarnation)(r.name)
	r.world.must(err)
	defer func() { r.world.must(conn.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := cellv1.NewCellSchedulerClient(conn).ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{{
		Limit: 100, Seed: 1, Placement: placement(&cellv1.Placement{Consume: &cellv1.Consumption{}}),
	}}})
	if err != nil {
		return false, err
	}
	p := out.GetProposals()[0]
	if p.GetFailure() != nil {
		return false, fmt.Errorf("%s", p.GetFailure().GetMessage())
	}
	return slices.Contains(wiretest.Hosts(p), h.uuid), nil
}

// left returns the VCPUs that no instance uses, by the host's true state. Claims that their callers
// forgot are not included: only the shard knows them.
func (h *host) left() int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.vcpus
	for _, i := range h.instances {
		n -= i.GetUsages()[0].GetAmount()
	}
	return n
}

// booked returns the claims in the agent's ledger.
func (h *host) booked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for _, c := range h.agent.host.Claims().List() {
		ids = append(ids, c.GetClaimId())
	}
	return ids
}

// probeHost checks a claim that the host rejects. In sync mode the host is passed over, in async
// mode the confirm fails, and in shadow mode the rejection is only noted.
func (w *world) probeHost(h *host) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d, consumer := w.gateways[0], uuidOf(0xf, 100*h.cell.n+h.n)
	got, err := d.scheduler().SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		RequestId: fmt.Sprintf("probe-%s", h.name), InstanceUuids: []string{consumer}, ClaimTtl: durationpb.New(10 * time.Second),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: memoryOf(1), RootGb: diskOf(1)}, ProjectId: "p",
			RequestedDestination: &cellgatev1.Destination{Host: h.name},
		}},
	})
	if w.plan.mode == agents.VerifySync {
		if fault.KindOf(err) != fault.NoValidHost {
			w.wrong("%s rejects a claim, and sync mode answers %v, %v", h.name, got, err)
		}
		return
	}
	if err != nil {
		w.wrong("nothing is placed on %s: %v", h.name, err)
		return
	}
	sleep(2 * time.Second) // the verdict has come
	claim := got.GetDestinations()[0].GetSelected().GetClaimId()
	_, err = d.claims().ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: consumer, ClaimId: claim})
	if want := map[agents.VerifyMode]fault.Kind{agents.VerifyAsync: fault.ClaimRejected}[w.plan.mode]; fault.KindOf(err) != want {
		w.wrong("%s rejects a claim, and its confirm in mode %s is %v", h.name, w.plan.mode, err)
	}
	if _, err := d.claims().ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: consumer, ClaimId: claim}); err != nil {
		w.wrong("a rejected claim on %s is not released: %v", h.name, err)
	}
}

// probeResync asks all hosts to start over. Each must report its whole state as a new version.
func (w *world) probeResync() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	before := map[string]uint64{}
	for _, h := range w.hosts {
		before[h.uuid] = h.version()
	}
	// Messages in flight then precede the Resync.
	for _, h := range w.hosts {
		for _, r := range h.cell.replicas {
			w.net.on(h.name, r.name, func(l *link) { l.late = 300 * time.Millisecond })
		}
		h.change(func() { h.io = (h.io + 1) % 4 })
	}
	defer w.net.heal()
	for _, c := range w.cells {
		got, err := w.gateways[0].hosts().ResyncHosts(ctx, &cellgatev1.ResyncHostsRequest{Cell: c.name, Reason: "a probe"})
		if err != nil || len(got.GetReplicas()) != len(c.replicas) {
			w.wrong("%s is asked to start over: %v, %v", c.name, got, err)
		}
		for _, r := range got.GetReplicas() {
			if int(r.GetHosts()) != w.plan.hostsEach || r.GetError() != "" {
				w.wrong("%s asked %d of %d hosts to start over: %s", r.GetReplica(), r.GetHosts(), w.plan.hostsEach, r.GetError())
			}
		}
	}
	sleep(30 * time.Second)
	for _, c := range w.cells {
		rows, _, err := shardtest.LoadRows(context.Background(), c.store)
		w.must(err)
		for _, h := range w.hosts {
			if h.cell == c && (h.version() == before[h.uuid] || rows.Hosts[h.uuid].StateVersion != h.version()) {
				w.wrong("%s was asked to start over: version %d, before %d, in its shard %d", h.name, h.version(), before[h.uuid], rows.Hosts[h.uuid].StateVersion)
			}
		}
	}
	w.count("started over")
}

// version returns the version of the agent's newest state.
func (h *host) version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, _ := h.agent.host.State()
	return s.GetVersion()
}
