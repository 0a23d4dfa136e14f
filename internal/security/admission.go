package security

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
	"cellgate/internal/rpc"
)

// Options are the options of a gRPC server: TLS, and admission by the access rules before the body of a
// call is read.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.Creds(s.credentials()), rpc.Tap(s.tap), rpc.Guarded(s.guard), rpc.Bounded(s.in)}
}

// admission describes an admitted call.
type admission struct {
	method string
	proof  proof
	id     *Identity
	// from is the caller's address.
	from string
}

type admissionKey struct{}

// tap decides about a call when its headers arrived, before anything of its body is kept.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	a := &admission{method: strings.TrimPrefix(info.FullMethodName, "/"), proof: proofOf(ctx, info.Header), from: addressOf(ctx, info.Header)}
	var err error
	if a.id, err = s.admit(a.method, a.proof); err != nil {
		if _, known := access[a.method]; !known && a.id != nil {
			// A caller of another version gets UNIMPLEMENTED, rather than a missing permission of its
			// role.
			return ctx, status.Error(codes.Unimplemented, "this server does not serve the method")
		}
		s.refuse(ctx, a, a.id, err)
		return ctx, err
	}
	switch p, ok := peer.FromContext(ctx); {
	case a.id != nil:
		ctx = With(ctx, a.id)
		if ok {
			ingress.Admit(p.Addr)
		}
		// Each host has a stream, and calls of other roles are bounded by the gateway's limiter.
		if a.id.Role == Agent {
			if err := s.in.Call(ctx, a.id.key()); err != nil {
				return ctx, err
			}
		}
	case ok && s.Authenticates():
		// Calls without a credential: few at a time, and short.
		within := ingress.OpenWithin
		if a.method == healthWatch {
			within = ingress.OpenStreamWithin
		}
		if ctx, err = s.in.Open(ctx, p.Addr, within); err != nil {
			return ctx, err
		}
	}
	return context.WithValue(ctx, admissionKey{}, a), nil
}

// guard is called for each message of a stream. It refuses a caller whose proof has ended or now
// identifies another caller.
func (s *Server) guard(ctx context.Context) error {
	a, ok := ctx.Value(admissionKey{}).(*admission)
	if !ok {
		return fault.New(fault.Internal, "a call was not admitted")
	}
	id, err := s.admit(a.method, a.proof)
	if err == nil && a.id != nil && !id.same(a.id) {
		err = fault.New(fault.Unauthenticated, "the credential stands for another caller now")
	}
	if err != nil {
		s.refuse(ctx, a, id, err)
	}
	return err
}

// refuse counts a refused call. If a certificate was refused, it also ends the connection: a
// certificate is shown only once a connection, a token with each call.
func (s *Server) refuse(ctx context.Context, a *admission, id *Identity, err error) {
	s.refused.add(ctx, a.method, a.from, id, err)
	if p, ok := peer.FromContext(ctx); ok && len(a.proof.authorization) == 0 && len(a.proof.chain) > 0 {
		ingress.CertificateRefused(p.Addr, fault.KindOf(err) != fault.Unauthenticated)
	}
}

// AddressOf returns the address of a call's caller, over REST that of the HTTP connection; "" if the
// call did not come through a Server.
func AddressOf(ctx context.Context) string {
	if a, ok := ctx.Value(admissionKey{}).(*admission); ok {
		return a.from
	}
	return ""
}

// addressOf returns the address from which a call with these headers comes.
func addressOf(ctx context.Context, md metadata.MD) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	if _, memory := p.AuthInfo.(memoryInfo); memory {
		return strings.Join(md.Get(addressHeader), ",")
	}
	return p.Addr.String()
}

// admit makes the one decision about a call. It returns the caller's identity, if known, even with an
// error.
func (s *Server) admit(method string, p proof) (*Identity, error) {
	if !s.Authenticates() || open(method) {
		return nil, nil
	}
	id, err := s.identify(p)
	if err != nil {
		return id, err
	}
	if !may(id.Role, method) {
		return id, forbidden(id, method)
	}
	return id, nil
}

func forbidden(id *Identity, method string) error {
	return fault.New(fault.PermissionDenied, "the role %s may not call %s", id.Role, spoken(method))
}

// spoken is a method's name for people: service.method, or the HTTP method and path.
func spoken(method string) string {
	if strings.Contains(method, " ") {
		return method
	}
	return strings.ReplaceAll(method, "/", ".")
}

// identify returns the identity that a proof proves. A token takes precedence over a certificate, and a
// certificate does not make up for a wrong token. For a proof that has ended, it returns both the
// identity and an error.
func (s *Server) identify(p proof) (*Identity, error) {
	var id *Identity
	switch {
	case p.own != "":
		return &Identity{Role: p.own, Name: "this process"}, nil
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

// proofOf returns the credentials in a gRPC call with these headers.
func proofOf(ctx context.Context, md metadata.MD) proof {
	out := proof{authorization: md.Get("authorization")}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return out
	}
	switch info := p.AuthInfo.(type) {
	case credentials.TLSInfo:
		out.chain = info.State.PeerCertificates
	case memoryInfo:
		if role := md.Get(ownHeader); len(role) == 1 {
			out.own = Role(role[0])
		}
		// The connection in memory belongs to this process: its headers have what the HTTPS handshake
		// found about the caller.
		for _, der := range md.Get(chainHeader) {
			if x, err := x509.ParseCertificate([]byte(der)); err == nil {
				out.chain = append(out.chain, x)
			}
		}
	}
	return out
}

// credentials are TLS for the network, and none for the connection in memory.
func (s *Server) credentials() credentials.TransportCredentials {
	c := serverCredentials{TransportCredentials: plain(), s: s}
	if s.Encrypts() {
		c.TransportCredentials = credentials.NewTLS(s.tlsConfig(s.callers, "h2"))
	}
	return c
}

type serverCredentials struct {
	credentials.TransportCredentials
	s *Server
}

func (c serverCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if m, ok := conn.(memoryConn); ok {
		return m, memoryInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
	}
	out, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		c.s.refused.add(context.Background(), handshake, conn.RemoteAddr().String(), nil, err)
		return out, info, err
	}
	return c.s.in.Meter(out, c.s.callerOf(info), !c.s.Authenticates()), info, nil
}

// callerOf returns the key of the identity in a connection's certificate; "" if there is no known one.
func (s *Server) callerOf(info credentials.AuthInfo) string {
	t, ok := info.(credentials.TLSInfo)
	if !ok || s.callers == nil || len(t.State.PeerCertificates) == 0 {
		return ""
	}
	id, err := s.callers.get().identify(t.State.PeerCertificates, s.now())
	if err != nil {
		return ""
	}
	return id.key()
}

func (c serverCredentials) Clone() credentials.TransportCredentials {
	return serverCredentials{TransportCredentials: c.TransportCredentials.Clone(), s: c.s}
}
