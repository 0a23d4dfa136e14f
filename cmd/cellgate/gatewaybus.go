package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/gophercloud/gophercloud/v2"
	"google.golang.org/grpc"

	"cellgate/gateway"
	"cellgate/gateway/bus"
	"cellgate/internal/config"
	"cellgate/internal/lifecycle"
	"cellgate/internal/novaconf"
	"cellgate/internal/security"
)

// addBus adds the server of Nova's message bus, when it is enabled. It calls the
// gateway's own gRPC server over conn, as REST does. legacyCells are those of gateway.legacy.
func (a *assembly) addBus(c config.Bus, legacyCells []string, p novaconf.Placement, g *gateway.Gateway, conn *grpc.ClientConn) error {
	if !c.Enabled {
		return nil
	}
	machine, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("gateway.bus.host: %w", err)
	}
	secure, err := busTLS(c)
	if err != nil {
		return err
	}
	placement, err := placementOf(c, p)
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
			Durable: c.DurableQueues, AutoDelete: c.AutoDelete, HA: c.HAQueues, Quorum: c.QuorumQueue,
			DeliveryLimit: c.DeliveryLimit, MaxMemoryLength: c.MemoryLength, MaxMemoryBytes: c.MemoryBytes, TransientTTL: c.TransientTTL,
		},
		TLS: secure, SSL: c.SSL, VerifyHost: c.VerifyHost, Heartbeat: c.Heartbeat, Prefetch: c.Prefetch,
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
	// After the gRPC server: it stops before that.
	a.add(lifecycle.Part{Name: "message bus", Run: b.Run, Drain: b.Drain})
	return nil
}

// placementOf is where allocations are written; nil for nowhere.
func placementOf(c config.Bus, p novaconf.Placement) (*bus.Placement, error) {
	if !c.Allocations {
		return nil, nil //nolint:nilnil // nothing is written, and nothing wrong
	}
	wrong := func(why string) (*bus.Placement, error) {
		return nil, fmt.Errorf("gateway.bus.write_allocations: [placement] of gateway.nova_conf %s", why)
	}
	switch {
	case p.AuthURL == "" || p.Username == "" || p.Password == "":
		return wrong("must have auth_url, username and password")
	case p.AuthType != "" && p.AuthType != "password" && p.AuthType != "v3password":
		return wrong(fmt.Sprintf("has auth_type %s; password is supported", p.AuthType))
	}
	out := &bus.Placement{
		Auth: gophercloud.AuthOptions{
			IdentityEndpoint: p.AuthURL, Username: p.Username, Password: p.Password, DomainID: p.UserDomainID, AllowReauth: true,
			Scope: &gophercloud.AuthScope{ProjectName: p.ProjectName, DomainID: p.ProjectDomainID},
		},
		Endpoint: p.EndpointOverride, Region: p.RegionName, Interfaces: p.Interfaces,
	}
	if p.UserDomainID == "" {
		out.Auth.DomainName = p.UserDomainName
	}
	if p.ProjectDomainID == "" {
		out.Auth.Scope.DomainName = p.ProjectDomainName
	}
	if p.CAFile != "" {
		roots, err := readCAs(p.CAFile)
		if err != nil {
			return wrong("cafile: " + err.Error())
		}
		out.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	}
	return out, nil
}

// busTLS reads the files of TLS.
func busTLS(c config.Bus) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	switch c.CA {
	case "":
	case config.SystemCA:
		out.RootCAs, err = x509.SystemCertPool()
	default:
		out.RootCAs, err = readCAs(c.CA)
	}
	if err != nil {
		return nil, fmt.Errorf("gateway.bus.ca: %w", err)
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
