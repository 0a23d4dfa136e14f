package rpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// claimsServer answers GetClaim with the result of get.
type claimsServer struct {
	cellgatev1.UnimplementedClaimsServer
	get func(context.Context, *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error)
}

func (s claimsServer) GetClaim(ctx context.Context, r *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error) {
	return s.get(ctx, r)
}

func serve(t *testing.T, log *bytes.Buffer, get func(context.Context, *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error)) *grpc.ClientConn {
	t.Helper()
	s := NewServer(slog.New(slog.NewTextHandler(log, nil)))
	cellgatev1.RegisterClaimsServer(s, claimsServer{get: get})
	ServeHealth(s).Set(true)
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
		conn.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

const instance = "6f70656e-0000-4000-8000-000000000001"

func TestServer_InvalidRequest_NamesTheField(t *testing.T) {
	var log bytes.Buffer
	var answer error
	conn := serve(t, &log, func(context.Context, *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error) {
		if answer == nil {
			panic("boom")
		}
		return nil, answer
	})
	client := cellgatev1.NewClaimsClient(conn)

	_, err := client.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: "not-a-uuid"})
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.InvalidRequest || len(e.Fields) != 1 || e.Fields[0].Path != "consumer_uuid" {
		t.Errorf("a bad uuid gave %v", err)
	}

	_, err = client.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: instance, Cell: strings.Repeat("x", MaxMessageBytes)})
	if fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), "the limit is 4194304") {
		t.Errorf("a request over the limit gave %v", err)
	}

	if log.Len() > 0 {
		t.Errorf("the caller's mistakes were logged: %s", log.String())
	}
	_, err = client.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
	if fault.KindOf(err) != fault.Internal || !strings.Contains(log.String(), "boom") {
		t.Errorf("a panic gave %v; log: %s", err, log.String())
	}
	log.Reset()

	answer = errors.New("driver text with a secret")
	_, err = client.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
	if fault.KindOf(err) != fault.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("an error without a kind gave %v", err)
	}
	if n := strings.Count(log.String(), "secret"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}

	answer = fault.New(fault.NotFound, "consumer %s has no claim", instance)
	_, err = client.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("NOT_FOUND came back as %v", err)
	}
}

func TestServerHasHealthAndForeignClientsSeeStatuses(t *testing.T) {
	var log bytes.Buffer
	conn := serve(t, &log, func(context.Context, *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error) {
		return nil, fault.New(fault.Contended, "lost every race")
	})
	h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v %v", h, err)
	}
	// A client without our decoding sees the wire form.
	err = conn.Invoke(t.Context(), cellgatev1.Claims_GetClaim_FullMethodName,
		&cellgatev1.GetClaimRequest{ConsumerUuid: instance}, &cellgatev1.GetClaimResponse{})
	var e *fault.Error
	if !errors.As(err, &e) || status.Code(ToStatus(e).Err()) != codes.Aborted {
		t.Errorf("got %v", err)
	}
}
