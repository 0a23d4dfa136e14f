package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// tapped serves Claims with tap handles, and returns a connection to the server.
func tapped(t *testing.T, handles ...TapHandle) *grpc.ClientConn {
	t.Helper()
	var options []grpc.ServerOption
	for _, h := range handles {
		options = append(options, Tap(h))
	}
	s := NewServer(slog.New(slog.DiscardHandler), options...)
	cellgatev1.RegisterClaimsServer(s, claimsServer{get: func(ctx context.Context, _ *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error) {
		return &cellgatev1.GetClaimResponse{Claim: &cellgatev1.Claim{Cell: ctx.Value(tappedKey{}).(string)}}, nil
	}})
	l := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	conn, err := Dial("passthrough:///tapped", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
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
	return conn
}

type tappedKey struct{}

func TestTap_SeveralHandles_AskedInOrder(t *testing.T) {
	add := func(letter string) TapHandle {
		return func(ctx context.Context, info *tap.Info) (context.Context, error) {
			before, _ := ctx.Value(tappedKey{}).(string)
			return context.WithValue(ctx, tappedKey{}, before+letter), nil
		}
	}
	got, err := cellgatev1.NewClaimsClient(tapped(t, add("a"), add("b"))).GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
	if err != nil || got.GetClaim().GetCell() != "ab" {
		t.Errorf("%v, %v", got, err)
	}
}

// A refusal has its details with a near deadline (no stream), a far deadline and none.
func TestTap_Refusal_KeepsDetails(t *testing.T) {
	conn := tapped(t, func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		return ctx, &fault.Error{Kind: fault.Overloaded, Message: "too much", RetryAfter: 3 * time.Second}
	})
	for name, within := range map[string]time.Duration{"near": refusedLater - time.Second, "far": time.Hour, "none": 0} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, within)
				defer cancel()
			}
			_, err := cellgatev1.NewClaimsClient(conn).GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
			var e *fault.Error
			if !errors.As(err, &e) || e.Kind != fault.Overloaded || e.RetryAfter != 3*time.Second {
				t.Errorf("%v", err)
			}
		})
	}
}

// The server caches the wire form of the last refusal. Each call still gets its own refusal.
func TestTap_DifferentRefusals_EachKeepsItsOwn(t *testing.T) {
	full := &fault.Error{Kind: fault.Overloaded, Message: "full", RetryAfter: time.Second}
	late := &fault.Error{Kind: fault.Overloaded, Message: "too late", RetryAfter: time.Second}
	refusals := []error{full, full, late, full, fault.New(fault.PermissionDenied, "not you"), full}
	asked := 0 // one call at a time
	claims := cellgatev1.NewClaimsClient(tapped(t, func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		asked++
		return ctx, refusals[asked-1]
	}))
	for i, want := range refusals {
		ctx, cancel := context.WithTimeout(t.Context(), refusedLater-time.Second)
		_, err := claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
		cancel()
		var e, w *fault.Error
		if errors.As(want, &w); !errors.As(err, &e) || e.Kind != w.Kind || e.Message != w.Message {
			t.Errorf("call %d: %v, not %v", i, err, want)
		}
	}
}
