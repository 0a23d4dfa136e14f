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
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// Cell is a cell that answers.
type Cell struct {
	Scheduler cellv1.CellSchedulerClient
	Reports   agentv1.HostReportsClient
	// Connect makes a connection to the cell's server.
	Connect func(context.Context) (net.Conn, error)
	// Stop stops the cell; the end of the test does, too.
	Stop func()
}

// Start starts a cell that is ready, and whose hosts are up for an hour after their agents'
// last word. The test stops it.
func Start(t testing.TB, name, uuid string) Cell {
	t.Helper()
	store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: name, CellUUID: uuid, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return On(t, store, name, uuid)
}

// On is Start on a store, which it closes.
func On(t testing.TB, store shard.Store, name, uuid string) Cell {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := cell.New(cell.Config{Name: name, UUID: uuid, Replica: "r1", ServiceDownTime: time.Hour}, cell.Deps{Store: store, Log: log})
	check(err)
	server, l := rpc.NewServer(log, cell.ServerOptions()...), bufconn.Listen(1<<16)
	c.Register(server)
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	go func() { served <- server.Serve(l) }()
	conn, err := rpc.Dial("passthrough:///cell", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	check(err)
	stop := sync.OnceFunc(func() {
		err := conn.Close()
		server.Stop()
		cancel()
		if err := errors.Join(err, <-served, <-ran, store.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	<-c.Ready()
	return Cell{Scheduler: cellv1.NewCellSchedulerClient(conn), Reports: agentv1.NewHostReportsClient(conn), Connect: l.DialContext, Stop: stop}
}
