package security

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

// refusedWithin is how long a refused caller may take to send its request, which
// is not looked at.
const refusedWithin = time.Second

// Options are those of a gRPC server: TLS, and admission by the access rules
// before anything of a call is read.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.Creds(s.credentials()), grpc.InTapHandle(s.tap), rpc.Guarded(s.guard)}
}

// admission is what was decided about a call.
type admission struct {
	method string
	proof  proof
	id     *Identity
	err    error
	// from is the caller's address.
	from string
	// done ends the refused call's time.
	done context.CancelFunc
}

type admissionKey struct{}

// tap decides about a call when its headers are there. The refusal itself is
// left to guard, where an answer can have its details.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	a := &admission{method: strings.TrimPrefix(info.FullMethodName, "/"), proof: proofOf(ctx), from: addressOf(ctx)}
	a.id, a.err = s.admit(a.method, a.proof)
	if a.err != nil {
		ctx, a.done = context.WithTimeout(ctx, refusedWithin)
	} else if a.id != nil {
		ctx = With(ctx, a.id)
	}
	return context.WithValue(ctx, admissionKey{}, a), nil
}

// guard refuses what was not admitted. On a stream it is asked again for each
// message, and refuses a caller whose proof has ended or says something else now.
func (s *Server) guard(ctx context.Context, again bool) error {
	a, ok := ctx.Value(admissionKey{}).(*admission)
	if !ok {
		return fault.New(fault.Internal, "a call was not admitted")
	}
	if again {
		id, err := s.admit(a.method, a.proof)
		if err == nil && a.id != nil && !id.same(a.id) {
			err = fault.New(fault.Unauthenticated, "the credential stands for another caller now")
		}
		if err != nil {
			s.refused.add(ctx, a.method, a.from, id, err)
		}
		return err
	}
	if a.err != nil {
		a.done()
		s.refused.add(ctx, a.method, a.from, a.id, a.err)
	}
	return a.err
}

// AddressOf gives the address of the caller of a call, over REST that of the HTTP
// connection; "" when the server is not a Server's.
func AddressOf(ctx context.Context) string {
	if a, ok := ctx.Value(admissionKey{}).(*admission); ok {
		return a.from
	}
	return ""
}

// addressOf gives the address that a call comes from.
func addressOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	if _, memory := p.AuthInfo.(memoryInfo); memory {
		md, _ := metadata.FromIncomingContext(ctx)
		return strings.Join(md.Get(addressHeader), ",")
	}
	return p.Addr.String()
}

// admit is the one decision about a call. With an error too it gives who the caller
// is, when that is known.
func (s *Server) admit(method string, p proof) (*Identity, error) {
	if !s.Authenticates() || open(method) {
		return nil, nil
	}
	id, err := s.identify(p)
	if err != nil {
		return id, err
	}
	if !may(id.Role, method) {
		return id, fault.New(fault.PermissionDenied, "the role %s may not call %s", id.Role, spoken(method))
	}
	return id, nil
}

// spoken is a method as it is named to people: service.method, or what HTTP has.
func spoken(method string) string {
	if strings.Contains(method, " ") {
		return method
	}
	return strings.ReplaceAll(method, "/", ".")
}

// identify gives who a proof is of. A token counts before a certificate, and one
// that is wrong is not made good by a certificate. Of a proof that has ended it gives
// both who it was of and an error.
func (s *Server) identify(p proof) (*Identity, error) {
	var id *Identity
	switch {
	case len(p.authorization) > 0:
		known := s.tokens.get()
		scheme, secret, _ := strings.Cut(p.authorization[0], " ")
		if known == nil || len(p.authorization) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return nil, fault.New(fault.Unauthenticated, "the authorization header is not that of one token known here")
		}
		if id = (*known)[sha256.Sum256([]byte(strings.TrimSpace(secret)))]; id == nil {
			return nil, fault.New(fault.Unauthenticated, "the token is not known")
		}
	case len(p.chain) > 0 && s.callers != nil:
		var err error
		if id, err = s.callers.get().identify(p.chain, s.now()); err != nil {
			return nil, fault.Wrap(fault.Unauthenticated, err, "the certificate does not say who the caller is")
		}
	default:
		return nil, fault.New(fault.Unauthenticated, "the caller does not say who it is: %s is needed", s.accepted())
	}
	if !id.Expires.IsZero() && !s.now().Before(id.Expires) {
		return id, fault.New(fault.Unauthenticated, "the credential has expired")
	}
	return id, nil
}

func (s *Server) accepted() string {
	switch {
	case s.tokens == nil:
		return "a client certificate"
	case s.callers == nil:
		return "a token (authorization: Bearer TOKEN)"
	}
	return "a token (authorization: Bearer TOKEN) or a client certificate"
}

// proofOf gives what the caller of a gRPC call shows.
func proofOf(ctx context.Context) proof {
	md, _ := metadata.FromIncomingContext(ctx)
	out := proof{authorization: md.Get("authorization")}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return out
	}
	switch info := p.AuthInfo.(type) {
	case credentials.TLSInfo:
		out.chain = info.State.PeerCertificates
	case memoryInfo:
		// The connection in memory is ours: what it says of the caller is what the
		// HTTPS handshake found.
		for _, der := range md.Get(chainHeader) {
			if x, err := x509.ParseCertificate([]byte(der)); err == nil {
				out.chain = append(out.chain, x)
			}
		}
	}
	return out
}

// credentials are TLS for the network and nothing for the connection in memory.
func (s *Server) credentials() credentials.TransportCredentials {
	c := serverCredentials{TransportCredentials: plain(), refused: &s.refused}
	if s.Encrypts() {
		c.TransportCredentials = credentials.NewTLS(s.tlsConfig("h2"))
	}
	return c
}

type serverCredentials struct {
	credentials.TransportCredentials
	refused *refusals
}

func (c serverCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if m, ok := conn.(memoryConn); ok {
		return m, memoryInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
	}
	out, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		c.refused.add(context.Background(), handshake, conn.RemoteAddr().String(), nil, err)
	}
	return out, info, err
}

func (c serverCredentials) Clone() credentials.TransportCredentials {
	return serverCredentials{TransportCredentials: c.TransportCredentials.Clone(), refused: c.refused}
}
