package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// world is a gateway over real cells, all talking real gRPC in memory.
type world struct {
	t         testing.TB
	g         *Gateway
	cells     []*testCell
	servers   []*rpc.Server
	scheduler cellgatev1.SchedulerClient
	claims    cellgatev1.ClaimsClient
	cellsAPI  cellgatev1.CellsClient
	hosts     cellgatev1.HostsClient
	conn      *grpc.ClientConn
	rest      http.Handler
	telemetry *telemetry.Process
}

// start builds a world; change may alter the gateway's configuration. It waits
// until the cells have been asked once, and ends with the test.
func start(t testing.TB, cells []*testCell, change func(*Config)) *world {
	t.Helper()
	return startLogged(t, cells, change, slog.New(slog.DiscardHandler))
}

// startLogged is start with the gateway's log. A replica with a port is dialled
// over TCP.
func startLogged(t testing.TB, cells []*testCell, change func(*Config), log *slog.Logger) *world {
	t.Helper()
	return startWith(t, cells, change, Deps{Log: log})
}

// startWith is start with the given dependencies, except for the connections.
func startWith(t testing.TB, cells []*testCell, change func(*Config), deps Deps) *world {
	t.Helper()
	w := &world{t: t, cells: cells}
	listeners := &sync.Map{}
	dial := func(target string) (*grpc.ClientConn, error) {
		if strings.Contains(target, ":") {
			return rpc.Dial(target)
		}
		return rpc.Dial("passthrough:///"+target, grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
			l, ok := listeners.Load(name)
			if !ok {
				return nil, errors.New("nobody listens at " + name)
			}
			return l.(*bufconn.Listener).DialContext(ctx)
		}))
	}
	cfg := Config{}
	for _, c := range cells {
		c.run(t)
		s := c.real.Server
		w.servers = append(w.servers, s)
		w.serve(s, c.at, listeners)
		if c.shares == nil {
			cfg.Cells = append(cfg.Cells, cellclient.CellConfig{Name: c.name, UUID: c.uuid})
		}
		in := &cfg.Cells[slices.IndexFunc(cfg.Cells, func(x cellclient.CellConfig) bool { return x.Name == c.name })]
		in.Replicas = append(in.Replicas, c.at)
	}
	// The clock of a synctest bubble starts in 2000, and stands still while goroutines run.
	if time.Now().Year() > 2000 {
		patient(&cfg)
	}
	if change != nil {
		change(&cfg)
	}
	deps.Dial = dial
	var err error
	if w.telemetry, err = telemetry.New(telemetry.Traces{}, telemetry.Build{}, nil); err != nil {
		t.Fatal(err)
	}
	deps.Telemetry = w.telemetry.Gateway()
	g, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	w.g = g
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	s := rpc.NewServer(slog.New(slog.DiscardHandler), slices.Concat(g.ServerOptions(), deps.Telemetry.ServerOptions())...)
	g.Register(s)
	w.serve(s, "gateway", listeners)
	conn, err := dial("gateway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		for _, s := range w.servers {
			s.Stop()
		}
	})
	w.conn = conn
	w.scheduler, w.claims = cellgatev1.NewSchedulerClient(conn), cellgatev1.NewClaimsClient(conn)
	w.cellsAPI, w.hosts = cellgatev1.NewCellsClient(conn), cellgatev1.NewHostsClient(conn)
	if w.rest, err = g.HTTPHandler(conn); err != nil {
		t.Fatal(err)
	}
	<-g.Ready()
	return w
}

func (w *world) serve(s *rpc.Server, name string, listeners *sync.Map) {
	l := bufconn.Listen(1 << 16)
	listeners.Store(name, l)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); err != nil {
			w.t.Errorf("serve %s: %v", name, err)
		}
	}()
	w.t.Cleanup(func() { s.Stop(); <-ended })
}

// ask is a request for n instances numbered from first on, of 2 VCPU and 4 GiB.
func ask(first, n int) *cellgatev1.SelectDestinationsRequest {
	r := &cellgatev1.SelectDestinationsRequest{Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
		Flavor: &cellgatev1.Flavor{Name: "small", Vcpus: 2, MemoryMb: 4096, RootGb: 10}, ProjectId: "p1", UserId: "u1",
	}}}
	for i := range n {
		r.InstanceUuids = append(r.InstanceUuids, testUUID(0x1, first+i))
	}
	return r
}

func (w *world) choose(req *cellgatev1.SelectDestinationsRequest) *cellgatev1.SelectDestinationsResponse {
	w.t.Helper()
	resp, err := w.scheduler.SelectDestinations(context.Background(), req)
	if err != nil {
		w.t.Fatalf("SelectDestinations: %v", err)
	}
	return resp
}

// refused demands that a request fails with a kind, and gives the error.
func (w *world) refused(req *cellgatev1.SelectDestinationsRequest, kind fault.Kind) *fault.Error {
	w.t.Helper()
	resp, err := w.scheduler.SelectDestinations(context.Background(), req)
	return mustFail(w.t, resp, err, kind)
}

func mustFail(t testing.TB, resp any, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got %v, %v; want an error of kind %s", resp, err, kind)
	}
	return e
}

// liveClaims counts the live claims of all cells.
func (w *world) liveClaims() int {
	n := 0
	for _, c := range w.cells {
		n += len(c.live())
	}
	return n
}

func (w *world) send(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	w.rest.ServeHTTP(rec, r)
	return rec
}

func outcomes(reports []*cellgatev1.CellReport) string {
	var out []string
	for _, r := range reports {
		out = append(out, r.GetCell()+" "+r.GetOutcome().String())
	}
	return strings.Join(out, ", ")
}
