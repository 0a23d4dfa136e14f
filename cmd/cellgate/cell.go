package main

import (
	"cmp"
	"context"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"cellgate/cell"
	"cellgate/cell/agents"
	"cellgate/internal/config"
	"cellgate/internal/lifecycle"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
)

func newCell(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cell",
		Short: "Run the scheduler of one cell",
		Long: `Run one cell: its scheduler, the service its agents report to, and its shard in
a directory or in a database. Each key of the configuration file's section "cell" is also a
variable CELLGATE_CELL_<KEY> and a flag; flags win.`,
		Example: `  cellgate cell --config deploy/examples/cell1.yaml
  cellgate cell --name cell1 --uuid c0000000-0000-4000-8000-000000000001 --data ./cell1
  cellgate cell --name cell1 --uuid c0000000-0000-4000-8000-000000000001 --store postgres://cellgate@127.0.0.1:5432/cell1 --store-migrate`,
		Args: usageArgs(cobra.NoArgs),
	}
	load := bindKeys(cmd, "cell", t.env)
	cmd.RunE = serves(func(cmd *cobra.Command) error {
		c, err := load()
		if err != nil {
			return err
		}
		a := &assembly{log: newLog(c.Log, t), drain: c.Cell.DrainDelay}
		var s startup
		s.add(a.observe(c.Telemetry, "cell"))
		l, err := a.listen(c.Cell.GRPC, "grpc")
		s.add(err)
		web, err := a.listenMetrics(c.Cell.Metrics)
		s.add(err)
		tls, err := a.addServerTLS("cell.tls", c.Cell.TLS, ingressLimits(c.Cell.Ingress, c.Cell.MaxAgentHosts))
		s.add(err)
		s.add(checkShard(cmd.Context(), c.Cell))
		if err := s.err(); err != nil {
			return a.abandon(cmd.Context(), err)
		}
		if err := a.addCell(cmd.Context(), c.Cell, l, web, tls); err != nil {
			return a.abandon(cmd.Context(), err)
		}
		a.log.Info("cell starts", "cell", c.Cell.Name, "grpc", l.Addr().String(), "shard", placeOf(c.Cell).String())
		return a.run(cmd.Context())
	})
	return cmd
}

// addCell opens a cell's shard, and adds the shard, the cell's server on l, its health and its metrics on
// web, and the cell. web may be nil. tls says which callers both admit.
func (a *assembly) addCell(ctx context.Context, c config.Cell, l, web net.Listener, tls *security.Server) error {
	log := a.log.With("cell", c.Name)
	c.Replica = cmp.Or(c.Replica, c.Name)
	store, err := openShard(ctx, c, a.memTable, log)
	if err != nil {
		return err
	}
	a.own("shard of "+c.Name, store)
	tel := a.telemetry.Cell(c.Name, c.Replica)
	watchShard(tel, store)
	s, err := cell.New(cell.Config{
		Name: c.Name, UUID: c.UUID, Replica: c.Replica,
		ServiceDownTime: c.ServiceDownTime, HeartbeatEvery: c.HeartbeatEvery,
		VerifyMode: agents.VerifyMode(c.VerifyMode), VerifyWait: c.VerifyWait,
		ReconcileInterval: c.ReconcileInterval, ReconcileGrace: c.ReconcileGrace, ReconcileRelease: c.ReconcileRelease, ReconcileReportOnly: !c.ReconcileRepair,
		SnapshotTTL: c.SnapshotTTL, LeaseScan: c.LeaseScan, MaxBatch: c.MaxBatch, MaxQueue: c.MaxQueue,
		MaxHosts: c.MaxHosts, MaxHostsMiB: c.MaxHostsMiB, MaxAgentHosts: c.MaxAgentHosts, MaxAgentHostsMiB: c.MaxAgentHostsMiB,
		DecisionsKeep: c.DecisionsKeep, MaxDecisions: c.MaxDecisions,
		GateSettle:  c.GateSettle,
		GateClasses: c.GateClasses, GateAgentVersion: c.GateAgentVersion,
		Version: versionText(),
	}, cell.Deps{Store: store, Log: a.log, Telemetry: tel})
	if err != nil {
		return err
	}
	server := rpc.NewServer(log, slices.Concat(cell.ServerOptions(), tls.Options(), tel.ServerOptions())...)
	s.Register(server)
	healthService := rpc.ServeHealth(server)
	// The cell starts after its server, and stops before it: it ends the agents' streams, refuses
	// requests while it loads or stops, and says so in its health.
	a.add(lifecycle.GRPC("server of "+c.Name, server, tls.Ingress().Listener(l)))
	a.reportHealth(c.Name, s.Health(), healthService)
	a.addMetrics(web, s.Health(), tls)
	a.add(lifecycle.Part{Name: c.Name, Run: s.Run, Ready: s.Ready()})
	return nil
}
