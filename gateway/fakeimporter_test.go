package gateway

import (
	"context"
	"sync"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// fakeImporter imports hosts as the stand-in's table names them.
type fakeImporter struct {
	to    HostImporter
	names *fakeStandIn

	mu      sync.Mutex
	offers  int
	dropped int
	// onlyInstances are those of offers that were of instances alone.
	onlyInstances int
	// unclaimed is what it says.
	unclaimed *cellv1.UnclaimedInstances
	// fails, when set, is why no host can be imported; tries counts who asked.
	fails error
	tries int
}

func (m *fakeImporter) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (m *fakeImporter) Offer(x *legacy.Snapshot, instancesOnly bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x == nil {
		m.dropped++
		return
	}
	if m.offers++; instancesOnly {
		m.onlyInstances++
	}
}

func (m *fakeImporter) ImportHost(ctx context.Context, _ *legacy.Snapshot, host schedule.ID) error {
	m.mu.Lock()
	m.tries++
	fails := m.fails
	m.mu.Unlock()
	if fails != nil {
		return fails
	}
	m.names.table.mu.Lock()
	h, ok := m.names.table.table.Host(host)
	m.names.table.mu.Unlock()
	if !ok {
		return fault.New(fault.NotFound, "no row has host %s", host)
	}
	_, err := m.to.ImportHosts(ctx, &cellv1.ImportHostsRequest{Hosts: []*cellv1.ImportedHost{{State: &agentv1.FullState{
		Providers: []*agentv1.Provider{{Uuid: host.String()}},
		BootId:    testUUID(0xb, 1), Version: 1, HostUuid: host.String(), ServiceHost: h.ServiceHost, Nodename: h.NodeName,
	}}}})
	return err
}

// fail has imports fail from now on, nil: succeed. It gives how many were tried so far.
func (m *fakeImporter) fail(err error) (tries int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = err
	return m.tries
}

func (m *fakeImporter) Unclaimed() *cellv1.UnclaimedInstances {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unclaimed
}
