package comparison

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/agent"
	"cellgate/cell"
	"cellgate/gateway"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard/pebbleshard"
)

const cellUUID = "c0000000-0000-4000-8000-000000000001"

func allocations(host string, f flavor) []*cellgatev1.Allocation {
	return []*cellgatev1.Allocation{
		{ProviderUuid: host, ResourceClass: "VCPU", Amount: int32(f.vcpus)},
		{ProviderUuid: host, ResourceClass: "MEMORY_MB", Amount: int32(f.memoryMB)},
		{ProviderUuid: host, ResourceClass: "DISK_GB", Amount: int32(f.diskGB)},
	}
}

// stateOf returns the report of a compute's agent. The caller holds the compute's lock.
func stateOf(c *compute) *agentv1.FullState {
	root := &agentv1.Provider{Uuid: c.uuid, Name: c.name, Inventories: []*agentv1.Inventory{
		{ResourceClass: "VCPU", Total: int32(size.vcpus), AllocationRatio: 1},
		{ResourceClass: "MEMORY_MB", Total: int32(size.memoryMB), AllocationRatio: 1},
		{ResourceClass: "DISK_GB", Total: int32(size.diskGB), AllocationRatio: 1},
	}}
	s := &agentv1.FullState{
		Cell: "cell1", AgentVersion: agent.Version, HostUuid: c.uuid, ServiceHost: c.name, Nodename: c.name, Providers: []*agentv1.Provider{root},
	}
	for uuid, f := range c.instances {
		one := &agentv1.Instance{InstanceUuid: uuid}
		for _, a := range allocations(c.uuid, f) {
			one.Usages = append(one.Usages, &agentv1.Usage{ProviderUuid: a.GetProviderUuid(), ResourceClass: a.GetResourceClass(), Amount: a.GetAmount()})
		}
		s.Instances = append(s.Instances, one)
	}
	return s
}

// source provides the states of the computes' agents.
type source struct{ hosts []*agent.Host }

func (s *source) Hosts() []*agent.Host { return s.hosts }

func (*source) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// cellgateModel is a gateway over one cell, to which the computes' agents report. All parts use
// gRPC over loopback, and the shard is on disk.
type cellgateModel struct {
	scheduler cellgatev1.SchedulerClient
	claims    cellgatev1.ClaimsClient

	mu sync.Mutex
	// selections are the answers for instances that are under way or placed.
	selections map[string]*cellgatev1.Destinations
}

func newCellgate(t *testing.T, w *cloud) *cellgateModel {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	run := func(f func(context.Context) error) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- f(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	store, err := pebbleshard.Open(t.TempDir(), pebbleshard.Options{Cell: "cell1", CellUUID: cellUUID, Log: log})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	c, err := cell.New(cell.Config{Name: "cell1", UUID: cellUUID, Replica: "r1"}, cell.Deps{Store: store, Log: log})
	must(t, err)
	run(c.Run)
	<-c.Ready()
	cellAddr := serve(t, cell.ServerOptions(), c.Register)

	src := &source{}
	for _, c := range w.computes {
		h := agent.NewHost(stateOf(c))
		c.onChange = func(c *compute) { h.Put(stateOf(c)) }
		src.hosts = append(src.hosts, h)
	}
	fleet, err := agent.NewFleet(agent.FleetConfig{Cell: "cell1", Replicas: []string{cellAddr}}, agent.FleetDeps{
		Source: src, Dial: func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target) }, Log: log,
	})
	must(t, err)
	run(fleet.Run)
	select {
	case <-fleet.Ready():
	case <-time.After(testwait.Limit):
		t.Fatalf("%d of %d hosts are accepted after two minutes", fleet.Accepted(), len(w.computes))
	}

	g, err := gateway.New(gateway.Config{
		// The machine is loaded on purpose, and there is one cell to wait for.
		ProposeBudget: 10 * time.Second, ClaimBudget: 10 * time.Second,
		Cells: []gateway.CellConfig{{Name: "cell1", UUID: cellUUID, Replicas: []string{cellAddr}}},
	}, gateway.Deps{Log: log, Dial: func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target) }})
	must(t, err)
	run(g.Run)
	<-g.Ready()
	conn := dial(t, serve(t, g.ServerOptions(), g.Register))
	return &cellgateModel{
		scheduler: cellgatev1.NewSchedulerClient(conn), claims: cellgatev1.NewClaimsClient(conn),
		selections: map[string]*cellgatev1.Destinations{},
	}
}

// choose selects and claims a host. After a refusal it claims an alternate, as a conductor does. If
// no alternate is left, it selects anew.
func (m *cellgateModel) choose(ctx context.Context, instance string, f flavor, tried []string) (string, error) {
	if len(tried) > 0 {
		host, err := m.alternate(ctx, instance)
		if host != "" || err != nil {
			return host, err
		}
		if err := m.gone(ctx, instance); err != nil {
			return "", err
		}
	}
	out, err := m.scheduler.SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{instance}, ReturnAlternates: true,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor:      &cellgatev1.Flavor{Vcpus: int32(f.vcpus), MemoryMb: int32(f.memoryMB), RootGb: int32(f.diskGB)},
			IgnoreHosts: tried,
		}},
	})
	if fault.KindOf(err) == fault.NoValidHost {
		return "", errNoHost
	}
	if err != nil {
		return "", fmt.Errorf("select: %w", err)
	}
	d := out.GetDestinations()[0]
	m.mu.Lock()
	m.selections[instance] = d
	m.mu.Unlock()
	return d.GetSelected().GetComputeNodeUuid(), nil
}

// alternate claims the next alternate that still fits. It returns "" if none does.
func (m *cellgateModel) alternate(ctx context.Context, instance string) (string, error) {
	m.mu.Lock()
	d := m.selections[instance]
	m.mu.Unlock()
	for len(d.GetAlternates()) > 0 {
		a := d.GetAlternates()[0]
		d.Alternates = d.GetAlternates()[1:]
		_, err := m.claims.ClaimAlternate(ctx, &cellgatev1.ClaimAlternateRequest{
			ConsumerUuid: instance, ClaimId: d.GetSelected().GetClaimId(), HostUuid: a.GetComputeNodeUuid(), Cell: "cell1",
		})
		switch {
		case err == nil:
			return a.GetComputeNodeUuid(), nil
		case fault.KindOf(err) != fault.NoValidHost:
			return "", fmt.Errorf("claim alternate: %w", err)
		}
	}
	return "", nil
}

// gone gives the claim back, as a conductor does when it ends an instance.
func (m *cellgateModel) gone(ctx context.Context, instance string) error {
	m.mu.Lock()
	d := m.selections[instance]
	delete(m.selections, instance)
	m.mu.Unlock()
	_, err := m.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{
		ConsumerUuid: instance, ClaimId: d.GetSelected().GetClaimId(), Cell: "cell1",
	})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}
