package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
)

// MaxMessageBytes is the largest request that a server accepts.
const MaxMessageBytes = 4 << 20

// maxAnswerBytes is the largest answer that a client accepts.
const maxAnswerBytes = 4 * MaxMessageBytes

// Limits of a connection.
const (
	maxStreams     = 4096
	maxHeaderBytes = 64 << 10
	// handshakeWithin is how long a new connection may take before its first call.
	handshakeWithin = 10 * time.Second
	// idleFor is how long a connection without calls is kept. After aged a connection gets GOAWAY, and
	// ends after its present calls.
	idleFor = 15 * time.Minute
	aged    = 10 * time.Minute
)

// Flow control windows. They are fixed: otherwise gRPC measures them with a ping for every answer,
// which costs as much as a small call. ingress.Window bounds the unread bytes of a stream of a server;
// a client trusts its server.
const (
	answerWindow = 512 << 10
	connWindow   = 2 << 20
)

// Guarded makes a server call check for every message on a stream: an error ends the stream. A
// TapHandle decides whether the stream begins.
func Guarded(check func(ctx context.Context) error) grpc.ServerOption {
	return guarded{check: check}
}

type guarded struct {
	grpc.EmptyServerOption
	check func(ctx context.Context) error
}

// lastOf returns the last of the options of a type; the zero value if there is none.
func lastOf[O grpc.ServerOption](options []grpc.ServerOption) (last O) {
	for _, o := range options {
		if is, ok := o.(O); ok {
			last = is
		}
	}
	return last
}

// Plain makes a server skip schema validation for requests that are certain to keep every rule: those
// for which sure returns true. Validation walks a message field by field. For a small call between
// cellgate's processes, that is much of the work.
func Plain(sure func(req any) bool) grpc.ServerOption { return plain{sure: sure} }

type plain struct {
	grpc.EmptyServerOption
	sure func(req any) bool
}

// Server is a gRPC server that can refuse a unary call before it reads the request, and that bounds how
// many large requests it decodes at once.
//
// Messages of streams are decoded on half of the processors. So unary calls do not queue behind
// thousands of streams that all have a message at the same moment.
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

// Serve serves a listener until Stop. It returns nil then, even if Stop came first.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// bound makes a method refuse calls that a TapHandle refused before it reads the request, and requests
// that are too large before it decodes them.
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

// NewServer makes a gRPC server as every process of cellgate uses it: panics become INTERNAL, unary
// requests are validated by the rules in their schema, *fault.Error becomes a status, and internal
// errors are logged. Reflection is registered; for the health service, see ServeHealth.
func NewServer(log *slog.Logger, extra ...grpc.ServerOption) *Server {
	guard, sure, in := lastOf[guarded](extra).check, lastOf[plain](extra).sure, lastOf[bounded](extra).in
	if in == nil {
		in = ingress.New(ingress.Limits{})
	}
	turns := make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))
	options := append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(ingress.MaxMessage),
		//lint:ignore SA1019 it takes precedence over a registered one, which nothing can take back
		grpc.RPCDecompressor(uncompressed{}),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(ingress.Window),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeWithin),
		// Stop returns only after handlers have returned, so that they can use what ends later.
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

// uncompressed refuses compressed messages: a message grows a thousandfold before it is charged to its caller, even
// that of a call without a credential. The exporter of traces registers gzip for the whole process.
type uncompressed struct{}

func (uncompressed) Type() string { return gzip.Name }

func (uncompressed) Do(io.Reader) ([]byte, error) {
	return nil, errors.New("this server takes no compressed messages")
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

// guardedStream accepts only messages within the limits, from a caller that is still admitted. RecvMsg
// has one caller at a time.
type guardedStream struct {
	grpc.ServerStream
	guard func(context.Context) error
	in    *ingress.Ingress
	turns chan struct{}
	// charges are those of the message that the handler works on.
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

// streamError converts the error of a stream that ended.
func streamError(err error) error {
	if status.Code(err) == codes.Internal {
		// gRPC uses this code for a stream that ended in the middle of a message, which is no defect of
		// this server.
		return fault.Wrap(fault.InvalidRequest, err, "the stream ended in the middle of a message")
	}
	return err
}

// leave is where errors leave the server: internal errors are logged here, once, and every error
// becomes a status.
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
