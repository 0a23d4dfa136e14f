package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"cellgate/gateway/legacy/importer"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/config"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// mostNamed is how many hosts, rows or instances a check of an upgrade names for each status.
const mostNamed = 20

// upgradeChecks examine one cell, in this order.
var upgradeChecks = []check[*upgrade]{
	{"scheduler", checkScheduler},
	{"gate", checkGate},
	{"legacy database", checkDatabaseAge},
	{"services", withRows(checkServices)},
	{"nova-compute without a row", withRows(checkServicesWithoutRows)},
	{"agents", withRows(checkAgents)},
	{"differences", checkDifferences},
	{"agents without a row", withRows(checkAgentsWithoutRows)},
	{"gone hosts", withRows(checkGoneHosts)},
	{"instances of agents", checkUnknownInstances},
	{"compute_nodes", withRows(checkLeftOut)},
	{"ratios", withRows(checkRatios)},
	{"instances", checkInstances},
	{"claims", checkClaims},
}

// withRows makes a check run only when the reader has read the legacy database.
func withRows(run func(*upgrade) results) func(*upgrade) results {
	return func(u *upgrade) results {
		if u.rows == nil {
			return nil
		}
		return run(u)
	}
}

// upgrade is the evidence of one cell's upgrade.
type upgrade struct {
	conf config.LegacyCell
	cell config.GatewayCell
	// down is the cell's service_down_time.
	down time.Duration

	// scheduler are the cell's replicas, nil when it has none. listed reports that they listed the
	// cell's hosts: hosts has them in order, and byUUID by uuid. Else schedulerErr says why not.
	scheduler    *replicas
	listed       bool
	schedulerErr error
	hosts        []*cellgatev1.Host
	byUUID       map[string]*cellgatev1.Host
	// gate is nil when the cell has none, or when gateErr says why it is not known.
	gate    *cellgatev1.Gate
	gateErr error

	// rows are what the reader read of the legacy database, nil when err says why not.
	rows *novadb.Snapshot
	err  error
	// imported is the report of a dry run of the importer, nil for none.
	imported     *importer.Report
	unclaimed    []importer.UnclaimedInstance
	unclaimedErr error
}

// silence says why a service does not block the gate; "" when it does.
func (u *upgrade) silence(s *novadb.Service) string {
	now := u.rows.At
	switch up := s.Up(now, u.down); {
	case s.ForcedDown:
		return "it is forced down"
	case up:
		return ""
	case s.Disabled:
		return "it is disabled and down"
	case s.LastSeenUp.IsZero() || now.Sub(s.LastSeenUp) >= 2*u.down:
		return "it is down for long"
	}
	return ""
}

// isTooOld reports whether a service blocks the gate by its version.
func (u *upgrade) isTooOld(s *novadb.Service) bool {
	return s.Version < int64(u.conf.RequiredVersion) && u.silence(s) == ""
}

func newDoctorUpgrade(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Say what stands in the way of a cell's upgrade from Nova's own tables",
		Long: `Say, for each cell of gateway.legacy, what stands between it and NATIVE: hosts whose
nova-compute or agent is old, or whose agent reports other names, another capacity, another
hypervisor or other instances than Nova has of it, rows that are no hosts, instances without a
host's row or without a claim, allocation ratios that change their meaning, and filters of nova.conf to delete.

It reads the legacy databases and the cells, and changes nothing.

Exit status: 0 when nothing stands in the way (notes and warnings do not), 2 when the
configuration is wrong, else 1.`,
		Example: "  cellgate doctor upgrade --config deploy/examples/gateway.yaml\n  cellgate doctor upgrade --config /etc/cellgate/gateway.yaml --cell cell1 --nova-conf deploy/examples/nova.conf -o json",
		Args:    usageArgs(cobra.NoArgs),
	}
	f := cmd.Flags()
	file := f.String("config", "", "YAML file of the gateway, with gateway.legacy")
	only := f.String("cell", "", "look at this cell only")
	confs := f.StringArray("nova-conf", nil, "nova.conf of the scheduler that runs today; again for each; by default gateway.nova_conf")
	timeout := f.Duration("timeout", 5*time.Minute, "how long it may take")
	form := outputFlag(cmd, "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		c, err := loadGateway(*file, t.env)
		if err != nil {
			if *form != "table" {
				_ = checkConfiguration("gateway", err).print(cmd.OutOrStdout(), *form) // it fails, as err says
			}
			return err
		}
		g := c.Gateway
		cells := slices.DeleteFunc(slices.Clone(g.Legacy), func(l config.LegacyCell) bool { return *only != "" && l.Cell != *only })
		if *only != "" && len(cells) == 0 {
			return usage(cmd, fmt.Errorf("--cell: %q is none of gateway.legacy", *only))
		}
		var out results
		if len(cells) == 0 {
			out = append(out, diagnose(noted, "names no cell: none is under upgrade", "").named("gateway.legacy")...)
		}
		if len(*confs) == 0 {
			*confs = g.NovaConf
		}
		out = append(out, redundantFilters(*confs, g.Nova)...)
		for _, l := range cells {
			u := &upgrade{conf: l, cell: cellOf(g, l.Cell), down: cmp.Or(l.ServiceDownTime, time.Minute)}
			u.collect(ctx, g.CellTLS)
			out = append(out, examine(l.Cell+" ", u, mostNamed, upgradeChecks)...)
		}
		return out.print(cmd.OutOrStdout(), *form)
	}
	return cmd
}

// collect asks the cell's scheduler and reads the legacy database.
func (u *upgrade) collect(ctx context.Context, tls config.ClientTLS) {
	conf, err := readerConfig(u.conf, u.cell.UUID)
	if err != nil {
		u.err = err
		return
	}
	conf.MaxLeftOut = 100_000 // all of them
	if !u.conf.Only {
		if u.scheduler, u.schedulerErr = dialReplicas(tls, u.cell); u.schedulerErr == nil {
			defer func() { _ = u.scheduler.Close() }() // its calls are over
			u.schedulerErr = u.askScheduler(ctx)
		}
	}
	u.err = u.readTables(ctx, conf)
}

func (u *upgrade) askScheduler(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for in, more := (&cellv1.ListHostsRequest{PageSize: maxPage}), true; more; {
		page, err := u.scheduler.ListHosts(within, in)
		if err != nil {
			return err
		}
		u.hosts = append(u.hosts, page.GetHosts()...)
		if more = page.GetMore() && len(page.GetHosts()) > 0; more {
			last := u.hosts[len(u.hosts)-1]
			in.AfterServiceHost, in.AfterHostUuid = last.GetServiceHost(), last.GetHostUuid()
		}
	}
	u.listed, u.byUUID = true, map[string]*cellgatev1.Host{}
	for _, h := range u.hosts {
		u.byUUID[h.GetHostUuid()] = h
	}
	resp, err := ofAny(within, u.scheduler, &cellv1.ReportLegacyRequest{Gateway: "cellgate doctor", Look: true}, cellv1.CellSchedulerClient.ReportLegacy)
	u.gate, u.gateErr = resp.GetGate(), err
	return nil
}

// readTables reads the legacy database and runs an import that writes nothing.
func (u *upgrade) readTables(ctx context.Context, conf novadb.Config) error {
	reader, err := novadb.Open(ctx, conf)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }() // it has been read
	x, err := reader.Load(ctx)
	if err != nil {
		return err
	}
	u.rows = x
	m, err := importer.New(importer.Config{Cell: u.conf.Cell, StepHosts: max(len(x.Hosts), 1), MaxLeftOut: 100_000})
	if err != nil {
		return err
	}
	r, err := m.Step(ctx, x, dryCell{u.scheduler})
	if err != nil {
		return err
	}
	if u.imported = &r; u.listed {
		return u.findUnclaimed(ctx, reader, m)
	}
	return nil
}

// recheckAfter is the pause before a second search for unclaimed instances.
const recheckAfter = 3 * time.Second

// findUnclaimed asks the cell which instances have no claim. Some may be about to be deleted, so it
// counts only those that a second search finds too.
func (u *upgrade) findUnclaimed(ctx context.Context, reader *novadb.Reader, m *importer.Importer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	all, err := m.FindUnclaimed(ctx, u.rows, u.scheduler)
	if u.unclaimedErr = err; err != nil || len(all.Found) == 0 {
		return nil
	}
	select {
	case <-time.After(recheckAfter):
	case <-ctx.Done():
		return ctx.Err()
	}
	x, err := reader.Refresh(ctx, u.rows)
	if err == nil {
		_, err = m.Step(ctx, x, dryCell{u.scheduler})
	}
	if err != nil {
		return err
	}
	all, u.unclaimedErr = m.FindUnclaimed(ctx, x, u.scheduler)
	u.unclaimed = slices.DeleteFunc(all.Found, func(i importer.UnclaimedInstance) bool { return !i.Lasting })
	return nil
}

// dryCell accepts hosts and stores nothing. It lists no hosts of earlier imports.
type dryCell struct{ *replicas }

func (dryCell) ImportHosts(_ context.Context, in *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	out := &cellv1.ImportHostsResponse{}
	for range in.GetHosts() {
		out.Outcomes = append(out.Outcomes, &cellv1.ImportOutcome{Unchanged: true})
	}
	return out, nil
}

func (dryCell) ListHosts(context.Context, *cellv1.ListHostsRequest, ...grpc.CallOption) (*cellv1.ListHostsResponse, error) {
	return &cellv1.ListHostsResponse{}, nil
}

// problemOf writes an error on one line, with the trouble that a reader found.
func problemOf(err error) string {
	text := wording(err)
	if t := novadb.TroubleOf(err); t != "" {
		text += " (" + string(t) + ")"
	}
	return strings.ReplaceAll(text, "\n", "; ")
}
