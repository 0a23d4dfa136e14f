package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
)

// MaxMessageBytes is the largest request a server takes.
const MaxMessageBytes = 4 << 20

// hardLimit is where gRPC itself stops reading. It is above MaxMessageBytes so
// that what is only a little too large gets an answer that names the limit.
const hardLimit = 4 * MaxMessageBytes

// NewServer makes a gRPC server as every process of cellgate serves it: panics
// become INTERNAL, unary requests are validated by the rules in their schema,
// *fault.Error becomes a status, defects of ours are logged. Reflection is
// registered; for the health service, see ServeHealth.
func NewServer(log *slog.Logger, extra ...grpc.ServerOption) *grpc.Server {
	options := append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(hardLimit),
		grpc.ChainUnaryInterceptor(serveUnary(log)),
		grpc.ChainStreamInterceptor(serveStream(log)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, extra...)
	s := grpc.NewServer(options...)
	reflection.Register(s)
	return s
}

func serveUnary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() { err = leave(ctx, log, info.FullMethod, err, recover()) }()
		if m, ok := req.(proto.Message); ok {
			if n := proto.Size(m); n > MaxMessageBytes {
				return nil, fault.Invalid("request", "is %d bytes; the limit is %d", n, MaxMessageBytes)
			}
			if err := Validate(m); err != nil {
				return nil, err
			}
		}
		return handler(ctx, req)
	}
}

func serveStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() { err = leave(stream.Context(), log, info.FullMethod, err, recover()) }()
		return handler(srv, stream)
	}
}

// leave is where an error stops: defects of ours are logged here, once, and
// everything becomes a status.
func leave(ctx context.Context, log *slog.Logger, method string, err error, panicked any) error {
	if panicked != nil {
		log.ErrorContext(ctx, "handler panicked", "method", method, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
		return ToStatus(fault.New(fault.Internal, "panic")).Err()
	}
	if err == nil {
		return nil
	}
	s := ToStatus(err)
	if s.Code() == codes.Internal {
		log.ErrorContext(ctx, "request failed", "method", method, "error", err)
	}
	return s.Err()
}
