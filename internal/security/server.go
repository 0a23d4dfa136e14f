package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
	"cellgate/internal/throttle"
)

// ServerConfig names the files of a Server, like config.ServerTLS. If all are empty, the server uses no
// TLS and admits everybody.
type ServerConfig struct {
	Cert, Key, ClientCA string
	ClientCertOptional  bool
	Tokens              string
	// Limits bound the resources that callers make the process hold.
	Limits ingress.Limits
	// OnRefused, if set, is called for each refused call or connection with its method and kind. It
	// must not block. All methods that do not exist are one method.
	OnRefused func(method string, kind fault.Kind)
}

// Server is the security of a process's incoming calls. Safe for concurrent use.
type Server struct {
	cfg     ServerConfig
	log     *slog.Logger
	now     func() time.Time
	pair    *reloaded[tls.Certificate]
	callers *reloaded[callers]
	tokens  *reloaded[tokens]
	refused refusals
	in      *ingress.Ingress
	files   []poller
}

// NewServer reads the files, and reports every problem at once. A certificate that callers will refuse
// is only logged, now and at each reload: it may be valid tomorrow, or enough for callers that do not
// check.
func NewServer(cfg ServerConfig, log *slog.Logger) (*Server, error) {
	s := &Server{cfg: cfg, log: log, now: time.Now, in: ingress.New(cfg.Limits)}
	s.refused = refusals{log: throttle.New(log, time.Now, logInterval), count: cfg.OnRefused}
	if cfg.Cert != "" {
		s.pair = &reloaded[tls.Certificate]{
			what:  "the server's certificate",
			files: []file{{key: "cert", path: cfg.Cert}, {key: "key", path: cfg.Key, secret: true}}, parse: parsePair,
			onChange: s.judge,
		}
		s.files = append(s.files, s.pair)
	}
	if cfg.ClientCA != "" {
		s.callers = &reloaded[callers]{what: "the CAs of callers", files: []file{{key: "client_ca", path: cfg.ClientCA}}, parse: parseCallers}
		s.files = append(s.files, s.callers)
	}
	if cfg.Tokens != "" {
		s.tokens = &reloaded[tokens]{what: "the tokens", files: []file{{key: "tokens", path: cfg.Tokens, secret: true}}, parse: parseTokens}
		s.files = append(s.files, s.tokens)
	}
	if err := loadAll(s.files); err != nil {
		return nil, err
	}
	return s, nil
}

// judge logs why callers will refuse the server's certificate.
func (s *Server) judge(pair *tls.Certificate) {
	for _, f := range checkPair(pair, s.cfg.Cert, x509.ExtKeyUsageServerAuth, s.now()) {
		if f.Bad {
			s.log.Warn("callers will refuse this server's certificate", "why", f.Text, "do", f.Do)
		}
	}
}

// Run reloads the files when they change, until ctx ends.
func (s *Server) Run(ctx context.Context) error { return pollAll(ctx, s.log, s.files) }

// Encrypts reports whether callers must use TLS, Authenticates whether they must prove their identity.
func (s *Server) Encrypts() bool      { return s.pair != nil }
func (s *Server) Authenticates() bool { return s.callers != nil || s.tokens != nil }

// Ingress bounds the resources that callers make the process hold.
func (s *Server) Ingress() *ingress.Ingress { return s.in }

// Listener wraps l for HTTP: with bounds on connections, and with TLS if there is a certificate.
func (s *Server) Listener(l net.Listener) net.Listener { return s.listener(l, s.callers) }

// ListenerWithoutCertificates is Listener for callers that prove who they are in another way: it asks
// them for no certificate.
func (s *Server) ListenerWithoutCertificates(l net.Listener) net.Listener { return s.listener(l, nil) }

func (s *Server) listener(l net.Listener, known *reloaded[callers]) net.Listener {
	l = s.in.Listener(l)
	if !s.Encrypts() {
		return l
	}
	return tls.NewListener(l, s.tlsConfig(known, "h2", "http/1.1"))
}

// tlsConfig makes each handshake with the present content of the files. It asks callers for a certificate
// of known, unless that is nil.
func (s *Server) tlsConfig(known *reloaded[callers], protocols ...string) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true,
			Certificates: []tls.Certificate{*s.pair.get()},
		}
		if callers := known.get(); callers != nil {
			c.ClientCAs, c.ClientAuth = callers.pool, tls.RequireAndVerifyClientCert
			if s.cfg.ClientCertOptional {
				c.ClientAuth = tls.VerifyClientCertIfGiven
			}
		}
		return c, nil
	}
	return base
}

// proof is the set of credentials in a call.
type proof struct {
	// authorization has the values of the authorization header.
	authorization []string
	// chain is the caller's certificate and its intermediates; nil for none.
	chain []*x509.Certificate
	// own is the role, if the caller is a part of this process.
	own Role
}
