package cell

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"cellgate/internal/wire/wiretest"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// fleet is a running cell with n hosts of several sizes, registered through
// the pipeline without streams.
func fleet(b *testing.B, store shard.Store, n int, vcpus int32) *testCell {
	b.Helper()
	r := start(b, store)
	draw := rand.New(rand.NewPCG(1, 2))
	var ops []shard.Op
	for i := range n {
		s := plainState(i, vcpus*(1+draw.Int32N(4)))
		s.Providers[0].Traits = []string{fmt.Sprintf("CUSTOM_T%d", draw.IntN(8))}
		s.Aggregates = []*agentv1.Aggregate{{Uuid: hostUUID(900 + i%3), Metadata: map[string]string{"availability_zone": fmt.Sprintf("az%d", i%3)}}}
		put, err := readHost(s)
		if err != nil {
			b.Fatal(err)
		}
		ops = append(ops, shard.Op{PutHost: put})
	}
	answers, err := r.cell.queue.Do(context.Background(), ops, true)
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil || a.Outcome.Refusal != nil {
			b.Fatal(a)
		}
	}
	return r
}

// flavor is a usual query: three classes, a trait, ten candidates.
func flavor(i int) *cellv1.Query {
	return &cellv1.Query{Limit: 10, Seed: uint64(i), ConsumerUuids: []string{consumerUUID(i)}, Placement: serialized(&cellv1.Placement{
		Resources: []*cellv1.Amount{
			{ResourceClass: "VCPU", Amount: 2}, {ResourceClass: "MEMORY_MB", Amount: 4096}, {ResourceClass: "DISK_GB", Amount: 20},
		},
		AvailabilityZone: "az1",
		Consume:          &cellv1.Consumption{Vcpus: 2, MemoryMb: 4096, DiskMb: 20480},
	})}
}

// BenchmarkProposeBatch goes through gRPC over memory: encoding, validation and
// transport count. One op is one call.
func BenchmarkProposeBatch(b *testing.B) {
	for _, hosts := range []int{1000, 10000} {
		for _, size := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("hosts=%d/queries=%d", hosts, size), func(b *testing.B) {
				r := fleet(b, newStore(b), hosts, 16)
				req := &cellv1.ProposeBatchRequest{}
				for i := range size {
					req.Queries = append(req.Queries, flavor(i))
				}
				b.ReportAllocs()
				for b.Loop() {
					out, err := r.cells.ProposeBatch(context.Background(), req)
					if err != nil {
						b.Fatal(err)
					}
					if len(wiretest.Hosts(out.GetProposals()[0])) != 10 {
						b.Fatal(out.GetProposals()[0])
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/query")
			})
		}
	}
}

// BenchmarkClaimPipeline claims from many callers on a shard on disk. The table shows every claim
// before it is answered. One op is one durable claim.
func BenchmarkClaimPipeline(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store, err := pebbleshard.Open(b.TempDir(), pebbleshard.Options{Cell: "cell1", CellUUID: cellUUID, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := store.Close(); err != nil {
					b.Error(err)
				}
			})
			r := fleet(b, store, 1000, 1<<20)
			var next atomic.Int64
			written := func() (n uint64) {
				for _, seq := range r.cell.journal.Position() {
					n += seq
				}
				return n
			}
			before := written()
			done := make(chan struct{})
			b.ResetTimer()
			for range callers {
				go func() {
					defer func() { done <- struct{}{} }()
					for {
						n := int(next.Add(1))
						if n > b.N {
							return
						}
						op, err := opOf(newClaim(fmt.Sprintf("k%d", n), n, n%1000, 1))
						if err != nil {
							b.Error(err)
							return
						}
						answers, err := r.cell.queue.Do(context.Background(), []shard.Op{op}, true)
						if err != nil || answers[0].Err != nil || answers[0].Outcome.Refusal != nil {
							b.Errorf("claim %d: %v %v", n, answers, err)
							return
						}
					}
				}()
			}
			for range callers {
				<-done
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
			b.ReportMetric(float64(b.N)/float64(max(written()-before, 1)), "claims/transaction")
		})
	}
}
