package security

import (
	"context"
	"crypto/x509"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"cellgate/internal/rpc"
)

// chainHeader carries the certificates of a REST caller over the connection in memory, one a value. It
// is ignored on any other connection.
const chainHeader = "cellgate-client-certificate-bin"

// addressHeader carries the address of a REST caller, in the same way.
const addressHeader = "cellgate-client-address"

// ownHeader carries the role of a caller that is a part of this process. It, too, is ignored on any
// other connection.
const ownHeader = "cellgate-own-role"

// Memory marks the connections that l accepts as the process's own. Nothing from the network may come
// through l.
func Memory(l net.Listener) net.Listener { return memoryListener{l} }

type memoryListener struct{ net.Listener }

func (l memoryListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return memoryConn{c}, nil
}

type memoryConn struct{ net.Conn }

// memoryInfo is the AuthInfo of the process's own connections. No handshake over the network produces
// it.
type memoryInfo struct{ credentials.CommonAuthInfo }

func (memoryInfo) AuthType() string { return rpc.MemoryAuth }

func plain() credentials.TransportCredentials { return insecure.NewCredentials() }

// Forward is the option for the client end of the connection in memory. It forwards the certificates
// and the address that HTTP found, and removes any values that the caller itself set in their place.
func Forward() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		md, _ := metadata.FromOutgoingContext(ctx)
		md = md.Copy()
		delete(md, chainHeader)
		delete(md, addressHeader)
		delete(md, ownHeader)
		if role, ok := ctx.Value(ownKey{}).(Role); ok {
			md.Set(ownHeader, string(role))
		}
		caller, _ := ctx.Value(overKey{}).(over)
		for _, x := range caller.chain {
			md.Append(chainHeader, string(x.Raw))
		}
		if caller.from != "" {
			md.Set(addressHeader, caller.from)
		}
		return invoke(metadata.NewOutgoingContext(ctx, md), method, req, reply, cc, opts...)
	})
}

// As returns the context for calls in a role that a part of this process makes over the connection in
// memory. The part has authenticated its own callers in another way.
func As(ctx context.Context, role Role) context.Context {
	return context.WithValue(ctx, ownKey{}, role)
}

type ownKey struct{}

// over is the result of HTTP's admission of a caller.
type over struct {
	chain []*x509.Certificate
	from  string
	// by is the Server that admitted the caller; id is the caller, if a credential was needed.
	by *Server
	id *Identity
}

type overKey struct{}
