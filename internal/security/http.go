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

// HTTP admits the callers of h before anything of a body is read. Paths with a
// row of their own in the access rules go by it; below /v1/ the gRPC server
// decides about the role; anything else takes whoever is known. refuse answers
// with an error, and with the header WWW-Authenticate to the unknown.
func (s *Server) HTTP(h http.Handler, refuse func(http.ResponseWriter, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := proof{authorization: r.Header.Values("Authorization")}
		if r.TLS != nil {
			p.chain = r.TLS.PeerCertificates
		}
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

// MayCall refuses the caller of a request, which HTTP passed on, when its role may not call a
// method, service/method.
func MayCall(r *http.Request, method string) error {
	caller, _ := r.Context().Value(overKey{}).(over)
	if caller.id == nil || may(caller.id.Role, method) {
		return nil
	}
	err := forbidden(caller.id, method)
	caller.by.refused.add(r.Context(), method, caller.from, caller.id, err)
	return err
}

// Caller names the caller of a request by what its bytes are counted by.
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

// Near refuses requests that name another host than this machine, when nobody must
// say who they are and at, where h is served, is a loopback address: a page of a
// browser on this machine, whose name was made to lead here, is none of its users.
func (s *Server) Near(h http.Handler, at net.Addr, refuse func(http.ResponseWriter, error)) http.Handler {
	if tcp, ok := at.(*net.TCPAddr); s.Authenticates() || !ok || !tcp.IP.IsLoopback() {
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

// loopback reports whether the header Host names this machine only. Browsers always
// send one.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	return host == "" || strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// httpMethod gives the row of a path, whatever is done there.
func httpMethod(r *http.Request) (method string, known bool) {
	method = "GET " + r.URL.Path
	_, known = access[method]
	return method, known
}

// pathGroup names a request for the log and the counts without what the caller
// chose.
func pathGroup(r *http.Request) string {
	if method, known := httpMethod(r); known {
		return method
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		return "/v1/"
	}
	return "/"
}

// ErrorLog is for what an http.Server that serves Listener finds wrong. It logs all
// but connections that were refused, which anybody can cause as often as they like:
// those are counted, and logged now and then, as refusals.
func (s *Server) ErrorLog() *slog.Logger { return slog.New(errorLog{s.log.Handler(), s}) }

type errorLog struct {
	slog.Handler
	s *Server
}

// refusedConnections are how net/http begins the line of a connection that it
// refused; the caller's address and the reason follow.
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
