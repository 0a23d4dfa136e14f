package bus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	"cellgate/internal/rabbittest"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(rabbittest.Stop)) }

// recorded is a message as a real Nova 26.2.2 sent it (testdata/recorded.jsonl).
type recorded struct {
	Name, Exchange, Key string
	Message             json.RawMessage
}

func recordings(t testing.TB) map[string]recorded {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]recorded{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all[r.Name] = r
	}
	return all
}

// body is the message in its envelope.
func (r recorded) body(t testing.TB) []byte {
	t.Helper()
	b, err := seal(r.Message)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r recorded) request(t testing.TB) *request {
	t.Helper()
	req, err := decodeRequest(r.body(t))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// with gives the message with other values of some fields.
func (r recorded) with(t testing.TB, fields map[string]any) recorded {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(r.Message, &all); err != nil {
		t.Fatal(err)
	}
	for name, v := range fields {
		all[name] = v
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	r.Message = text
	return r
}

// gateway stands in for the gateway's gRPC server: claims are remembered by request id.
type gateway struct {
	cellgatev1.UnimplementedSchedulerServer
	cellgatev1.UnimplementedClaimsServer

	mu       sync.Mutex
	answer   func(context.Context, *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error)
	asked    []*cellgatev1.SelectDestinationsRequest
	claims   map[string]*cellgatev1.SelectDestinationsResponse
	released []string
}

func (g *gateway) SelectDestinations(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	g.mu.Lock()
	g.asked = append(g.asked, proto.CloneOf(req))
	known, answer := g.claims[req.GetRequestId()], g.answer
	g.mu.Unlock()
	if known != nil {
		return known, nil
	}
	resp, err := answer(ctx, req)
	if err == nil {
		g.mu.Lock()
		g.claims[req.GetRequestId()] = resp
		g.mu.Unlock()
	}
	return resp, err
}

func (g *gateway) ReleaseClaim(_ context.Context, req *cellgatev1.ReleaseClaimRequest) (*cellgatev1.ReleaseClaimResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.released = append(g.released, req.GetClaimId())
	return &cellgatev1.ReleaseClaimResponse{}, nil
}

func (g *gateway) requests() []*cellgatev1.SelectDestinationsRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

func (g *gateway) operations() (all []cellgatev1.Operation) {
	for _, req := range g.requests() {
		all = append(all, req.GetOperation())
	}
	return all
}

// dial serves g in memory.
func (g *gateway) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	if g.claims == nil {
		g.claims = map[string]*cellgatev1.SelectDestinationsResponse{}
	}
	server := rpc.NewServer(slog.New(slog.DiscardHandler))
	cellgatev1.RegisterSchedulerServer(server, g)
	cellgatev1.RegisterClaimsServer(server, g)
	l := bufconn.Listen(1 << 20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Stop
	}()
	conn, err := rpc.Dial("passthrough:///gateway", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-done
	})
	return conn
}

// hasClaim is a gateway's refusal of an instance that already has a claim.
func hasClaim(req *cellgatev1.SelectDestinationsRequest, state cellgatev1.ClaimState, requestID string) error {
	return fault.New(fault.AlreadyExists, "it has a claim").With("consumer_uuid", req.GetInstanceUuids()[0]).With("claim_id", claimID).
		With("cell", "cell1").With("claim_state", state.String()).With("claim_request_id", requestID)
}

// hosts answers every instance with hosts of these names: the first selected, the others
// alternates.
func hosts(names ...string) func(context.Context, *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	return func(_ context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		resp := &cellgatev1.SelectDestinationsResponse{DecisionId: "d"}
		for _, id := range req.GetInstanceUuids() {
			d := &cellgatev1.Destinations{InstanceUuid: id}
			for i, name := range names {
				s := &cellgatev1.Selection{ServiceHost: name, Nodename: name, CellUuid: "c", ComputeNodeUuid: "n", AllocationRequest: "{}", AllocationRequestVersion: "1.36", AvailabilityZone: "nova"}
				if i == 0 {
					d.Selected = s
				} else {
					d.Alternates = append(d.Alternates, s)
				}
			}
			resp.Destinations = append(resp.Destinations, d)
		}
		return resp, nil
	}
}

// newBus makes a bus that calls g.
func newBus(t testing.TB, g *gateway, change func(*Config)) *Bus {
	t.Helper()
	cfg := Config{
		TransportURL: "rabbit://localhost", Exchange: "nova", Host: "test", Queues: Queues{TransientTTL: 30 * time.Minute},
		Heartbeat: time.Minute, Prefetch: 8, Timeout: time.Minute, ClaimTTL: 5 * time.Minute, MaxAttempts: 3, Reasons: "filters",
		RetryFrom: 10 * time.Millisecond, RetryMost: 100 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	b, err := New(cfg, Deps{Conn: g.dial(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func specOf(req *cellgatev1.SelectDestinationsRequest) map[string]*structpb.Value {
	return req.GetNovaRequestSpec().GetFields()["nova_object.data"].GetStructValue().GetFields()
}
