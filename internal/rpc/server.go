package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
)

// MaxMessageBytes is the largest request a server takes.
const MaxMessageBytes = 4 << 20

// maxAnswerBytes is the largest answer a client takes.
const maxAnswerBytes = 4 * MaxMessageBytes

// Limits of a connection. maxStreams is what configuration knows as MaxStreams.
const (
	maxStreams     = 4096
	maxHeaderBytes = 64 << 10
	// handshakeWithin is how long a new connection may take until its first call
	// could come.
	handshakeWithin = 10 * time.Second
	// idleFor is how long a connection without calls is kept; aged is when a
	// connection gets GOAWAY, to end after the calls on it.
	idleFor = 15 * time.Minute
	aged    = 10 * time.Minute
)

// Windows of flow control. They are fixed: gRPC would otherwise find them out by a
// ping with every answer, which costs as much as a small call itself. What a stream
// of a server may hold that nobody reads yet is ingress.Window; a client trusts its server.
const (
	answerWindow = 512 << 10
	connWindow   = 2 << 20
)

// Guarded makes a server ask check about every message that comes on a stream: an error
// ends the stream. A TapHandle decides whether the stream begins.
func Guarded(check func(ctx context.Context) error) grpc.ServerOption {
	return guarded{check: check}
}

type guarded struct {
	grpc.EmptyServerOption
	check func(ctx context.Context) error
}

// lastOf gives the last of the options of a type; the zero one without.
func lastOf[O grpc.ServerOption](options []grpc.ServerOption) (last O) {
	for _, o := range options {
		if is, ok := o.(O); ok {
			last = is
		}
	}
	return last
}

// Plain makes a server spare requests the check by their schema that sure is sure about:
// that they keep every rule. The check goes through a message field by field, which for a small
// call between cellgate's own processes is a good part of the work.
func Plain(sure func(req any) bool) grpc.ServerOption { return plain{sure: sure} }

type plain struct {
	grpc.EmptyServerOption
	sure func(req any) bool
}

// Server is a gRPC server that can refuse a unary call before it reads the request, and
// decodes large requests a few at a time.
//
// Messages of streams are decoded on half of the processors: when thousands of streams have one
// at the same moment, unary calls do not queue behind all of them.
type Server struct {
	*grpc.Server
	in    *ingress.Ingress
	turns chan struct{}
}

// RegisterService adds a service.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	d := *desc
	d.Methods = slices.Clone(desc.Methods)
	for i := range d.Methods {
		d.Methods[i].Handler = s.bound(d.Methods[i].Handler)
	}
	s.Server.RegisterService(&d, impl)
}

// Serve serves a listener until Stop; nil also if Stop came first.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// bound makes a method refuse what a TapHandle refused before its request is read, and
// what is too large before it is decoded.
func (s *Server) bound(handle grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		if err := refusalOf(ctx); err != nil {
			return nil, ToStatus(err).Err()
		}
		var charged charges
		defer charged.refund()
		r := request{ctx: ctx, in: s.in, what: "request", charges: &charged}
		return handle(srv, ctx, func(v any) error {
			r.into = v
			if err := read(&r); err != nil {
				return err
			}
			if err := r.decode(); err != nil {
				return ToStatus(err).Err()
			}
			return nil
		}, interceptor)
	}
}

// NewServer makes a gRPC server as every process of cellgate serves it: panics
// become INTERNAL, unary requests are validated by the rules in their schema,
// *fault.Error becomes a status, defects of ours are logged. Reflection is
// registered; for the health service, see ServeHealth.
func NewServer(log *slog.Logger, extra ...grpc.ServerOption) *Server {
	guard, sure, in := lastOf[guarded](extra).check, lastOf[plain](extra).sure, lastOf[bounded](extra).in
	if in == nil {
		in = ingress.New(ingress.Limits{})
	}
	turns := make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))
	options := append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(ingress.MaxMessage),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(ingress.Window),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeWithin),
		// What handlers use ends after Stop has returned.
		grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(serveUnary(log, sure)),
		grpc.ChainStreamInterceptor(serveStream(log, guard, in, turns)),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: idleFor, MaxConnectionAge: aged,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, extra...)
	s := &Server{grpc.NewServer(append(options, inTapHandle(extra))...), in, turns}
	reflection.Register(s)
	return s
}

func serveUnary(log *slog.Logger, sure func(any) bool) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() { err = leave(ctx, log, info.FullMethod, err, recover()) }()
		if m, ok := req.(proto.Message); ok && (sure == nil || !sure(req)) {
			if err := Validate(m); err != nil {
				return nil, err
			}
		}
		return handler(ctx, req)
	}
}

func serveStream(log *slog.Logger, guard func(context.Context) error, in *ingress.Ingress, turns chan struct{}) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() { err = leave(stream.Context(), log, info.FullMethod, err, recover()) }()
		if err := refusalOf(stream.Context()); err != nil {
			return err
		}
		s := &guardedStream{ServerStream: stream, guard: guard, in: in, turns: turns}
		defer s.charges.refund()
		return handler(srv, s)
	}
}

// guardedStream takes only messages within the limits, of a caller that is still
// admitted. RecvMsg has one caller at a time.
type guardedStream struct {
	grpc.ServerStream
	guard func(context.Context) error
	in    *ingress.Ingress
	turns chan struct{}
	// charges are of the message that the handler works on.
	charges charges
}

func (s *guardedStream) RecvMsg(m any) error {
	s.charges.release()
	r := &request{ctx: s.Context(), in: s.in, into: m, what: "message", charges: &s.charges, turns: s.turns}
	if err := s.ServerStream.RecvMsg(r); err != nil {
		return streamError(err)
	}
	if err := r.decodeAside(); err != nil {
		return err
	}
	if s.guard == nil {
		return nil
	}
	return s.guard(s.Context())
}

// streamError gives the error of a stream that ended.
func streamError(err error) error {
	if status.Code(err) == codes.Internal {
		// gRPC's code for a stream that ended in the middle of a message, which is no defect here.
		return fault.Wrap(fault.InvalidRequest, err, "the stream ended in the middle of a message")
	}
	return err
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
