package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/agent"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

const (
	hostVCPUs  = 8
	hostMemory = 16 << 10
	hostDisk   = 200
)

// host is a machine with its true state, and an agent that reports it.
type host struct {
	world      *world
	cell       *simCell
	name, uuid string
	n          int
	clock      clock

	mu       sync.Mutex
	vcpus    int32
	reserved int32
	io       int32
	disabled bool
	// instances run here now, stopped have run here.
	instances map[string]*agentv1.Instance
	stopped   map[string]bool
	strangers int
	agent     *agentRun
}

// agentRun is an incarnation of a host's agent.
type agentRun struct {
	host        *agent.Host
	incarnation *incarnation
	cancel      context.CancelFunc
	ended       chan error
}

func (w *world) newHost(c *simCell, n int) *host {
	return &host{
		world: w, cell: c, name: w.plan.hostName(c.n, n), uuid: uuidOf(0xa, 100*c.n+n+1), n: n, vcpus: hostVCPUs,
		instances: map[string]*agentv1.Instance{}, stopped: map[string]bool{},
	}
}

// Hosts and Run make the host a source of one host.
type oneHost struct{ h *agent.Host }

func (o oneHost) Hosts() []*agent.Host { return []*agent.Host{o.h} }

func (o oneHost) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// state returns the true state as a new message, which the agent owns. The caller holds mu.
func (h *host) state() *agentv1.FullState {
	s := &agentv1.FullState{
		Cell: h.cell.name, AgentVersion: 1, HostUuid: h.uuid, ServiceHost: h.name, Nodename: h.name,
		Disabled: h.disabled, IoWorkload: h.io,
		Providers: []*agentv1.Provider{{Uuid: h.uuid, Inventories: []*agentv1.Inventory{
			{ResourceClass: "VCPU", Total: h.vcpus, AllocationRatio: 1},
			{ResourceClass: "MEMORY_MB", Total: hostMemory, Reserved: h.reserved, AllocationRatio: 1},
			{ResourceClass: "DISK_GB", Total: hostDisk, AllocationRatio: 1},
		}}},
	}
	for _, i := range h.instances {
		s.Instances = append(s.Instances, i)
	}
	slices.SortFunc(s.Instances, func(a, b *agentv1.Instance) int {
		return compare(a.GetInstanceUuid(), b.GetInstanceUuid())
	})
	return s
}

// start starts the agent, unless it runs.
func (h *host) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.agent != nil {
		return
	}
	w := h.world
	t := &agentRun{host: agent.NewHost(h.state()), incarnation: newIncarnation(), ended: make(chan error, 1)}
	t.host.Claims().SetClock(h.clock.now)
	var replicas []string
	for _, r := range h.cell.replicas {
		replicas = append(replicas, r.name)
	}
	f, err := agent.NewFleet(agent.FleetConfig{Cell: h.cell.name, Replicas: replicas}, agent.FleetDeps{
		Source: oneHost{t.host}, Dial: w.net.dialer(h.name, t.incarnation), Log: w.log,
	})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go func() { t.ended <- f.Run(ctx) }()
	h.agent = t
	w.trace("%s starts its agent", h.name)
}

// killAgent kills the agent. Its connections break, and its ledger of claims is lost.
func (h *host) killAgent() {
	h.mu.Lock()
	t := h.agent
	h.agent = nil
	h.mu.Unlock()
	if t == nil {
		return
	}
	t.ends(h)
}

// change changes the true state. The agent, if it runs, reports it.
func (h *host) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	if h.agent != nil {
		h.agent.host.Put(h.state())
	}
}

// build starts an instance on a claim, as a compute service does. The agent takes the claim up
// first, and may refuse.
func (h *host) build(claim, instance string, usages []*agentv1.Usage) error {
	h.mu.Lock()
	t := h.agent
	h.mu.Unlock()
	if t == nil {
		return fault.New(fault.CellUnavailable, "the agent of %s is away", h.name)
	}
	if _, err := t.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{ClaimId: claim, InstanceUuid: instance, Usages: usages}); err != nil {
		return err
	}
	h.change(func() {
		h.instances[instance] = &agentv1.Instance{InstanceUuid: instance, ProjectId: "p", Usages: usages}
	})
	h.world.trace("%s runs %s", h.name, instance)
	return nil
}

// stop ends an instance.
func (h *host) stop(instance string) {
	h.change(func() {
		delete(h.instances, instance)
		h.stopped[instance] = true
	})
	h.world.trace("%s stopped %s", h.name, instance)
}

// stranger starts an instance that nobody asked cellgate for, even if it does not fit.
func (h *host) stranger(vcpus int32) {
	h.change(func() {
		h.strangers++
		id := uuidOf(0xd, 10_000*(100*h.cell.n+h.n+1)+h.strangers)
		h.instances[id] = &agentv1.Instance{InstanceUuid: id, ProjectId: "stranger", Usages: usagesOf(h.uuid, vcpus)}
	})
}

// claim makes an operation on the host take resources that no report shows. The host rejects claims
// of the cell that do not fit beside them.
func (h *host) claim(id string, lasts time.Duration, usages []*agentv1.Usage) error {
	h.mu.Lock()
	t := h.agent
	h.mu.Unlock()
	if t == nil {
		return nil
	}
	_, err := t.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{
		ClaimId: id, InstanceUuid: uuidOf(0xe, int(hash(id)%1_000_000)), Usages: usages, Ttl: durationpb.New(lasts),
	})
	h.world.trace("%s takes claim %s of %v: %s", h.name, id, usages, short(err))
	return err
}

// stopStranger stops the first stranger, if any.
func (h *host) stopStranger() {
	h.change(func() {
		for _, i := range h.state().GetInstances() {
			if i.GetProjectId() == "stranger" {
				delete(h.instances, i.GetInstanceUuid())
				h.stopped[i.GetInstanceUuid()] = true
				return
			}
		}
	})
}

// ran reports whether an instance has run here and was stopped.
func (h *host) ran(instance string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopped[instance]
}

// has reports whether an instance is on the host.
func (h *host) has(instance string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.instances[instance] != nil
}

// usagesOf returns what an instance of so many VCPUs uses.
func usagesOf(host string, vcpus int32) []*agentv1.Usage {
	return []*agentv1.Usage{
		{ProviderUuid: host, ResourceClass: "VCPU", Amount: vcpus},
		{ProviderUuid: host, ResourceClass: "MEMORY_MB", Amount: memoryOf(vcpus)},
		{ProviderUuid: host, ResourceClass: "DISK_GB", Amount: diskOf(vcpus)},
	}
}

func memoryOf(vcpus int32) int32 { return 1024 * vcpus }
func diskOf(vcpus int32) int32   { return 10 * vcpus }

func uuidOf(kind, n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n) }
