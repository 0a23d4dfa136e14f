package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	goproto "google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	"cellgate/proto"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxBody is the largest request body taken, in bytes.
const maxBody = rpc.MaxMessageBytes

// HTTPHandler serves the REST API by calling the gateway's own gRPC server over
// conn, so that limits and errors are one path. JSON has the proto's field names;
// a field that is unknown, or has a value of a wrong type, is refused by name.
//
//	/v1/…          the API, as its protos say
//	/healthz       200 while the process is alive, else 503; see health.go
//	/readyz        200 while new requests are welcome, else 503; see health.go
//	/openapi.json  the API's description
//	/metrics       the process's metrics, for Prometheus; only with Deps.Telemetry
//
// Every error, on any path, has the body that httpError describes; those of
// /healthz and /readyz are health.Reports, which say each check and why.
func (g *Gateway) HTTPHandler(conn *grpc.ClientConn) (http.Handler, error) {
	known := restCallsOf(
		cellgatev1.File_cellgate_v1_scheduler_proto, cellgatev1.File_cellgate_v1_claims_proto,
		cellgatev1.File_cellgate_v1_cells_proto, cellgatev1.File_cellgate_v1_hosts_proto,
	)
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &jsonForm{runtime.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
		}}),
		runtime.WithErrorHandler(g.handleError),
		runtime.WithRoutingErrorHandler(func(ctx context.Context, mux *runtime.ServeMux, form runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
			g.tel.Unread("", string(routingKind(code)))
			known.handleRouting(ctx, mux, form, w, r, code)
		}),
		runtime.WithMiddlewares(func(next runtime.HandlerFunc) runtime.HandlerFunc { return known.check(next, g) }),
		runtime.WithMetadata(telemetry.FromHTTP),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
	)
	client := bounded{conn, g}
	err := errors.Join(
		cellgatev1.RegisterSchedulerHandlerClient(context.Background(), mux, cellgatev1.NewSchedulerClient(client)),
		cellgatev1.RegisterClaimsHandlerClient(context.Background(), mux, cellgatev1.NewClaimsClient(client)),
		cellgatev1.RegisterCellsHandlerClient(context.Background(), mux, cellgatev1.NewCellsClient(client)),
		cellgatev1.RegisterHostsHandlerClient(context.Background(), mux, cellgatev1.NewHostsClient(client)),
	)
	if err != nil {
		return nil, fmt.Errorf("register the REST API: %w", err)
	}
	// A browser sends what a page asks of any address; what it says of the page is looked at.
	pages := http.NewCrossOriginProtection()
	root := http.NewServeMux()
	root.Handle("/v1/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := pages.Check(r); err != nil {
			g.tel.Unread("", string(fault.PermissionDenied))
			writeFault(w, http.StatusForbidden, fault.New(fault.PermissionDenied, "a page of another site may not call this: %s", err))
			return
		}
		b := &body{from: http.MaxBytesReader(w, r.Body, maxBody), ctx: r.Context(), in: g.in, size: min(r.ContentLength, maxBody)}
		if b.size < 0 {
			b.size = maxBody // the caller does not say
		}
		defer b.done()
		r.Body = b
		mux.ServeHTTP(w, r)
	}))
	root.HandleFunc("GET /healthz", g.health.ServeAlive)
	root.HandleFunc("GET /readyz", g.health.ServeReady)
	root.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, proto.OpenAPI)
	})
	if metrics := g.tel.Handler(); metrics != nil {
		root.Handle("GET /metrics", metrics)
	}
	root.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeFault(w, http.StatusNotFound, fault.New(fault.NotFound, "there is nothing at %s", r.URL.Path))
	})
	return root, nil
}

// bounded refuses a request that the server would not take: JSON of few bytes
// can be a large message.
type bounded struct {
	*grpc.ClientConn
	g *Gateway
}

func (b bounded) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	if m, ok := req.(goproto.Message); ok {
		if size := goproto.Size(m); size > rpc.MaxMessageBytes {
			b.g.tel.Unread(method, string(fault.InvalidRequest))
			return fault.Invalid("body", "is %d bytes as a message; the most is %d", size, rpc.MaxMessageBytes)
		}
	}
	if err := checkDepth(req); err != nil {
		b.g.tel.Unread(method, string(fault.InvalidRequest))
		return err // gRPC would not read it, and not say why
	}
	return b.ClientConn.Invoke(b.g.withPlace(ctx), method, req, resp, opts...)
}
