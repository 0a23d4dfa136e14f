package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/health"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	"cellgate/shard/pebbleshard"
)

func collectGateway(p *localProcess) {
	g := p.conf.Gateway
	p.server, p.client, p.clientAt, p.role = g.TLS, g.CellTLS, "gateway.cell_tls", security.Gateway
	is := processOfGateway(g, "gateway")
	p.listen("gateway.grpc", g.GRPC, is, nil)
	p.listen("gateway.http", g.HTTP, is, nil)
	p.dial, _ = dialer(g.CellTLS) // checkFiles says why not
}

func collectCell(p *localProcess) {
	c := p.conf.Cell
	p.server = c.TLS
	var running *bool
	if c.Store == "" {
		s := &p.shard
		if s.seen, s.err = pebbleshard.Inspect(c.Data, shardOptions(c)); s.err == nil {
			held := s.seen.HeldBy != 0
			running = &held
		}
		s.at, s.atErr = nearest(c.Data)
	}
	is := processOfCell(c, "cell")
	p.listen("cell.grpc", c.GRPC, is, running)
	if c.Metrics != "" {
		p.listen("cell.metrics", c.Metrics, is, running)
	}
}

func collectAgent(p *localProcess) {
	a := p.conf.Agent
	p.client, p.clientAt, p.role = a.TLS, "agent.tls", security.Agent
	if a.Metrics != "" {
		p.listen("agent.metrics", a.Metrics, processOfAgent(a, "agent"), nil)
	}
	p.dial, _ = dialer(a.TLS) // checkFiles says why not
}

type dialFunc func(target string) (*grpc.ClientConn, error)

func dialer(c config.ClientTLS) (dialFunc, error) {
	s, err := security.NewClient(security.ClientConfig(c), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target, s.Options()...) }, nil
}

func canDial(p *localProcess) bool { return p.dial != nil }

// checkFiles reads certificates, keys and tokens as the process would.
func checkFiles(p *localProcess) (out results) {
	var s *security.ServerConfig
	var c *security.ClientConfig
	if p.server != (config.ServerTLS{}) {
		own := securityServer(p.server, config.Ingress{})
		s = &own
	}
	if p.client != (config.ClientTLS{}) {
		own := security.ClientConfig(p.client)
		c = &own
	}
	if s == nil && c == nil {
		return good("no certificates, no tokens: for loopback only")
	}
	for _, f := range security.Check(s, c, p.now()) {
		if f.Bad {
			out = append(out, diagnose(unhealthy, f.Text, cmp.Or(f.Do, "replace it; see docs/reference/security.md"))...)
		} else {
			out = append(out, diagnose(warned, f.Text, "renew it before that; the process reads it again by itself")...)
		}
	}
	if out == nil {
		return good("certificates, keys and tokens are valid, fit each other, and are kept from others")
	}
	return out
}

func checkLegacyFiles(p *localProcess) (out results) {
	for _, err := range split(legacyFiles(p.conf.Gateway)) {
		out = append(out, diagnose(unhealthy, err.Error(), "put the file there, or correct the path: a gateway does not start without it")...)
	}
	return out
}

// checkIdentity examines who the client's certificate is for: the process's role and, for an
// agent, the service hosts that it reports. Only those who know a token can say what it is for.
func checkIdentity(p *localProcess) results {
	s, err := security.NewClient(security.ClientConfig(p.client), slog.New(slog.DiscardHandler))
	if err != nil || p.client.TokenFile != "" {
		return nil // checkFiles reports it, or the token counts
	}
	id, err := s.Certificate()
	switch {
	case err != nil || id == nil:
		return nil // checkFiles reports it
	case id.Role != p.role:
		return diagnose(unhealthy, fmt.Sprintf("%s is of the role %s, not %s", p.client.Cert, id.Role, p.role), fmt.Sprintf("give one with the URI cellgate://%s/NAME", p.role))
	}
	hosts := p.serviceHosts()
	if foreign := slices.DeleteFunc(slices.Clone(hosts), id.SpeaksFor); len(foreign) > 0 {
		return diagnose(unhealthy, fmt.Sprintf("%s is of the agent of %s, not of %s (and %d more of %d hosts)", p.client.Cert, strings.Join(id.Hosts, ", "), foreign[0], len(foreign)-1, len(hosts)),
			"give one with a URI cellgate://agent/SERVICE_HOST for each host; a * may end it")
	}
	return good("is of the role %s", id.Role)
}

// serviceHosts are the hosts that an agent reports.
func (p *localProcess) serviceHosts() (all []string) {
	a := p.conf.Agent
	if p.role == security.Agent && a.Hosts == 0 {
		return []string{serviceHost(a.Host)}
	}
	for i := range a.Hosts {
		all = append(all, agent.Simulate(a.Seed, a.Cell, i).GetServiceHost())
	}
	return all
}

// checkAccepted asks the agent that runs whether its cell accepts its reports.
func checkAccepted(p *localProcess) (out results) {
	ctx, cancel := context.WithTimeout(p.ctx, askWithin)
	defer cancel()
	report, _ := webReport(ctx, "http://"+p.conf.Agent.Metrics+"/readyz", nil)
	for _, c := range report.Checks {
		if c.Name == statesCheck && !c.OK {
			out = append(out, diagnose(unhealthy, c.Why, "correct what is named and reload the agent; its cell's log has the refusal too")...)
		}
	}
	return out
}

// listen examines an address to listen on: it is free, or the process want has it already.
// running says whether the process runs, where something else than its ports shows it.
func (p *localProcess) listen(key, addr string, want health.Process, running *bool) {
	var out results
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		_ = l.Close() // it was never served
		out = good("is free")
	case errors.Is(err, syscall.EADDRINUSE):
		out = p.inUse(key, addr, want, running)
	case errors.Is(err, syscall.EACCES):
		out = diagnose(unhealthy, "this user may not listen there", "give a port above 1023")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		out = diagnose(unhealthy, "this machine does not have that address", "give one of its addresses, or 0.0.0.0 for all")
	default:
		out = diagnose(unhealthy, err.Error(), "give another address")
	}
	p.ports = append(p.ports, out.of(key+" "+addr)...)
}

// inUse says whose a port is that is in use. Certificates are not verified: nothing is
// trusted to the server, and nothing secret is shown to it.
func (p *localProcess) inUse(key, addr string, want health.Process, running *bool) results {
	unverified := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
	another := "stop what uses it, or give " + key + " another address"
	is, known := p.processAt(addr, unverified)
	switch {
	case known:
		return p.judge(is, want, another)
	case p.server.Cert == "" || !p.showsOwnCert(addr, unverified):
		return diagnose(unhealthy, "is in use by something that does not answer as a cellgate would", another)
	case running == nil:
		return diagnose(warned, "is served with "+p.server.Cert+", to callers with a certificate only: whether this one runs cannot be asked", "see which process it is; if another, "+another)
	case *running:
		p.served = true
		return good("is served with %s, and a process holds the shard: already running", p.server.Cert)
	}
	return diagnose(unhealthy, "is served with "+p.server.Cert+" by another: nobody holds the shard of "+want.String(), another)
}

// judge compares the process that is at an address with the one that is to be.
func (p *localProcess) judge(is, want health.Process, another string) results {
	cells := func(p health.Process) []string { return slices.Sorted(slices.Values(p.Cells)) }
	shared := slices.ContainsFunc(is.Cells, func(c string) bool { return slices.Contains(want.Cells, c) })
	others := !slices.Equal(cells(is), cells(want))
	text, wanted, over := "is served by "+is.String(), want.String(), strings.Join(want.Cells, ", ")
	is.Cells, want.Cells = nil, nil
	if is.Encode() != want.Encode() || others && !shared {
		return diagnose(unhealthy, text+", not by "+wanted, another)
	}
	p.served = true
	if others {
		return diagnose(warned, text+", not over "+over, "restart it when it is this one, whose cells were changed since it started; otherwise "+another)
	}
	return good("%s: already running", text)
}

// processAt asks for the process that serves an address, by gRPC and by HTTP, with TLS and
// without: the configuration may have been changed since it started.
func (p *localProcess) processAt(addr string, unverified *tls.Config) (is health.Process, known bool) {
	ctx, cancel := context.WithTimeout(p.ctx, askWithin)
	defer cancel()
	encrypted := p.server.Cert != ""
	for _, encrypted := range []bool{encrypted, !encrypted} {
		creds, scheme, config := insecure.NewCredentials(), "http://", (*tls.Config)(nil)
		if encrypted {
			creds, scheme, config = credentials.NewTLS(unverified.Clone()), "https://", unverified.Clone()
		}
		if is, known = servedBy(ctx, addr, creds); known {
			return is, true
		}
		if report, ok := webReport(ctx, scheme+addr+"/healthz", config); ok {
			return *report.Process, true
		}
	}
	return is, false
}

// showsOwnCert reports whether the server at an address shows the process's certificate: one
// that answers only to callers with a certificate says no more.
func (p *localProcess) showsOwnCert(addr string, unverified *tls.Config) bool {
	ctx, cancel := context.WithTimeout(p.ctx, askWithin)
	defer cancel()
	own, err := tls.LoadX509KeyPair(p.server.Cert, p.server.Key)
	if err != nil {
		return false // checkFiles reports it
	}
	conn, err := (&tls.Dialer{Config: unverified}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	secure, ok := conn.(*tls.Conn)
	return ok && len(secure.ConnectionState().PeerCertificates) > 0 && secure.ConnectionState().PeerCertificates[0].Equal(own.Leaf)
}

// servedBy gives the process whose gRPC health service answers.
func servedBy(ctx context.Context, addr string, creds credentials.TransportCredentials) (health.Process, bool) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		return health.Process{}, false
	}
	defer func() { _ = conn.Close() }()
	var header metadata.MD
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header)); err != nil || len(header.Get(health.ProcessHeader)) == 0 {
		return health.Process{}, false
	}
	return health.DecodeProcess(header.Get(health.ProcessHeader)[0])
}

// webReport is what a process reports of its health by HTTP; false for what is no cellgate's.
func webReport(ctx context.Context, url string, config *tls.Config) (report health.Report, ok bool) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return report, false
	}
	resp, err := client.Do(req)
	if err != nil {
		return report, false
	}
	defer func() { _ = resp.Body.Close() }()
	ok = json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<16)).Decode(&report) == nil && report.Process != nil && report.Process.Kind != ""
	return report, ok
}
