package cell

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	hostagent "cellgate/agent"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard/pebbleshard"
)

// BenchmarkReconcile measures one reconciliation of a replica with a shard on disk, over hosts with
// eight adopted instances each. That is the cost of every cell.reconcile_interval. "audits" is the
// part that reads hosts from the shard, at most 512 of them.
func BenchmarkReconcile(b *testing.B) {
	const instances = 8
	for _, hosts := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			store, err := pebbleshard.Open(b.TempDir(), pebbleshard.Options{Cell: "cell1", CellUUID: cellUUID, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := store.Close(); err != nil {
					b.Error(err)
				}
			})
			r := start(b, store, func(c *Config) { c.ReconcileInterval = 1000 * time.Hour })
			reportAll(b, r, hosts, instances)
			b.Run("look", func(b *testing.B) { looks(b, r, hosts) })
		})
	}
}

// reportAll connects so many agents with instances, and waits until all are accepted.
func reportAll(b *testing.B, r *testCell, hosts, instances int) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var accepted, ended sync.WaitGroup
	b.Cleanup(func() { cancel(); ended.Wait() })
	var client agentv1.HostReportsClient
	for n := range hosts {
		if n%250 == 0 {
			conn, err := r.dial()
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { conn.Close() })
			client = agentv1.NewHostReportsClient(conn)
		}
		s := plainState(n, 64)
		for i := range instances {
			s.Instances = append(s.Instances, &agentv1.Instance{InstanceUuid: consumerUUID(n*instances + i), Usages: []*agentv1.Usage{
				{ProviderUuid: hostUUID(n), ResourceClass: "VCPU", Amount: 2}, {ProviderUuid: hostUUID(n), ResourceClass: "MEMORY_MB", Amount: 4096},
			}})
		}
		accepted.Add(1)
		once := sync.OnceFunc(accepted.Done)
		rep := hostagent.NewReporter(hostagent.ReporterDeps{
			Client: client, Replica: r.cell.cfg.Replica, Accepted: func(time.Duration) { once() },
		}, hostagent.NewHost(s))
		ended.Go(func() { _ = rep.Run(ctx) })
	}
	accepted.Wait()
}

func looks(b *testing.B, r *testCell, hosts int) {
	b.ReportAllocs()
	rec := r.cell.reconcile
	for b.Loop() {
		if err := rec.CompareAll(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	if by, compared, _ := rec.Reading(); compared != hosts || len(by) > 0 {
		b.Fatalf("%d of %d hosts compared, findings %v", compared, hosts, by)
	}
}
