package celltest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/cell"
	"cellgate/cell/agents"
	"cellgate/cell/replica"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// Config describes a cell. Name and UUID are required.
type Config struct {
	Name, UUID string
	// Replica is r1 unless it is set.
	Replica string
	// Store is closed by its owner. Nil means a new one in memory, which the cell closes.
	Store shard.Store
	// Hosts are in the shard before the cell starts.
	Hosts []*agentv1.FullState
	// Change alters the configuration of the cell.
	Change func(*cell.Config)
	// Intercept stands between callers and the cell at Server, not at Scheduler, Reports and Placement; nil for
	// no Server.
	Intercept grpc.UnaryServerInterceptor
}

// Cell is a running cell.
type Cell struct {
	Scheduler cellv1.CellSchedulerClient
	Reports   agentv1.HostReportsClient
	Placement cellv1.CellPlacementClient
	Store     shard.Store
	// Connect makes a connection to the cell's own server.
	Connect func(context.Context) (net.Conn, error)
	// Stop stops the cell; the end of the test does, too.
	Stop func()
	// Server serves the cell behind Config.Intercept. It listens where a test wants it to.
	Server *rpc.Server
}

// Start starts a cell and waits until it is ready. Its hosts stay up for an hour after their agents'
// last report. The test stops it.
func Start(t testing.TB, name, uuid string) Cell {
	t.Helper()
	return Run(t, Config{Name: name, UUID: uuid})
}

// On is Start with a store, which the test closes.
func On(t testing.TB, store shard.Store, name, uuid string) Cell {
	t.Helper()
	t.Cleanup(func() { check(t, store.Close()) })
	return Run(t, Config{Name: name, UUID: uuid, Store: store})
}

// Run is Start with every option.
func Run(t testing.TB, c Config) Cell {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if c.Replica == "" {
		c.Replica = "r1"
	}
	if c.Store == nil {
		store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: c.Name, CellUUID: c.UUID, Log: log})
		check(t, err)
		t.Cleanup(func() { check(t, store.Close()) })
		c.Store = store
	}
	register(t, c)
	config := cell.Config{Name: c.Name, UUID: c.UUID, Replica: c.Replica, ServiceDownTime: time.Hour}
	if c.Change != nil {
		c.Change(&config)
	}
	made, err := cell.New(config, cell.Deps{Store: c.Store, Log: log})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	server, l := rpc.NewServer(log, cell.ServerOptions()...), bufconn.Listen(1<<16)
	made.Register(server)
	go func() { ran <- made.Run(ctx) }()
	go func() { served <- server.Serve(l) }()
	conn, err := rpc.Dial("passthrough:///cell", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	check(t, err)
	connect := func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) }
	stop := sync.OnceFunc(func() {
		err := conn.Close()
		server.Stop()
		cancel()
		check(t, errors.Join(err, <-served, <-ran))
	})
	out := Cell{
		Connect: connect, Stop: stop, Store: c.Store,
		Scheduler: cellv1.NewCellSchedulerClient(conn), Reports: agentv1.NewHostReportsClient(conn), Placement: cellv1.NewCellPlacementClient(conn),
	}
	if c.Intercept != nil {
		out.Server = rpc.NewServer(log, append(cell.ServerOptions(), grpc.ChainUnaryInterceptor(c.Intercept))...)
		made.Register(out.Server)
	}
	t.Cleanup(stop)
	<-made.Ready()
	return out
}

// register writes the initial hosts through the replica's lane.
func register(t testing.TB, c Config) {
	t.Helper()
	if len(c.Hosts) == 0 {
		return
	}
	lane, err := c.Store.OpenLane(context.Background(), c.Replica)
	check(t, err)
	var ops []shard.Op
	for _, state := range c.Hosts {
		put, _, err := agents.ReadHost(state, replica.NewFacts)
		check(t, err)
		ops = append(ops, shard.Op{PutHost: put})
	}
	done, err := lane.Apply(context.Background(), ops)
	check(t, err)
	for i, o := range done.Outcomes {
		if o.Refusal != nil {
			t.Fatalf("host %s: %v", c.Hosts[i].GetServiceHost(), o.Refusal)
		}
	}
}

// Report sends a state as the agent of a host, on a new stream, and waits until the cell has accepted
// it.
func (c Cell) Report(t testing.TB, state *agentv1.FullState) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := c.Reports.Report(ctx)
	check(t, err)
	check(t, stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: state}}))
	answer, err := stream.Recv()
	check(t, err)
	if answer.GetAccepted() == nil {
		t.Fatalf("the state of host %s: %v", state.GetServiceHost(), answer)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
