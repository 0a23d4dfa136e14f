package cellclient

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a replica that does every operation, and keeps nothing but a record of what it did.
type stub struct {
	cellv1.UnimplementedCellSchedulerServer
	// before may delay or fail a call, and after may lose its answer.
	before func(ctx context.Context, req any) error
	after  func(req any) error
	// awaits reports whether the replica answers claims only after their hosts' verdicts.
	awaits bool
	// cell is the cell of the replica's summary; empty for the configured one.
	cell string
	// failure is the answer to every query; nil for success.
	failure *cellv1.Failure
	// stopsAt, unless 0, is how many operations of a call are done. The others are refused as by a replica that stops.
	stopsAt int

	mu sync.Mutex
	// sizes are the operations of each ClaimBatch and the queries of each ProposeBatch that began; done are the
	// claims of the operations that were done.
	sizes, asked []int
	done         []string
}

func (s *stub) enter(ctx context.Context, req any) error {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, req)
}

func (s *stub) hook(before func(ctx context.Context, req any) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

func (s *stub) GetSummary(ctx context.Context, req *cellv1.GetSummaryRequest) (*cellv1.GetSummaryResponse, error) {
	return &cellv1.GetSummaryResponse{Cell: cmp.Or(s.cell, "cell1"), AwaitsVerdicts: s.awaits}, s.enter(ctx, req)
}

func (s *stub) ListHosts(ctx context.Context, req *cellv1.ListHostsRequest) (*cellv1.ListHostsResponse, error) {
	return &cellv1.ListHostsResponse{}, s.enter(ctx, req)
}

func (s *stub) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	s.mu.Lock()
	s.asked = append(s.asked, len(req.GetQueries()))
	s.mu.Unlock()
	resp := &cellv1.ProposeBatchResponse{}
	for range req.GetQueries() {
		resp.Proposals = append(resp.Proposals, &cellv1.Proposal{Failure: s.failure})
	}
	return resp, s.enter(ctx, req)
}

func (s *stub) ClaimBatch(ctx context.Context, req *cellv1.ClaimBatchRequest) (*cellv1.ClaimBatchResponse, error) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(req.GetOps()))
	s.mu.Unlock()
	if err := s.enter(ctx, req); err != nil {
		return nil, err
	}
	resp := &cellv1.ClaimBatchResponse{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, op := range req.GetOps() {
		if s.stopsAt > 0 && i >= s.stopsAt {
			resp.Outcomes = append(resp.Outcomes, &cellv1.ClaimOutcome{Refusal: &cellv1.Refusal{Reason: string(fault.CellUnavailable), Message: "the replica is stopping"}})
			continue
		}
		id := nameOf(op)
		s.done = append(s.done, id)
		resp.Outcomes = append(resp.Outcomes, &cellv1.ClaimOutcome{Claim: &cellgatev1.Claim{ClaimId: id}})
	}
	if s.after != nil {
		return resp, s.after(req)
	}
	return resp, nil
}

// did demands which operations the replica did, in any order.
func (s *stub) did(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := slices.Sorted(slices.Values(s.done))
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the replica did %v, want %v", got, want)
	}
}

// called demands how many operations each ClaimBatch had.
func (s *stub) called(t *testing.T, want ...int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.sizes, want) {
		t.Errorf("calls of %v operations, want %v", s.sizes, want)
	}
}

func nameOf(op *cellv1.ClaimOp) string {
	if c := op.GetClaim(); c != nil {
		return c.GetClaimId()
	}
	return claimIDOf(op)
}

func claim(id string) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{ClaimId: id, HostUuid: "h"}}}
}

func release(id string) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: &cellv1.ClaimRef{ClaimId: id}}}
}

// start starts one cell of some replicas, and waits until each was asked once.
func start(t *testing.T, change func(*Config), replicas ...*stub) *Cell {
	t.Helper()
	listeners := map[string]*bufconn.Listener{}
	c := CellConfig{Name: "cell1"}
	for i, s := range replicas {
		server, l, addr := rpc.NewServer(slog.New(slog.DiscardHandler), rpc.Plain(func(any) bool { return true })), bufconn.Listen(1<<16), string(rune('a'+i))
		cellv1.RegisterCellSchedulerServer(server, s)
		listeners[addr], c.Replicas = l, append(c.Replicas, addr)
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		t.Cleanup(func() {
			server.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
	cfg := Config{ProposeBudget: 250 * time.Millisecond, ClaimBudget: time.Minute, Breaker: BreakerConfig{
		Failures: 5, OpenFor: time.Second, ProbeEvery: 500 * time.Millisecond, ProbeBudget: 500 * time.Millisecond,
	}}
	if change != nil {
		change(&cfg)
	}
	cs, err := New([]CellConfig{c}, cfg, Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now, Dial: func(target string) (*grpc.ClientConn, error) {
		return rpc.Dial("passthrough:///"+target, grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
			if l := listeners[name]; l != nil {
				return l.DialContext(ctx)
			}
			return nil, errors.New("nobody listens at " + name)
		}))
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	asked, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		cs.Watch(ctx, func() { close(asked) }, func(context.Context, *Cell) {})
	}()
	t.Cleanup(func() { cancel(); <-ended; cs.Wait(); cs.Close() })
	<-asked
	return cs.All[0]
}
