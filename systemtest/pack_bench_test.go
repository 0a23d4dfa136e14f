package systemtest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell"
	"cellgate/gateway"
	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard/pebbleshard"
)

// BenchmarkPackFirst fills a cell of 800 hosts to nine tenths through one gateway, then through
// eight, with 64 callers in all. All gateways pack: the host with the least free memory is first.
// order=kept always claims the first candidate; order=spread picks among the best while claims
// conflict. One op is one instance. Compare refusals/claim, which the machine's load changes
// little.
func BenchmarkPackFirst(b *testing.B) {
	for _, keep := range []bool{true, false} {
		name := map[bool]string{true: "order=kept", false: "order=spread"}[keep]
		for _, schedulers := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/schedulers=%d", name, schedulers), func(b *testing.B) { packFirst(b, schedulers, keep) })
		}
	}
}

func packFirst(b *testing.B, schedulers int, keep bool) {
	const hosts, callers = 800, 64
	log := slog.New(slog.DiscardHandler)
	store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: "cell1", CellUUID: uuidOf(0xc, 1), Log: log})
	check(b, err)
	b.Cleanup(func() { check(b, store.Close()) })
	c, err := cell.New(cell.Config{Name: "cell1", UUID: uuidOf(0xc, 1), Replica: "r1", ServiceDownTime: time.Hour}, cell.Deps{Store: store, Log: log})
	check(b, err)
	running(b, c.Run, c.Ready())
	addr := serving(b, nil, c.Register)
	registerPlain(b, addr, hosts)

	var made, refused atomic.Int64
	count := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if out, ok := reply.(*cellv1.ClaimBatchResponse); ok && err == nil {
			for i, o := range out.GetOutcomes() {
				if req.(*cellv1.ClaimBatchRequest).GetOps()[i].GetClaim() == nil {
					continue
				}
				if o.GetRefusal() != nil {
					refused.Add(1)
				} else {
					made.Add(1)
				}
			}
		}
		return err
	})
	var clients []cellgatev1.SchedulerClient
	for range schedulers {
		g, err := gateway.New(gateway.Config{
			ProposeBudget: 20 * time.Second, ClaimBudget: 20 * time.Second, MaxDeadline: 60 * time.Second,
			Breaker:   gateway.BreakerConfig{ProbeBudget: 20 * time.Second},
			Config:    rules.Config{Weighers: []rules.WeigherConfig{{Name: "RAMWeigher", Multiplier: -1}}},
			KeepOrder: keep,
			Cells:     []gateway.CellConfig{{Name: "cell1", UUID: uuidOf(0xc, 1), Replicas: []string{addr}}},
		}, gateway.Deps{Log: log, Dial: func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target, count) }})
		check(b, err)
		running(b, g.Run, g.Ready())
		conn, err := rpc.Dial(serving(b, nil, g.Register))
		check(b, err)
		b.Cleanup(func() { check(b, conn.Close()) })
		clients = append(clients, cellgatev1.NewSchedulerClient(conn))
	}
	most := min(b.N, hosts*(hostVCPUs/2)*9/10)
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		all.Go(func() {
			for {
				n := int(next.Add(1))
				if n > most {
					return
				}
				r := request(fmt.Sprintf("pack-%d", n), n, 1)
				r.ClaimTtl = durationpb.New(time.Hour)
				if _, err := clients[caller%schedulers].SelectDestinations(context.Background(), r); err != nil {
					b.Errorf("instance %d: %v (%s)", n, err, fault.KindOf(err))
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	if made.Load() != int64(most) {
		b.Errorf("%d claims were made for %d instances", made.Load(), most)
	}
	b.ReportMetric(float64(refused.Load())/float64(most), "refusals/claim")
	b.ReportMetric(float64(most), "claims")
}

// registerPlain reports hosts that hold four instances each.
func registerPlain(b *testing.B, addr string, hosts int) {
	conn, err := rpc.Dial(addr)
	check(b, err)
	defer func() { check(b, conn.Close()) }()
	for n := range hosts {
		state := hostState(n, 1)
		state.Cell = "cell1"
		for _, inv := range state.GetProviders()[0].GetInventories() {
			if inv.GetResourceClass() == "MEMORY_MB" {
				inv.Total = 1 << 13
			}
		}
		check(b, registerOne(conn, state))
	}
}
