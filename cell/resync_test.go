package cell

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	hostagent "cellgate/agent"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// A host that must start over is asked for its whole state. Its earlier messages do not count any
// more, and other hosts are not affected.
func TestRegistration_UnknownVersion_AsksForTheFullState(t *testing.T) {
	r := start(t, newStore(t))
	a := r.register(plainState(1, 8))
	b := r.register(plainState(2, 8))
	out, err := r.cells.ResyncHosts(context.Background(), &cellv1.ResyncHostsRequest{HostUuid: hostUUID(1), Reason: "a test"})
	if err != nil || out.GetHosts() != 1 || out.GetWithin().AsDuration() != 0 {
		t.Fatalf("answered %v, %v", out, err)
	}
	m, err := a.stream.Recv()
	if err != nil || m.GetResync().GetEpoch() != 1 || !m.GetResync().GetRenew() || m.GetResync().GetReason() != "a test" {
		t.Fatalf("the agent is told %v, %v", m, err)
	}
	for name, m := range map[string]*agentv1.ReportResponse{
		"a delta": a.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, IoWorkload: proto.Int32(1)}),
		"a state": a.report(plainState(1, 8)),
	} {
		if m.GetResync().GetEpoch() != 1 {
			t.Errorf("%s of before: %v", name, m)
		}
	}
	whole := plainState(1, 8)
	whole.Version, whole.Epoch = 2, 1
	if m := a.report(whole); m.GetAccepted().GetVersion() != 2 {
		t.Errorf("the whole state: %v", m)
	}
	if m := a.delta(&agentv1.Delta{BaseVersion: 2, Version: 3, Epoch: 1, IoWorkload: proto.Int32(1)}); m.GetAccepted().GetVersion() != 3 {
		t.Errorf("a delta after it: %v", m)
	}
	if m := b.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, IoWorkload: proto.Int32(1)}); m.GetAccepted() == nil {
		t.Errorf("another host: %v", m)
	}
	if out, err := r.cells.ResyncHosts(context.Background(), &cellv1.ResyncHostsRequest{HostUuid: hostUUID(9)}); err != nil || out.GetHosts() != 0 {
		t.Errorf("a host without an agent: %v, %v", out, err)
	}
}

// All hosts of a cell with two replicas, with real agents, start over. Each state is written again
// exactly once, and the writes are spread over the given time.
func TestAllHostsStartOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 20
		store := newStore(t)
		one, two := start(t, store, named("r1")), start(t, store, named("r2"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		for n := range hosts {
			host := hostagent.NewHost(plainState(n+1, 8))
			for _, r := range []*testCell{one, two} {
				rep := hostagent.NewReporter(hostagent.ReporterDeps{Client: r.hosts, Replica: r.cell.cfg.Replica}, host)
				go func() { ended <- rep.Run(ctx) }()
			}
		}
		time.Sleep(5 * time.Second) // all are accepted
		puts := applied(store)
		for _, r := range []*testCell{one, two} {
			out, err := r.cells.ResyncHosts(ctx, &cellv1.ResyncHostsRequest{Reason: "a test"})
			if err != nil || out.GetHosts() != hosts || out.GetWithin().AsDuration() != (hosts-1)*resyncEach {
				t.Errorf("%s: %v, %v", r.cell.cfg.Replica, out, err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, r := range []*testCell{one, two} {
			for n := range hosts {
				if h := r.cell.rows.Host(hostUUID(n + 1)).Host; h.StateVersion != 2 {
					t.Errorf("%s has version %d of host %d", r.cell.cfg.Replica, h.StateVersion, n+1)
				}
			}
		}
		if n := puts(); n != hosts {
			t.Errorf("%d writes of %d hosts", n, hosts)
		}
		cancel()
		for range 2 * hosts {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
