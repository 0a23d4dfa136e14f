package main

import (
	"cmp"
	"fmt"
	"log/slog"

	"google.golang.org/grpc"

	"cellgate/internal/config"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
)

// gateway examines what a gateway needs.
func (d *doctor) gateway(c config.Config) {
	g := c.Gateway
	d.client, d.clientAt, d.role = g.CellTLS, "gateway.cell_tls", security.Gateway
	d.files("gateway.tls, gateway.cell_tls", &g.TLS, &g.CellTLS)
	d.port("gateway.grpc", g.GRPC, g.TLS)
	d.port("gateway.http", g.HTTP, g.TLS)
	dial, err := dialer(g.CellTLS)
	if err != nil {
		return // told with the files
	}
	for _, cell := range g.Cells {
		for _, address := range cell.Replicas {
			d.peer(fmt.Sprintf("cell %s at %s", cell.Name, address), dial, address, cell)
		}
	}
}

// cell examines what a cell needs.
func (d *doctor) cell(c config.Config) {
	d.files("cell.tls", &c.Cell.TLS, nil)
	d.port("cell.grpc", c.Cell.GRPC, c.Cell.TLS)
	if c.Cell.Metrics != "" {
		d.port("cell.metrics", c.Cell.Metrics, c.Cell.TLS)
	}
	d.shard(c.Cell)
}

// agent examines what agents need: the replicas of their cell.
func (d *doctor) agent(c config.Config) {
	d.client, d.clientAt, d.role = c.Agent.TLS, "agent.tls", security.Agent
	d.files("agent.tls", nil, &c.Agent.TLS)
	if c.Agent.Metrics != "" {
		d.port("agent.metrics", c.Agent.Metrics, config.ServerTLS{})
	}
	dial, err := dialer(c.Agent.TLS)
	if err != nil {
		return // told with the files
	}
	for _, address := range c.Agent.Replicas {
		d.reports(fmt.Sprintf("cell %s at %s", c.Agent.Cell, address), dial, address, c.Agent.Cell)
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
