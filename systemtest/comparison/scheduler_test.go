package comparison

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc"

	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// scheduler is the gRPC server of a scheduler: conductors reach all three over loopback.
type scheduler struct {
	cellv1.UnimplementedCellSchedulerServer
	propose func(context.Context, *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error)
}

func (s *scheduler) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	return s.propose(ctx, req)
}

// dialScheduler serves a scheduler and returns a client of it.
func dialScheduler(t *testing.T, s *scheduler) cellv1.CellSchedulerClient {
	t.Helper()
	addr := serve(t, nil, func(r grpc.ServiceRegistrar) { cellv1.RegisterCellSchedulerServer(r, s) })
	return cellv1.NewCellSchedulerClient(dial(t, addr))
}

// serve serves on a port of its own until the test ends.
func serve(t *testing.T, options []grpc.ServerOption, register func(grpc.ServiceRegistrar)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, done := rpc.NewServer(slog.New(slog.DiscardHandler), options...), make(chan error, 1)
	register(server)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-done)
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(addr)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
