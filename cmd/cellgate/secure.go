package main

import (
	"slices"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/ingress"
	"cellgate/internal/lifecycle"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	"cellgate/internal/telemetry"
)

// ingressLimits gives the limits of a server. An agent has a stream for each host, and also the old
// ones while it connects anew. agentHosts is 0 for the default.
func ingressLimits(in config.Ingress, agentHosts int) ingress.Limits {
	return ingress.Limits{
		Bytes: int64(in.MiB) << 20, CallerBytes: int64(in.CallerMiB) << 20,
		Connections: in.Connections, CallerCalls: 4 * agentHosts,
	}
}

func securityServer(c config.ServerTLS, limits ingress.Limits) security.ServerConfig {
	return security.ServerConfig{
		Cert: c.Cert, Key: c.Key, ClientCA: c.ClientCA, ClientCertOptional: c.ClientCertOptional, Tokens: c.Tokens,
		Limits: limits,
	}
}

// addServerTLS reads a server's TLS files, and adds the part that reads them again.
func (a *assembly) addServerTLS(path string, c config.ServerTLS, limits ingress.Limits) (*security.Server, error) {
	limits.OnRefused = func(b ingress.Bound) { a.telemetry.IngressRefused(string(b)) }
	cfg := securityServer(c, limits)
	cfg.OnRefused = func(method string, kind fault.Kind) { a.telemetry.CallerRefused(method, string(kind)) }
	s, err := security.NewServer(cfg, a.log)
	if err != nil {
		return nil, settings(path, err)
	}
	if s.Encrypts() || s.Authenticates() {
		a.add(lifecycle.Part{Name: "files of " + path, Run: s.Run})
	}
	a.telemetry.WatchIngress(s.Ingress().Held)
	a.watchEnds(s.Ends, telemetry.CertificateServer, telemetry.CertificateCallersCA)
	return s, nil
}

// watchEnds gives telemetry the ends of a certificate and of CAs, of those that exist.
func (a *assembly) watchEnds(ends func() (own, ca time.Time), ofOwn, ofCA telemetry.Certificate) {
	a.telemetry.WatchCertificates(func(each func(telemetry.Certificate, time.Time)) {
		own, ca := ends()
		if !own.IsZero() {
			each(ofOwn, own)
		}
		if !ca.IsZero() {
			each(ofCA, ca)
		}
	})
}

// addClientTLS reads a client's TLS files, and adds the part that reads them again. It gives a function
// that dials with them, and with the extra options. Calls carry their trace.
func (a *assembly) addClientTLS(path string, c config.ClientTLS, extra ...grpc.DialOption) (dial func(string) (*grpc.ClientConn, error), err error) {
	s, err := security.NewClient(security.ClientConfig(c), a.log)
	if err != nil {
		return nil, settings(path, err)
	}
	if c != (config.ClientTLS{}) {
		a.add(lifecycle.Part{Name: "files of " + path, Run: s.Run})
	}
	a.watchEnds(s.Ends, telemetry.CertificateClient, telemetry.CertificateServersCA)
	return func(target string) (*grpc.ClientConn, error) {
		return rpc.Dial(target, slices.Concat(s.Options(), extra, []grpc.DialOption{telemetry.DialOption()})...)
	}, nil
}
