package main

import (
	"context"
	"net"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/gateway"
	"cellgate/gateway/rest"
	"cellgate/gateway/rules"
	"cellgate/internal/config"
	"cellgate/internal/lifecycle"
	"cellgate/internal/novaconf"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
)

func newGateway(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run a gateway: the public API over the cells",
		Long: `Run a gateway over cells that run elsewhere. Each key of the configuration
file's section "gateway" is also a variable CELLGATE_GATEWAY_<KEY> and a flag;
flags win.`,
		Example: `  cellgate gateway --config deploy/examples/gateway.yaml
  cellgate gateway --cell cell1=127.0.0.1:9101 --cell cell2=127.0.0.1:9102`,
		Args: usageArgs(cobra.NoArgs),
	}
	load := bindServing(cmd, "gateway", t)
	cmd.RunE = serves(func(cmd *cobra.Command) error {
		c, details, done, err := load()
		if err != nil || done {
			return err
		}
		a := &assembly{log: newLog(c.Log, t), drain: c.Gateway.DrainDelay}
		var s startup
		s.add(a.observe(c.Telemetry, "gateway"))
		api, err := a.listen(c.Gateway.GRPC, "grpc")
		s.add(err)
		web, err := a.listen(c.Gateway.HTTP, "http")
		s.add(err)
		placement, err := a.listenPlacement(c.Gateway.Placement, "placement-listen")
		s.add(err)
		tls, err := a.addServerTLS("gateway.tls", c.Gateway.TLS, ingressLimits(c.Gateway.Ingress, 0))
		s.add(err)
		dial, err := a.addClientTLS("gateway.cell_tls", c.Gateway.CellTLS)
		s.add(err)
		s.add(legacyFiles(c.Gateway))
		s.add(servicesProblem(c.Gateway, details))
		if err := s.err(); err != nil {
			return a.abandon(cmd.Context(), err)
		}
		if c.Gateway.Cells, dial, err = a.addLegacyOnly(cmd.Context(), c.Gateway, dial); err != nil {
			return a.abandon(cmd.Context(), err)
		}
		if err := a.addGateway(c.Gateway, gatewayConns{grpc: api, http: web, placementAPI: placement, tls: tls, cells: dial, placement: details.placement, neutron: details.neutron}); err != nil {
			return a.abandon(cmd.Context(), err)
		}
		a.log.Info("gateway starts", "grpc", api.Addr().String(), "http", web.Addr().String(), "cells", len(c.Gateway.Cells))
		return a.run(cmd.Context())
	})
	return cmd
}

// gatewayConns are how others reach a gateway, and how it reaches them.
type gatewayConns struct {
	grpc, http net.Listener
	// placementAPI is nil when the gateway does not serve it.
	placementAPI net.Listener
	// tls admits the callers of grpc and http.
	tls *security.Server
	// cells dials a replica of a cell.
	cells dialFunc
	// placement and neutron are Nova's services of those names.
	placement, neutron novaconf.Service
}

// nameOf gives the name by which people know a process: its machine, and where it listens.
func nameOf(listener net.Listener) string {
	machine, err := os.Hostname()
	if err != nil {
		return listener.Addr().String()
	}
	return machine + " (" + listener.Addr().String() + ")"
}

// rulesOf gives the rules by which a gateway decides.
func rulesOf(c config.Gateway) rules.Config {
	out := rules.Config{
		Filters: c.Filters, DefaultAvailabilityZone: c.DefaultAvailabilityZone, Weighers: c.Weighers, Options: &c.Nova,
		FilterExpression: c.FilterExpression, WeighExpression: c.WeighExpression, WeighMultiplier: c.WeighMultiplier,
	}
	for _, alias := range c.PCIAliases {
		out.PCIAliases = append(out.PCIAliases, rules.PCIAlias(alias))
	}
	return out
}

// addGateway adds a gateway, its gRPC server and its REST server. The REST server calls the gRPC server
// over a connection in memory, so both have one path.
func (a *assembly) addGateway(c config.Gateway, d gatewayConns) error {
	cfg := gateway.Config{
		Name: nameOf(d.grpc), WebURL: "http://" + d.http.Addr().String(),
		ProposeBudget: c.ProposeBudget, ClaimBudget: c.ClaimBudget, MaxDeadline: c.MaxDeadline,
		MaxInFlight: c.MaxInFlight, KeepOrder: !c.AvoidCollisions, HintExpressions: c.HintExpressions,
		Config:        rulesOf(c),
		DecisionQueue: c.DecisionQueue,
		Breaker:       gateway.BreakerConfig(c.Breaker),
	}
	if c.TLS.Cert != "" {
		cfg.WebURL = "https://" + d.http.Addr().String()
	}
	for _, cell := range c.Cells {
		cfg.Cells = append(cfg.Cells, gateway.CellConfig{Name: cell.Name, UUID: cell.UUID, Replicas: cell.Replicas, Disabled: cell.Disabled})
	}
	parts, err := legacyParts(c, cfg.Cells, a.log)
	if err != nil {
		return err
	}
	tel := a.telemetry.Gateway()
	deps := gateway.Deps{Dial: d.cells, Log: a.log, Telemetry: tel, Legacy: parts, Ingress: d.tls.Ingress()}
	routed, err := segments(c.Nova.RoutedNetworks, d.neutron, d.placement)
	if err != nil {
		return err
	}
	if routed != nil {
		deps.Segments = routed.Aggregates
	}
	g, err := gateway.New(cfg, deps)
	if err != nil {
		return err
	}
	server := rpc.NewServer(a.log, slices.Concat(d.tls.Options(), g.ServerOptions(), tel.ServerOptions())...)
	g.Register(server)
	healthService := rpc.ServeHealth(server)
	memory := bufconn.Listen(1 << 20)
	conn, err := rpc.Dial("passthrough:///gateway", security.Forward(), grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return memory.DialContext(ctx) }))
	if err != nil {
		return err
	}
	handler, err := g.HTTPHandler(conn)
	if err != nil {
		return err
	}
	a.add(lifecycle.Part{Name: "gateway", Run: g.Run, Ready: g.Ready()})
	a.add(lifecycle.GRPC("gRPC API", server, d.tls.Ingress().Listener(d.grpc), security.Memory(memory)))
	a.own("REST connection", conn)
	var legacyCells []string
	for _, l := range c.Legacy {
		legacyCells = append(legacyCells, l.Cell)
	}
	if err := a.addBus(c.Bus, legacyCells, d.placement, g, conn); err != nil {
		return err
	}
	if err := a.addPlacement(c, g, d.tls, d.placementAPI); err != nil {
		return err
	}
	web := d.tls.Near(d.tls.HTTP(handler, rest.WriteError), d.http.Addr(), rest.WriteError)
	a.add(lifecycle.HTTP("REST API", web, d.tls.Listener(d.http), d.tls.ErrorLog()))
	a.reportHealth("the gateway", g.Health(), healthService)
	return nil
}
