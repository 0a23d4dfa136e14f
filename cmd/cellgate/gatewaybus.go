package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"

	"google.golang.org/grpc"

	"cellgate/gateway"
	"cellgate/gateway/bus"
	"cellgate/internal/config"
	"cellgate/internal/keystone"
	"cellgate/internal/lifecycle"
	"cellgate/internal/novaconf"
	"cellgate/internal/security"
)

// addBus adds the server of Nova's message bus, when it is enabled. Like REST, it calls the gateway's
// own gRPC server, over conn. legacyCells are the cells of gateway.legacy.
func (a *assembly) addBus(c config.Bus, legacyCells []string, p novaconf.Service, g *gateway.Gateway, conn *grpc.ClientConn) error {
	if !c.Enabled {
		return nil
	}
	machine, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("gateway.bus.host: %w", err)
	}
	placement, err := busPlacement(c, p)
	if err != nil {
		return err
	}
	var notifications *bus.Notifications
	if c.Notifications != "" {
		notifications = &bus.Notifications{TransportURL: c.NotifyURL, Topics: c.NotifyTopics, Bare: c.Notifications == "messaging"}
	}
	b, err := bus.New(bus.Config{
		TransportURL: c.TransportURL, Exchange: c.Exchange, Host: cmp.Or(c.Host, machine),
		Queues: bus.Queues{
			Durable: c.DurableQueues, AutoDelete: c.AutoDelete, Quorum: c.QuorumQueue,
			DeliveryLimit: c.DeliveryLimit, MaxMemoryLength: c.MemoryLength, MaxMemoryBytes: c.MemoryBytes, TransientTTL: c.TransientTTL,
		},
		TLS: func() (*tls.Config, error) { return busTLS(c) }, SSL: c.SSL, VerifyHost: c.VerifyHost, Heartbeat: c.Heartbeat, Prefetch: c.Prefetch,
		Timeout: c.Timeout, ClaimTTL: c.ClaimTTL, MaxAttempts: c.MaxAttempts, Reasons: c.Reasons, Placement: placement,
		Notifications: notifications,
	}, bus.Deps{
		Conn: conn, Log: a.log, Telemetry: a.telemetry.Bus(bus.Methods()),
		Cells: legacyCells, Transport: g.NovaTransport, Changed: g.ReadNova,
		As: func(ctx context.Context) context.Context { return security.As(ctx, security.Conductor) },
	})
	if err != nil {
		return fmt.Errorf("gateway.bus: %w", err)
	}
	g.Health().Also(b.Check)
	// It starts after the gRPC server, so that it stops before it.
	a.add(lifecycle.Part{Name: "message bus", Run: b.Run, Drain: b.Drain})
	return nil
}

// busPlacement makes the client by which the bus writes allocations; nil when it does not.
func busPlacement(c config.Bus, p novaconf.Service) (*keystone.Service, error) {
	if !c.Allocations {
		return nil, nil //nolint:nilnil // no client, and nothing wrong
	}
	s, err := serviceOf("placement", 1, p)
	if err != nil {
		return nil, fmt.Errorf("gateway.bus.write_allocations: %w", err)
	}
	return s, nil
}

// busTLS reads the TLS files. The bus calls it for each new connection.
func busTLS(c config.Bus) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		roots, err := readCAs(c.CA)
		if err != nil {
			return nil, fmt.Errorf("gateway.bus.ca: %w", err)
		}
		out.RootCAs = roots
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("gateway.bus.cert: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
