package systemtest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/agent"
	"cellgate/cell"
	"cellgate/gateway"
	"cellgate/internal/bench"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard/pebbleshard"
)

// BenchmarkSelections loads a gateway over ten cells of 1,000 hosts with the mix of "cellgate
// bench". TCP, telemetry and shards on disk are part of the measurement, agents are not. Read the
// CPU time of all parts and the client per selection: other load on the machine changes it little.
// One op is one second of load (-benchtime 5x).
func BenchmarkSelections(b *testing.B) {
	conns := benchSystem(b, benchSize("CELLGATE_BENCH_CELLS", 10), benchSize("CELLGATE_BENCH_HOSTS", 1000))
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var began, ended used
			result := bench.Run(context.Background(), conns, bench.Load{
				Callers: callers, Warmup: time.Second, Duration: time.Duration(b.N) * time.Second, CallWithin: 30 * time.Second,
				Shape: bench.Mix, Release: bench.ReleaseEnd, Seed: 1,
				Begin: func() { began = usage(b) }, End: func() { ended = usage(b) },
			})
			for text, n := range result.Errors {
				b.Errorf("%d times: %s", n, text)
			}
			n := float64(max(result.Selections, 1))
			b.ReportMetric(float64((ended.cpu-began.cpu).Microseconds())/n, "cpu-us/selection")
			b.ReportMetric(float64(ended.objects-began.objects)/n, "allocs/selection")
			b.ReportMetric(float64(ended.bytes-began.bytes)/1024/n, "KiB/selection")
			b.ReportMetric(result.SelectionsPerSecond, "selections/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchSize(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return otherwise
}

// used is the resources that the process has used since it started.
type used struct {
	cpu            time.Duration
	objects, bytes uint64
}

func usage(b *testing.B) used {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano()), objects: m.Mallocs, bytes: m.TotalAlloc}
}

// benchSystem runs cells with registered hosts, and a gateway. It returns two connections to the
// gateway.
func benchSystem(b *testing.B, cells, hosts int) []grpc.ClientConnInterface {
	log := slog.New(slog.DiscardHandler)
	process, err := telemetry.New(telemetry.Traces{}, telemetry.Build{}, log)
	check(b, err)
	dial := func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target, telemetry.DialOption()) }
	cfg := gateway.Config{ProposeBudget: 2 * time.Second}
	for i := range cells {
		name, uuid := fmt.Sprintf("cell%d", i+1), uuidOf(0xc, i+1)
		store, err := pebbleshard.Open(b.TempDir(), pebbleshard.Options{Cell: name, CellUUID: uuid, Log: log})
		check(b, err)
		b.Cleanup(func() { check(b, store.Close()) })
		tel := process.Cell(name, name)
		c, err := cell.New(cell.Config{Name: name, UUID: uuid, Replica: name, ServiceDownTime: time.Hour}, cell.Deps{Store: store, Log: log, Telemetry: tel})
		check(b, err)
		running(b, c.Run, c.Ready())
		addr := serving(b, append(cell.ServerOptions(), tel.ServerOptions()...), c.Register)
		registerAll(b, addr, name, hosts)
		cfg.Cells = append(cfg.Cells, gateway.CellConfig{Name: name, UUID: uuid, Replicas: []string{addr}})
	}
	tel := process.Gateway()
	g, err := gateway.New(cfg, gateway.Deps{Log: log, Dial: dial, Telemetry: tel})
	check(b, err)
	running(b, g.Run, g.Ready())
	addr := serving(b, append(g.ServerOptions(), tel.ServerOptions()...), g.Register)
	var conns []grpc.ClientConnInterface
	for range 2 {
		conn, err := rpc.Dial(addr)
		check(b, err)
		b.Cleanup(func() { check(b, conn.Close()) })
		conns = append(conns, conn)
	}
	return conns
}

// running runs a process until the benchmark ends. It returns when the process is ready.
func running(b *testing.B, f func(context.Context) error, ready <-chan struct{}) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	b.Cleanup(func() {
		cancel()
		check(b, <-done)
	})
	<-ready
}

// serving serves on a port of its own until the benchmark ends, and gives the address.
func serving(b *testing.B, options []grpc.ServerOption, register func(grpc.ServiceRegistrar)) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	server, done := rpc.NewServer(slog.New(slog.DiscardHandler), options...), make(chan error, 1)
	register(server)
	go func() { done <- server.Serve(l) }()
	b.Cleanup(func() {
		server.Stop()
		check(b, <-done)
	})
	return l.Addr().String()
}

// registerAll reports every simulated host of a cell once.
func registerAll(b *testing.B, addr, cell string, hosts int) {
	conn, err := rpc.Dial(addr)
	check(b, err)
	defer func() { check(b, conn.Close()) }()
	const together = 64
	var all sync.WaitGroup
	for from := range together {
		all.Go(func() {
			for i := from; i < hosts; i += together {
				state := agent.Simulate(1, cell, i)
				state.BootId, state.Version = uuidOf(0xb, i), 1
				if err := registerOne(conn, state); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func registerOne(conn *grpc.ClientConn, state *agentv1.FullState) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := agentv1.NewHostReportsClient(conn).Report(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: state}}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err == nil && answer.GetAccepted() == nil {
		err = fmt.Errorf("host %s: %v", state.GetServiceHost(), answer)
	}
	return err
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
