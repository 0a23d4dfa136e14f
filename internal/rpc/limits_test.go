package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestHeadersAreBounded(t *testing.T) {
	conn := serve(t, &bytes.Buffer{}, func(context.Context, *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error) {
		return &cellgatev1.GetClaimResponse{}, nil
	})
	get := func(n int) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-long", strings.Repeat("x", n))
		_, err := cellgatev1.NewClaimsClient(conn).GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
		return err
	}
	if err := get(maxHeaderBytes / 2); err != nil {
		t.Errorf("headers within the limit: %v", err)
	}
	if err := get(maxHeaderBytes); err == nil {
		t.Error("headers above the limit were taken")
	}
}

type reports struct {
	agentv1.UnimplementedHostReportsServer
	got chan int
}

func (r reports) Report(stream grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		r.got <- len(m.GetFullState().GetDisabledReason())
	}
}

// A message of a stream is bounded like a request, and a guard is asked about each.
func TestMessagesOfStreamsAreBoundedAndGuarded(t *testing.T) {
	asked := 0
	var refuse error
	s := NewServer(slog.New(slog.DiscardHandler), Guarded(func(context.Context) error {
		asked++
		return refuse
	}))
	r := reports{got: make(chan int, 10)}
	agentv1.RegisterHostReportsServer(s, r)
	listener := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	conn, err := Dial("passthrough:///buf", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	send := func(n int) error {
		stream, err := agentv1.NewHostReportsClient(conn).Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		state := &agentv1.FullState{DisabledReason: strings.Repeat("x", n)}
		if err := stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: state}}); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		return err
	}
	_ = send(10)
	if n := <-r.got; n != 10 || asked != 1 {
		t.Errorf("got a message of %d, asked %d times", n, asked)
	}
	if err := send(MaxMessageBytes); fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), "the limit is 4194304") {
		t.Errorf("a message above the limit: %v", err)
	}
	refuse = fault.New(fault.Unauthenticated, "gone")
	if err := send(1); fault.KindOf(err) != fault.Unauthenticated || len(r.got) != 0 {
		t.Errorf("refused by the guard: %v; %d messages came through", err, len(r.got))
	}
}

// However many streams have a message at the same time, few messages are decoded concurrently.
func TestStreams_MessagesAtOnce_FewAreDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(slog.New(slog.DiscardHandler))
		r := reports{got: make(chan int, 10)}
		agentv1.RegisterHostReportsServer(s, r)
		listener := bufconn.Listen(1 << 16)
		done := make(chan error, 1)
		go func() { done <- s.Serve(listener) }()
		conn, err := Dial("passthrough:///buf", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = conn.Close()
			s.Stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		for range cap(s.turns) {
			s.turns <- struct{}{}
		}
		stream, err := agentv1.NewHostReportsClient(conn).Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: &agentv1.FullState{DisabledReason: "x"}}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(r.got) != 0 {
			t.Error("a message was decoded though others are")
		}
		<-s.turns
		if n := <-r.got; n != 1 {
			t.Errorf("got a message of %d", n)
		}
		if len(s.turns) != cap(s.turns)-1 {
			t.Errorf("%d places are taken, want those of this test", len(s.turns))
		}
		_ = stream.CloseSend()
	})
}

// A compressed message could be a thousand times larger than what is charged for it.
func TestServer_CompressedRequest_Refused(t *testing.T) {
	called := false
	conn := serve(t, &bytes.Buffer{}, func(context.Context, *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error) {
		called = true
		return &cellgatev1.GetClaimResponse{}, nil
	})
	_, err := cellgatev1.NewClaimsClient(conn).GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: instance}, grpc.UseCompressor(gzip.Name))
	if err == nil || called {
		t.Errorf("a compressed request: served %t, %v", called, err)
	}
}

// A request of the largest size whose every item is wrong costs about what its decoding does.
func TestValidate_HalfAMillionViolations_LittleMemory(t *testing.T) {
	req := &cellgatev1.SelectDestinationsRequest{InstanceUuids: make([]string, maxElements)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Validate(req)
	runtime.ReadMemStats(&after)
	if fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("%v", err)
	}
	if size := (after.TotalAlloc - before.TotalAlloc) >> 20; size > 64 {
		t.Errorf("%d MiB", size)
	}
}
