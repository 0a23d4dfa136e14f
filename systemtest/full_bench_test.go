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
	"cellgate/internal/fault"
	"cellgate/internal/pgtest"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard/sqlshard"
)

// BenchmarkFullCell asks a full cell of 100 hosts on PostgreSQL for one more instance, which fails
// with NO_VALID_HOST. Before it answers so, a cell of two replicas reads the other replica's
// writes; a single replica does not. Compare the two within one run.
func BenchmarkFullCell(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		for _, replicas := range []int{1, 2} {
			b.Run(fmt.Sprintf("callers=%d/replicas=%d", callers, replicas), func(b *testing.B) { askFull(b, callers, replicas) })
		}
	}
}

func askFull(b *testing.B, callers, replicas int) {
	const hosts = 100
	log := slog.New(slog.DiscardHandler)
	url := pgtest.Start(b).NewDatabase(b)
	cfg := gateway.CellConfig{Name: "cell1", UUID: uuidOf(0xc, 1)}
	for i := range replicas {
		store, err := sqlshard.Open(b.Context(), sqlshard.Options{Cell: cfg.Name, CellUUID: cfg.UUID, URL: url, Migrate: true, Log: log})
		check(b, err)
		b.Cleanup(func() { check(b, store.Close()) })
		c, err := cell.New(cell.Config{Name: cfg.Name, UUID: cfg.UUID, Replica: fmt.Sprintf("r%d", i+1), ServiceDownTime: time.Hour}, cell.Deps{Store: store, Log: log})
		check(b, err)
		running(b, c.Run, c.Ready())
		addr := serving(b, cell.ServerOptions(), c.Register)
		registerPlain(b, addr, hosts)
		cfg.Replicas = append(cfg.Replicas, addr)
	}
	g, err := gateway.New(gateway.Config{Cells: []gateway.CellConfig{cfg}, ProposeBudget: 20 * time.Second, MaxDeadline: 60 * time.Second},
		gateway.Deps{Log: log, Dial: func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target) }})
	check(b, err)
	running(b, g.Run, g.Ready())
	conn, err := rpc.Dial(serving(b, g.ServerOptions(), g.Register))
	check(b, err)
	b.Cleanup(func() { check(b, conn.Close()) })
	client := cellgatev1.NewSchedulerClient(conn)
	var next atomic.Int64
	one := func() error {
		n := int(next.Add(1))
		r := request(fmt.Sprintf("full-%d", n), n, 1)
		r.ClaimTtl = durationpb.New(time.Hour)
		_, err := client.SelectDestinations(context.Background(), r)
		return err
	}
	for kind := fault.Kind(""); kind != fault.NoValidHost; {
		if kind = fault.KindOf(one()); next.Load() > 10*hosts {
			b.Fatalf("the cell does not fill: %v", kind)
		}
	}
	var asked atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for int(asked.Add(1)) <= b.N {
				if err := one(); fault.KindOf(err) != fault.NoValidHost {
					b.Errorf("%v", err)
					return
				}
			}
		})
	}
	all.Wait()
}
