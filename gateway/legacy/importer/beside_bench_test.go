package importer

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/celltest"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// BenchmarkBesideImport measures what four callers wait for a proposal and a claim of it in a cell of
// 10,000 imported hosts, for ten seconds each:
//
//	quiet   nothing is imported
//	333     333 rows are written, and imported, every two seconds
//	all     all hosts are imported anew, again and again, as when another gateway goes on
func BenchmarkBesideImport(b *testing.B) {
	if os.Getenv("CELLGATE_BENCH_LEGACY") == "" {
		b.Skip("a database of 10,000 hosts takes minutes: make bench-legacy")
	}
	server := legacytest.PostgreSQL.Shared(b)
	nova, api, clock := legacytest.Fleet(b, server, hosts)
	r, err := novadb.Open(b.Context(), novadb.Config{
		Cell: "cell1", Database: novadb.Database{URL: nova.URL}, API: novadb.Database{URL: api.URL},
		QueryTimeout: time.Minute, LoadTimeout: 10 * time.Minute, Overlap: time.Nanosecond, ServiceDownTime: 24 * time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	to := celltest.Start(b, "cell1", legacytest.FleetCell).Scheduler
	m, err := New(Config{Cell: "cell1", FullEvery: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	step := func(ctx context.Context, x *novadb.Snapshot) {
		for {
			got, err := m.Step(ctx, x, to)
			if ctx.Err() != nil {
				return
			}
			if err != nil || got.Refused > 0 {
				b.Error(err, got)
				return
			}
			if got.Waiting == 0 {
				return
			}
		}
	}
	x := loaded(b, r)
	report := &cellv1.ReportLegacyRequest{Gateway: "g1", Revision: 1, RequiredVersion: 66, Importer: true, Services: []*cellv1.LegacyService{{Host: "host", Version: 1, Up: true}}}
	send := func() {
		if _, err := to.ReportLegacy(b.Context(), report); err != nil {
			b.Fatal(err)
		}
		report.ImportedAge = durationpb.New(0)
	}
	send()
	step(b.Context(), x)
	send()
	if now := time.Now().UTC().Truncate(time.Second); now.After(clock) {
		clock = now
	}
	refresh := func(ctx context.Context) {
		clock = clock.Add(time.Second)
		if _, err := nova.DB.ExecContext(ctx, "UPDATE compute_nodes SET free_ram_mb = $1, updated_at = $2 WHERE id >= 1000 AND id < 1333", 16384+clock.Unix()%16384, clock); err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return
		}
		next, err := r.Refresh(ctx, x)
		if err == nil {
			x = next
			step(ctx, x)
		} else if ctx.Err() == nil {
			b.Error(err)
		}
	}
	for _, c := range []struct {
		name   string
		beside func(ctx context.Context)
	}{
		{"quiet", func(ctx context.Context) { <-ctx.Done() }},
		{"333", func(ctx context.Context) {
			for tick := time.NewTicker(2 * time.Second); ; {
				refresh(ctx)
				select {
				case <-tick.C:
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		}},
		{"all", func(ctx context.Context) {
			for ctx.Err() == nil {
				m.Again()
				step(ctx, x)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() { c.beside(ctx) })
			all.Go(func() {
				for ctx.Err() == nil {
					send()
					select {
					case <-time.After(2 * time.Second):
					case <-ctx.Done():
					}
				}
			})
			waits := make([][]time.Duration, 4)
			for n := range waits {
				all.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						began := time.Now()
						if err := selectOne(b.Context(), to, uint64(i*len(waits)+n)); err != nil {
							b.Error(err)
							return
						}
						waits[n] = append(waits[n], time.Since(began))
					}
				})
			}
			all.Wait()
			found := slices.Sorted(slices.Values(slices.Concat(waits...)))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(len(found))/10, "selections/s")
			b.ReportMetric(float64(found[len(found)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(found[len(found)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// selectOne asks for the best hosts, claims one of them, and releases it.
func selectOne(ctx context.Context, to cellv1.CellSchedulerClient, seed uint64) error {
	out, err := to.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{wiretest.Query(&schedule.Query{
		Seed: seed, Limit: 8, Rules: &schedule.Rules{DefaultAvailabilityZone: "nova"},
		Request: &schedule.Request{Resources: []schedule.Amount{{Class: "VCPU", N: 1}, {Class: "MEMORY_MB", N: 64}}},
	}, "", nil)}})
	if err != nil {
		return err
	}
	p := out.GetProposals()[0]
	if p.GetFailure() != nil || p.GetPassed() == 0 {
		return fmt.Errorf("proposed: %v, %d passed", p.GetFailure(), p.GetPassed())
	}
	all := wiretest.Hosts(p)
	host, id := all[seed%uint64(len(all))], uuid.NewString()
	made, err := to.ClaimBatch(ctx, &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{
		ClaimId: id, ConsumerUuid: id, HostUuid: host, Ttl: durationpb.New(time.Minute),
		Allocations: []*cellgatev1.Allocation{{ProviderUuid: host, ResourceClass: "VCPU", Amount: 1}, {ProviderUuid: host, ResourceClass: "MEMORY_MB", Amount: 64}},
	}}}}})
	if err != nil {
		return err
	}
	if refusal := made.GetOutcomes()[0].GetRefusal(); refusal != nil && refusal.GetReason() != "NO_VALID_HOST" {
		return fmt.Errorf("claimed: %v", refusal)
	}
	_, err = to.ClaimBatch(ctx, &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{{Op: &cellv1.ClaimOp_Release{Release: &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: id}}}}})
	return err
}
