package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	goproto "google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/health"
	"cellgate/internal/ingress"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	"cellgate/proto"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// MaxBody is the largest request body that is read, in bytes.
const MaxBody = rpc.MaxMessageBytes

// Deps are the parts of the gateway that the REST API needs.
type Deps struct {
	// Conn is a connection to the gateway's own gRPC server.
	Conn *grpc.ClientConn
	// Admit admits or refuses a request for a gRPC method before its body is read. The
	// caller calls leave when the request is answered.
	Admit func(r *http.Request, method string) (admitted *http.Request, leave func(), err error)
	// Outgoing gives the context of the gRPC call that an admitted request becomes.
	Outgoing func(context.Context) context.Context
	// Check refuses a message that gRPC would fail to decode.
	Check func(message any) error
	// Ingress bounds the bytes of bodies; nil: they are not bounded in total.
	Ingress *ingress.Ingress
	Health  *health.Monitor
	// Console serves the pages at ConsolePaths, Events GET /v1/events; see gateway/console.
	Console      http.Handler
	ConsolePaths []string
	Events       http.Handler
	// Telemetry may be nil.
	Telemetry telemetry.Gateway
	Log       *slog.Logger
}

// api is the REST API of one gateway.
type api struct {
	Deps
	calls calls
}

// New serves the REST API by calling the gateway's own gRPC server over
// Deps.Conn, so that limits and errors are one path. JSON has the proto's field names;
// a field that is unknown, or has a value of a wrong type, is refused by name.
//
//	/              the console, or for a client that is no browser what there is
//	/v1/…          the API, as its protos say
//	/v1/events     the state of cells and decisions, as server-sent events
//	/healthz       200 while the process is alive, else 503; see health.go
//	/readyz        200 while new requests are welcome, else 503; see health.go
//	/openapi.json  the API's description
//	/metrics       the process's metrics, for Prometheus; only with Telemetry
//
// Every error, on any path, has the body that httpError describes; those of
// /healthz and /readyz are health.Reports, which say each check and why.
func New(d Deps) (http.Handler, error) {
	a := &api{Deps: d, calls: callsOf(
		cellgatev1.File_cellgate_v1_scheduler_proto, cellgatev1.File_cellgate_v1_claims_proto,
		cellgatev1.File_cellgate_v1_cells_proto, cellgatev1.File_cellgate_v1_hosts_proto,
		cellgatev1.File_cellgate_v1_capacity_proto,
	)}
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &jsonForm{runtime.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
		}}),
		runtime.WithErrorHandler(a.handleError),
		runtime.WithRoutingErrorHandler(a.handleRouting),
		runtime.WithMiddlewares(a.check),
		runtime.WithMetadata(telemetry.FromHTTP),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
	)
	client := bounded{d.Conn, a}
	err := errors.Join(
		cellgatev1.RegisterSchedulerHandlerClient(context.Background(), mux, cellgatev1.NewSchedulerClient(client)),
		cellgatev1.RegisterClaimsHandlerClient(context.Background(), mux, cellgatev1.NewClaimsClient(client)),
		cellgatev1.RegisterCellsHandlerClient(context.Background(), mux, cellgatev1.NewCellsClient(client)),
		cellgatev1.RegisterHostsHandlerClient(context.Background(), mux, cellgatev1.NewHostsClient(client)),
		cellgatev1.RegisterCapacityHandlerClient(context.Background(), mux, cellgatev1.NewCapacityClient(client)),
	)
	if err != nil {
		return nil, fmt.Errorf("register the REST API: %w", err)
	}
	// A browser sends requests for pages of any site, so cross-origin requests are refused.
	pages := http.NewCrossOriginProtection()
	root := http.NewServeMux()
	root.Handle("/v1/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := pages.Check(r); err != nil {
			a.Telemetry.Unread("", string(fault.PermissionDenied))
			writeFault(w, http.StatusForbidden, fault.New(fault.PermissionDenied, "a page of another site may not call this: %s", err))
			return
		}
		b := &body{from: http.MaxBytesReader(w, r.Body, MaxBody), ctx: r.Context(), in: a.Ingress, size: min(r.ContentLength, MaxBody)}
		if b.size < 0 {
			b.size = MaxBody // the length is not known
		}
		defer b.done()
		r.Body = b
		mux.ServeHTTP(w, r)
		discardRest(w, b)
	}))
	root.Handle("GET /v1/events", d.Events)
	for _, path := range d.ConsolePaths {
		if path == "/" {
			path = "/{$}"
		}
		root.Handle("GET "+path, d.Console)
	}
	root.HandleFunc("GET /healthz", a.Health.ServeAlive)
	root.HandleFunc("GET /readyz", a.Health.ServeReady)
	root.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, proto.OpenAPI)
	})
	if metrics := a.Telemetry.Handler(); metrics != nil {
		root.Handle("GET /metrics", metrics)
	}
	root.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeFault(w, http.StatusNotFound, fault.New(fault.NotFound, "there is nothing at %s", r.URL.Path))
	})
	return root, nil
}

// discardLimit bounds the reading of the rest of a refused request's body.
const discardLimit = 2 * time.Second

// discardRest reads what the caller still sends of an answered request. Most callers read the
// answer only after they have sent everything. If the server closed the connection before, they
// would see a network error instead of the refusal.
func discardRest(w http.ResponseWriter, b *body) {
	if b.ended || http.NewResponseController(w).SetReadDeadline(time.Now().Add(discardLimit)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, b.from)
}

// bounded refuses a request that the server would not accept, since a short JSON text can be
// a large message.
type bounded struct {
	*grpc.ClientConn
	api *api
}

func (b bounded) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	if m, ok := req.(goproto.Message); ok {
		if size := goproto.Size(m); size > rpc.MaxMessageBytes {
			b.api.Telemetry.Unread(method, string(fault.InvalidRequest))
			return fault.Invalid("body", "is %d bytes as a message; the most is %d", size, rpc.MaxMessageBytes)
		}
	}
	if err := b.api.Check(req); err != nil {
		b.api.Telemetry.Unread(method, string(fault.InvalidRequest))
		return err // gRPC would fail to decode it without a reason
	}
	return b.ClientConn.Invoke(b.api.Outgoing(ctx), method, req, resp, opts...)
}
