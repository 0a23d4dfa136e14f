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

// Limits of a connection. maxStreams is what configuration knows as MaxStreams.
const (
	maxStreams     = 4096
	maxHeaderBytes = 64 << 10
	// handshakeWithin is how long a new connection may take until its first call
	// could come.
	handshakeWithin = 10 * time.Second
	// idleFor is how long a connection without calls is kept; aged is when a
	// connection is told to go, after the calls on it.
	idleFor = 15 * time.Minute
	aged    = 10 * time.Minute
)

// Windows of flow control. They are fixed: gRPC would otherwise find them out by a
// ping with every answer, which costs as much as a small call itself. What a stream
// may hold that nobody reads yet is streamWindow.
const (
	streamWindow = 512 << 10
	connWindow   = 2 << 20
)

// Guarded makes a server ask check about every call before its request is
// validated: an error refuses the call. On a stream it is asked again, with again
// set, for every message that comes.
func Guarded(check func(ctx context.Context, again bool) error) grpc.ServerOption {
	return guarded{check: check}
}

type guarded struct {
	grpc.EmptyServerOption
	check func(ctx context.Context, again bool) error
}

// guardOf gives the last guard among options; one that admits all without.
func guardOf(options []grpc.ServerOption) func(context.Context, bool) error {
	check := func(context.Context, bool) error { return nil }
	for _, o := range options {
		if g, ok := o.(guarded); ok {
			check = g.check
		}
	}
	return check
}

// Plain makes a server spare requests the check by their schema, and of their size,
// that sure is sure about: that they keep every rule and are no larger than
// MaxMessageBytes. The check goes through a message field by field, which for a small
// call between cellgate's own processes is a good part of the work.
func Plain(sure func(req any) bool) grpc.ServerOption { return plain{sure: sure} }

type plain struct {
	grpc.EmptyServerOption
	sure func(req any) bool
}

// plainOf gives the last of the options' ways to be sure; one that never is without.
func plainOf(options []grpc.ServerOption) func(any) bool {
	sure := func(any) bool { return false }
	for _, o := range options {
		if p, ok := o.(plain); ok {
			sure = p.sure
		}
	}
	return sure
}

// NewServer makes a gRPC server as every process of cellgate serves it: panics
// become INTERNAL, unary requests are validated by the rules in their schema,
// *fault.Error becomes a status, defects of ours are logged. Reflection is
// registered; for the health service, see ServeHealth.
func NewServer(log *slog.Logger, extra ...grpc.ServerOption) *grpc.Server {
	guard, sure := guardOf(extra), plainOf(extra)
	options := append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(hardLimit),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeWithin),
		grpc.ChainUnaryInterceptor(serveUnary(log, guard, sure)),
		grpc.ChainStreamInterceptor(serveStream(log, guard)),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: idleFor, MaxConnectionAge: aged,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, extra...)
	s := grpc.NewServer(options...)
	reflection.Register(s)
	return s
}

func serveUnary(log *slog.Logger, guard func(context.Context, bool) error, sure func(any) bool) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() { err = leave(ctx, log, info.FullMethod, err, recover()) }()
		if err := guard(ctx, false); err != nil {
			return nil, err
		}
		if m, ok := req.(proto.Message); ok && !sure(req) {
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

func serveStream(log *slog.Logger, guard func(context.Context, bool) error) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() { err = leave(stream.Context(), log, info.FullMethod, err, recover()) }()
		if err := guard(stream.Context(), false); err != nil {
			return err
		}
		return handler(srv, guardedStream{stream, guard})
	}
}

// guardedStream takes only messages within the limit, of a caller that is still
// admitted.
type guardedStream struct {
	grpc.ServerStream
	guard func(context.Context, bool) error
}

func (s guardedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if p, ok := m.(proto.Message); ok {
		if n := proto.Size(p); n > MaxMessageBytes {
			return fault.Invalid("message", "is %d bytes; the limit is %d", n, MaxMessageBytes)
		}
	}
	return s.guard(s.Context(), true)
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
