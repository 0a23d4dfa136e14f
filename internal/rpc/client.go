package rpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Dial makes a client connection as every process of cellgate uses it: in plaintext, with statuses
// decoded back to *fault.Error, and with the same message limit as the servers. It does not wait for
// the connection, and retries a lost connection within two seconds. It ignores proxies of the
// environment: those are for traffic that leaves the site, and these calls stay within it.
func Dial(target string, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithUserAgent(agentProduct + release),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes), grpc.MaxCallSendMsgSize(maxAnswerBytes), grpc.ForceCodecV2(newCodec())),
		grpc.WithStaticStreamWindowSize(answerWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithChainUnaryInterceptor(callUnary),
		grpc.WithChainStreamInterceptor(callStream),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		connectWithin(2 * time.Second),
	}, extra...)
	return grpc.NewClient(target, options...)
}

// Patient makes a connection wait as long to be established as a server does. If thousands of callers connect at once,
// their handshakes take seconds, and callers that give up and begin again keep the server busy for ever.
func Patient() grpc.DialOption { return connectWithin(handshakeWithin) }

func connectWithin(limit time.Duration) grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: limit,
	})
}

func callUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return FromStatus(invoke(ctx, method, req, reply, cc, opts...))
}

func callStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, FromStatus(err)
	}
	return decodingStream{s}, nil
}

// decodingStream decodes the messages and the statuses of a stream. io.EOF stays io.EOF.
type decodingStream struct{ grpc.ClientStream }

func (s decodingStream) RecvMsg(m any) error {
	var r received
	if err := s.ClientStream.RecvMsg(&r); err != nil {
		return decode(err)
	}
	defer r.data.Free()
	if err := protobuf.Unmarshal(r.data, m); err != nil {
		return FromStatus(status.Errorf(codes.Internal, "a message of the server: %v", err))
	}
	return nil
}

func (s decodingStream) SendMsg(m any) error { return decode(s.ClientStream.SendMsg(m)) }

func decode(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return FromStatus(err)
}
