package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	"cellgate/shard/pebbleshard"
)

// gateway examines what a gateway needs.
func (d *doctor) gateway(c config.Config) {
	g := c.Gateway
	d.client, d.clientAt, d.role = g.CellTLS, "gateway.cell_tls", security.Gateway
	d.files("gateway.tls, gateway.cell_tls", &g.TLS, &g.CellTLS)
	for _, err := range split(legacyFiles(g)) {
		d.add("gateway.legacy", unhealthy, err.Error(), "put the file there, or correct the path: a gateway does not start without it")
	}
	at := &addresses{doctor: d, process: processOfGateway(g, "gateway"), files: g.TLS}
	at.port("gateway.grpc", g.GRPC)
	at.port("gateway.http", g.HTTP)
	dial, err := dialer(g.CellTLS)
	if err != nil {
		return // told with the files
	}
	d.identity(nil)
	for _, cell := range g.Cells {
		for _, address := range cell.Replicas {
			d.peer(fmt.Sprintf("cell %s at %s", cell.Name, address), dial, address, cell, slices.ContainsFunc(g.Legacy, func(l config.LegacyCell) bool { return l.Cell == cell.Name }))
		}
	}
}

// cell examines what a cell needs.
func (d *doctor) cell(c config.Config) {
	d.files("cell.tls", &c.Cell.TLS, nil)
	at := &addresses{doctor: d, process: processOfCell(c.Cell, "cell"), files: c.Cell.TLS}
	var seen pebbleshard.Inspection
	var err error
	if c.Cell.Store == "" {
		if seen, err = pebbleshard.Inspect(c.Cell.Data, shardOptions(c.Cell)); err == nil {
			held := seen.HeldBy != 0
			at.running = &held
		}
	}
	at.port("cell.grpc", c.Cell.GRPC)
	if c.Cell.Metrics != "" {
		at.port("cell.metrics", c.Cell.Metrics)
	}
	if c.Cell.Store != "" {
		d.database(c.Cell)
		return
	}
	d.shard(c.Cell, seen, err, at.served)
}

// agent examines what agents need: the replicas of their cell.
func (d *doctor) agent(c config.Config) {
	d.client, d.clientAt, d.role = c.Agent.TLS, "agent.tls", security.Agent
	d.files("agent.tls", nil, &c.Agent.TLS)
	if c.Agent.Metrics != "" {
		at := &addresses{doctor: d, process: processOfAgent(c.Agent, "agent")}
		at.port("agent.metrics", c.Agent.Metrics)
		if at.served {
			d.accepted(c.Agent.Metrics)
		}
	}
	if c.Agent.Hosts == 0 {
		d.host(c.Agent)
	}
	dial, err := dialer(c.Agent.TLS)
	if err != nil {
		return // told with the files
	}
	d.identity(func(i int) (string, bool) {
		switch {
		case c.Agent.Hosts == 0:
			return serviceHost(c.Agent.Host), i == 0
		case i >= c.Agent.Hosts:
			return "", false
		}
		return agent.Simulate(c.Agent.Seed, c.Agent.Cell, i).GetServiceHost(), true
	})
	for _, address := range c.Agent.Replicas {
		d.reports(fmt.Sprintf("cell %s at %s", c.Agent.Cell, address), dial, address, c.Agent.Cell)
	}
}

// accepted examines whether the cell takes what the agent says that runs.
func (d *doctor) accepted(addr string) {
	ctx, cancel := context.WithTimeout(d.ctx, askWithin)
	defer cancel()
	report, ok := webReport(ctx, "http://"+addr+"/readyz", nil)
	if !ok {
		return // told with the port
	}
	for _, c := range report.Checks {
		if c.Name == statesCheck && !c.OK {
			d.add("agent's "+c.Name, unhealthy, c.Why, "correct what is named and reload the agent; its cell's log has the refusal too")
		}
	}
}

type dialFunc func(target string) (*grpc.ClientConn, error)

func dialer(c config.ClientTLS) (dialFunc, error) {
	s, err := security.NewClient(security.ClientConfig(c), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target, s.Options()...) }, nil
}

// identity examines who the client's certificate is for: the process's role and,
// for an agent, the service hosts that it reports, which host gives by index. What a
// token is for, only those who know it can say.
func (d *doctor) identity(host func(i int) (string, bool)) {
	check := d.clientAt + ".cert"
	s, err := security.NewClient(security.ClientConfig(d.client), slog.New(slog.DiscardHandler))
	if err != nil || d.client.TokenFile != "" {
		return // told with the files, or the token counts
	}
	id, err := s.Certificate()
	switch {
	case err != nil || id == nil:
		return // told with the files
	case id.Role != d.role:
		d.add(check, unhealthy, fmt.Sprintf("%s is of the role %s, not %s", d.client.Cert, id.Role, d.role), fmt.Sprintf("give one with the URI cellgate://%s/NAME", d.role))
		return
	}
	if host != nil {
		foreign, first, n := 0, "", 0
		for name, more := host(0); more; name, more = host(n) {
			if n++; !id.SpeaksFor(name) {
				first = cmp.Or(first, name)
				foreign++
			}
		}
		if foreign > 0 {
			d.add(check, unhealthy, fmt.Sprintf("%s is of the agent of %s, not of %s (and %d more of %d hosts)", d.client.Cert, strings.Join(id.Hosts, ", "), first, foreign-1, n),
				"give one with a URI cellgate://agent/SERVICE_HOST for each host; a * may end it")
			return
		}
	}
	d.ok(check, "is of the role %s", id.Role)
}

// files examines certificates, keys and tokens as the process would read them.
func (d *doctor) files(check string, server *config.ServerTLS, client *config.ClientTLS) {
	var s *security.ServerConfig
	var c *security.ClientConfig
	if server != nil && *server != (config.ServerTLS{}) {
		own := securityServer(*server)
		s = &own
	}
	if client != nil && *client != (config.ClientTLS{}) {
		own := security.ClientConfig(*client)
		c = &own
	}
	if s == nil && c == nil {
		d.ok(check, "no certificates, no tokens: for loopback only")
		return
	}
	bad := 0
	for _, f := range security.Check(s, c, d.now()) {
		if f.Bad {
			d.add(check, unhealthy, f.Text, cmp.Or(f.Do, "replace it; see docs/security.md"))
		} else {
			d.add(check, warned, f.Text, "renew it before that; the process reads it again by itself")
		}
		bad++
	}
	if bad == 0 {
		d.ok(check, "certificates, keys and tokens are valid, fit each other, and are kept from others")
	}
}
