package security

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
)

// HTTP admits the callers of h before any of a body is read. Paths with their own row in the access
// rules follow it. Below /v1/ the gRPC server checks the role. All other paths admit any known caller.
// refuse answers with an error, and with the header WWW-Authenticate for unknown callers.
func (s *Server) HTTP(h http.Handler, refuse func(http.ResponseWriter, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := proofIn(r)
		id, err := s.admitHTTP(r, p)
		if err != nil {
			s.refused.add(r.Context(), pathGroup(r), r.RemoteAddr, id, err)
			refuse(w, err)
			return
		}
		ctx := context.WithValue(r.Context(), overKey{}, over{chain: p.chain, from: r.RemoteAddr, by: s, id: id})
		if id != nil {
			ctx = With(ctx, id)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// MayCall returns an error if the role of a request's caller may not call a method, service/method. The
// request must have passed HTTP.
func MayCall(r *http.Request, method string) error {
	caller, _ := r.Context().Value(overKey{}).(over)
	if caller.id == nil || may(caller.id.Role, method) {
		return nil
	}
	err := forbidden(caller.id, method)
	caller.by.refused.add(r.Context(), method, caller.from, caller.id, err)
	return err
}

// StillAdmitted returns an error if the caller of a request would not be admitted now: answers that go on for long
// end then. The request must have passed HTTP.
func StillAdmitted(r *http.Request) error {
	caller, _ := r.Context().Value(overKey{}).(over)
	if caller.by == nil {
		return nil
	}
	_, err := caller.by.admitHTTP(r, proofIn(r))
	return err
}

// proofIn returns the credentials in a request.
func proofIn(r *http.Request) proof {
	p := proof{authorization: r.Header.Values("Authorization")}
	if r.TLS != nil {
		p.chain = r.TLS.PeerCertificates
	}
	return p
}

// Caller returns the key by which the bytes of a request's caller are counted.
func Caller(r *http.Request) string {
	if caller, _ := r.Context().Value(overKey{}).(over); caller.id != nil {
		return caller.id.key()
	}
	return ingress.HostOf(r.RemoteAddr)
}

func (s *Server) admitHTTP(r *http.Request, p proof) (*Identity, error) {
	if method, known := httpMethod(r); known {
		return s.admit(method, p)
	}
	if !s.Authenticates() {
		return nil, nil
	}
	return s.identify(p)
}

// Near is ByOwnName where callers need no credential.
func (s *Server) Near(h http.Handler, at net.Addr, refuse func(http.ResponseWriter, error)) http.Handler {
	if s.Authenticates() {
		return h
	}
	return s.ByOwnName(h, at, refuse)
}

// ByOwnName refuses requests that name another host than this machine, if h is served at a loopback
// address. Otherwise a web page in a browser on this machine could call h through a name that resolves
// to loopback.
func (s *Server) ByOwnName(h http.Handler, at net.Addr, refuse func(http.ResponseWriter, error)) http.Handler {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			err := fault.New(fault.PermissionDenied, "while callers need not say who they are, only requests to this machine by its loopback names are taken, not to host %s", quoted(r.Host))
			s.refused.add(r.Context(), pathGroup(r), r.RemoteAddr, nil, err)
			refuse(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// loopback reports whether the header Host names only this machine. Browsers always send the header.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	return host == "" || strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// httpMethod returns the row of a path, whatever the request's method.
func httpMethod(r *http.Request) (method string, known bool) {
	method = "GET " + r.URL.Path
	_, known = access[method]
	return method, known
}

// pathGroup names a request for logs and counts, without text that the caller chose.
func pathGroup(r *http.Request) string {
	if method, known := httpMethod(r); known {
		return method
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		return "/v1/"
	}
	return "/"
}

// ErrorLog is the error log for an http.Server that serves Listener. It logs everything but refused
// connections, which anybody can cause at will: those are counted, and logged at intervals, as
// refusals.
func (s *Server) ErrorLog() *slog.Logger { return slog.New(errorLog{s.log.Handler(), s}) }

type errorLog struct {
	slog.Handler
	s *Server
}

// refusedConnections are the beginnings of net/http's log lines about refused connections; the caller's
// address and the reason follow.
var refusedConnections = []string{"http: TLS handshake error from ", "http2: server: error reading preface from client "}

func (e errorLog) Handle(ctx context.Context, r slog.Record) error {
	for _, begin := range refusedConnections {
		if rest, ok := strings.CutPrefix(r.Message, begin); ok {
			from, why, _ := strings.Cut(rest, ": ")
			e.s.refused.add(ctx, handshake, from, nil, errors.New(why))
			return nil
		}
	}
	return e.Handler.Handle(ctx, r)
}
