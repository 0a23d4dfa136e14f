package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/ingress"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
)

// askWithin bounds one request to another process.
const askWithin = 2 * time.Second

// localProcess is the evidence about one process that is to run here.
type localProcess struct {
	ctx  context.Context
	conf config.Config
	// details has the services of nova.conf.
	details *configDetails
	// server is how others call the process, and client how it calls others. clientAt is the
	// configuration's path of client, and role the role that the process must have. dial is nil when
	// doctor cannot use the client's files.
	server   config.ServerTLS
	client   config.ClientTLS
	clientAt string
	role     security.Role
	dial     dialFunc
	// ports are the results of examining the addresses to listen on.
	ports results
}

func gatherGateway(p *localProcess) {
	g := p.conf.Gateway
	p.server = g.TLS
	p.calls(g.CellTLS, "gateway.cell_tls", security.Gateway)
	p.listen("gateway.grpc", g.GRPC)
	p.listen("gateway.http", g.HTTP)
	if g.Placement.Enabled {
		p.listen("gateway.placement.listen", g.Placement.Listen)
	}
}

func gatherCell(p *localProcess) {
	c := p.conf.Cell
	p.server = c.TLS
	p.listen("cell.grpc", c.GRPC)
	p.listen("cell.metrics", c.Metrics)
}

func gatherAgent(p *localProcess) {
	a := p.conf.Agent
	p.calls(a.TLS, "agent.tls", security.Agent)
	p.listen("agent.metrics", a.Metrics)
}

// calls sets how the process calls others.
func (p *localProcess) calls(c config.ClientTLS, at string, role security.Role) {
	p.client, p.clientAt, p.role = c, at, role
	p.dial, _ = dialer(c) // checkFiles says why not
}

type dialFunc func(target string) (*grpc.ClientConn, error)

func dialer(c config.ClientTLS) (dialFunc, error) {
	s, err := security.NewClient(security.ClientConfig(c), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target, s.Options()...) }, nil
}

// checkFiles reads certificates, keys and tokens as the process would.
func checkFiles(p *localProcess) (out results) {
	if p.server == (config.ServerTLS{}) && p.client == (config.ClientTLS{}) {
		return good("no certificates, no tokens: for loopback only")
	}
	server, client := securityServer(p.server, ingress.Limits{}), security.ClientConfig(p.client)
	for _, f := range security.Check(&server, &client, time.Now()) {
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

// checkServicesUse reads the files and accounts by which a gateway serves other services.
func checkServicesUse(p *localProcess) results {
	g := p.conf.Gateway
	if err := servicesProblem(g, p.details); err != nil || !g.Bus.Enabled && !g.Placement.Enabled {
		return each(err, "correct it: a gateway does not start without it")
	}
	return good("their files and accounts can be read")
}

// checkIdentity examines whom the client's certificate is for: the process's role and, for an agent,
// the service hosts that it reports. Only the server knows whom a token is for.
func checkIdentity(p *localProcess) results {
	s, err := security.NewClient(security.ClientConfig(p.client), slog.New(slog.DiscardHandler))
	if err != nil || p.client.TokenFile != "" {
		return nil // checkFiles reports it, or the token is what the server checks
	}
	id, err := s.Certificate()
	switch {
	case err != nil || id == nil:
		return nil // checkFiles reports it
	case id.Role != p.role:
		return diagnose(unhealthy, fmt.Sprintf("%s is of the role %s, not %s", p.client.Cert, id.Role, p.role), fmt.Sprintf("give one with the URI cellgate://%s/NAME", p.role))
	}
	var hosts []string
	if a := p.conf.Agent; p.role == security.Agent && a.Hosts == 0 {
		hosts = []string{serviceHost(a.Host)}
	} else {
		for i := range a.Hosts {
			hosts = append(hosts, agent.Simulate(a.Seed, a.Cell, i).GetServiceHost())
		}
	}
	if foreign := slices.DeleteFunc(slices.Clone(hosts), id.SpeaksFor); len(foreign) > 0 {
		return diagnose(unhealthy, fmt.Sprintf("%s is of the agent of %s, not of %s (and %d more of %d hosts)", p.client.Cert, strings.Join(id.Hosts, ", "), foreign[0], len(foreign)-1, len(hosts)),
			"give one with a URI cellgate://agent/SERVICE_HOST for each host; a * may end it")
	}
	return good("is of the role %s", id.Role)
}

func checkPorts(p *localProcess) results { return p.ports }

// listen examines an address to listen on, if there is one.
func (p *localProcess) listen(key, addr string) {
	if addr == "" {
		return
	}
	out := good("is free")
	switch l, err := net.Listen("tcp", addr); {
	case err == nil:
		_ = l.Close() // it was never served
	case errors.Is(err, syscall.EADDRINUSE):
		out = diagnose(warned, "is in use", "nothing, if it is this process that runs already; else stop what uses it, or give "+key+" another address")
	case errors.Is(err, syscall.EACCES):
		out = diagnose(unhealthy, "this user may not listen there", "give a port above 1023")
	default:
		out = diagnose(unhealthy, err.Error(), "give one of this machine's addresses, or 0.0.0.0 for all")
	}
	p.ports = append(p.ports, out.named(key+" "+addr)...)
}
