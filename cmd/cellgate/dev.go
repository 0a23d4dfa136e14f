package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/ingress"
	"cellgate/internal/lifecycle"
	"cellgate/shard/sqlshard"
)

// dev runs everything in one process: the same parts as the other commands, with one telemetry for all
// and real loopback gRPC between them.
type dev struct {
	assembly
	cfg    config.Config
	t      terminal
	start  time.Time
	cells  []config.GatewayCell
	fleets []*agent.Fleet
	// debug serves profiles; nil for none.
	debug net.Listener
}

func newDev(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run cells, simulated hosts and a gateway in one process",
		Long: `Run everything in one process: cells with embedded shards, or with shards in
databases (made if they do not exist), a simulated fleet for each cell, and a
gateway over them, with real loopback gRPC between all parts. With --sample it
also sends the bundled requests, half through REST and half through gRPC, and
prints where they were placed. Each key of the configuration file's
section "dev" is also a variable CELLGATE_DEV_<KEY> and a flag; flags win.`,
		Example: `  cellgate dev --cells 3 --hosts 1000 --data ./data --sample
  cellgate dev --cells 3 --hosts 1000 --data ./data --sample --once
  cellgate dev --cells 3 --hosts 1000 --store postgres://postgres@127.0.0.1:5432/cellgate --sample`,
		Args: usageArgs(cobra.NoArgs),
	}
	load := bindServing(cmd, "dev", t)
	cmd.RunE = serves(func(cmd *cobra.Command) error {
		c, _, done, err := load()
		if err != nil || done {
			return err
		}
		d := &dev{assembly: assembly{log: newLog(c.Log, t), memTable: devMemTable}, cfg: c, t: t, start: time.Now()}
		if err := d.observe(c.Telemetry, "dev"); err != nil {
			return err
		}
		if err := d.build(cmd.Context()); err != nil {
			return d.abandon(cmd.Context(), err)
		}
		return d.run(cmd.Context())
	})
	return cmd
}

// devMemTable is small, since all cells share one process. It takes 12 MiB less a cell, and the store
// takes 8 µs more of a processor a claim.
const devMemTable = 2 << 20

// devProposeBudget is generous: all cells share one machine, and none of them is dead while the others
// live.
const devProposeBudget = 2 * time.Second

// build opens all listeners and examines every shard before it opens the first one. So a port in use,
// or an unfit directory, changes nothing. Then it adds the parts from the shards up.
func (d *dev) build(ctx context.Context) error {
	c := d.cfg.Dev
	var s startup
	api, err := d.listen(c.GRPC, "grpc")
	s.add(err)
	web, err := d.listen(c.HTTP, "http")
	s.add(err)
	if c.Pprof != "" {
		d.debug, err = d.listen(c.Pprof, "pprof")
		s.add(err)
	}
	providers := d.cfg.Gateway.Placement
	providers.Enabled, providers.TrustLoopback, providers.Listen = c.Placement != "", true, c.Placement
	placement, err := d.listenPlacement(providers, "placement")
	s.add(err)
	ports := make([]net.Listener, c.Cells)
	for i := range ports {
		port := c.CellBasePort
		if port > 0 {
			port += i
		}
		ports[i], err = d.listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "cell-base-port")
		s.add(err)
	}
	for i := range ports {
		s.add(checkShard(ctx, d.devCell(i+1)))
	}
	// Without files the servers admit everybody, unencrypted, on loopback.
	tls, err := d.addServerTLS("dev", config.ServerTLS{}, ingress.Limits{})
	s.add(err)
	dial, err := d.addClientTLS("dev", config.ClientTLS{})
	s.add(err)
	if err := s.err(); err != nil {
		return err
	}
	if d.debug != nil {
		d.add(lifecycle.HTTP("profiles", profiles(), d.debug, d.log))
	}
	for i, l := range ports {
		cell := d.devCell(i + 1)
		if err := d.addCell(ctx, cell, l, nil, tls); err != nil {
			return err
		}
		d.cells = append(d.cells, config.GatewayCell{Name: cell.Name, UUID: cell.UUID, Replicas: []string{l.Addr().String()}})
	}
	if err := d.addFleets(dial); err != nil {
		return err
	}
	g := d.cfg.Gateway // of nova.conf, else the defaults: fillFromNova
	g.Cells = d.cells
	g.ProposeBudget = devProposeBudget
	if url := d.cfg.Dev.BusURL; url != "" {
		g.Bus.Enabled, g.Bus.TransportURL = true, url
	}
	g.Placement = providers
	g.Placement.DefaultCell = d.cells[0].Name
	if err := d.addGateway(g, gatewayConns{grpc: api, http: web, placementAPI: placement, tls: tls, cells: dial}); err != nil {
		return err
	}
	d.add(lifecycle.Part{Name: "dev", Run: func(ctx context.Context) error {
		return d.serve(ctx, api.Addr().String(), web.Addr().String())
	}})
	return nil
}

// databaseOf gives the URL of a cell's database on a server. The database's name is the one in the
// server's URL, or cellgate, and the cell's name.
func databaseOf(server, cell string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // checked when the configuration was loaded
	}
	name := strings.Trim(u.Path, "/")
	if name == "" {
		name = "cellgate"
	}
	u.Path = "/" + name + "_" + cell
	return u.String()
}

// devCell gives the configuration of cell number n. Its shard is under the data directory, or on the
// server.
func (d *dev) devCell(n int) config.Cell {
	c := config.Default().Cell
	c.Name = fmt.Sprintf("cell%d", n)
	c.UUID = fmt.Sprintf("c0000000-0000-4000-8000-%012d", n)
	if d.cfg.Dev.Store == "" {
		c.Data = filepath.Join(d.cfg.Dev.Data, c.Name)
	} else {
		c.Store, c.StoreMigrate = databaseOf(d.cfg.Dev.Store, c.Name), true
	}
	return c
}

// addFleets adds the agents of every cell. The parts that follow start once their hosts are registered.
func (d *dev) addFleets(dial dialFunc) error {
	for _, c := range d.cells {
		a := config.Default().Agent
		a.Cell, a.Replicas, a.Hosts, a.Seed = c.Name, c.Replicas, d.cfg.Dev.Hosts, d.cfg.Dev.Seed
		f, err := d.addSimulation(a, dial)
		if err != nil {
			return err
		}
		d.fleets = append(d.fleets, f)
	}
	registered := make(chan struct{})
	d.add(lifecycle.Part{Name: "registration", Ready: registered, Run: func(ctx context.Context) error {
		if d.awaitHosts(ctx) {
			debug.FreeOSMemory() // registering all at once took twice the memory that stays
			close(registered)
			freeWhileIdle(ctx)
		}
		return nil
	}})
	return nil
}

// freeWhileIdle gives memory back to the system until ctx ends, after each idleSpan in which the
// process allocated little. A collection is worth it while nobody waits for the processor.
func freeWhileIdle(ctx context.Context) {
	const idleSpan, idleBytes = 30 * time.Second, 64 << 20
	tick := time.NewTicker(idleSpan)
	defer tick.Stop()
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for before := uint64(0); ; before = allocated[0].Value.Uint64() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if metrics.Read(allocated); allocated[0].Value.Uint64()-before < idleBytes {
			debug.FreeOSMemory()
		}
	}
}

// awaitHosts waits until every host is registered, and reports progress when that takes long. It gives
// false when ctx ended first.
func (d *dev) awaitHosts(ctx context.Context) bool {
	tick := time.NewTicker(progressAfter)
	defer tick.Stop()
	for _, f := range d.fleets {
		for done := false; !done; {
			select {
			case <-f.Ready():
				done = true
			case <-tick.C:
				n := 0
				for _, f := range d.fleets {
					n += f.Accepted()
				}
				_, _ = fmt.Fprintf(d.t.err, "registering hosts: %d of %d\n", n, len(d.fleets)*d.cfg.Dev.Hosts)
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// serve prints where everything listens and sends the sample. It returns then if it is to run once,
// else when ctx ends.
func (d *dev) serve(ctx context.Context, api, web string) error {
	if err := d.announce(d.t.out, api, web); err != nil {
		return err
	}
	var unexpected error
	if d.cfg.Dev.Sample {
		unexpected = sendSample(ctx, d.t.out, api, web, differences(d.cfg.Dev))
		if ctx.Err() != nil {
			return nil // interrupted: an unsent request is no failure
		}
		if d.cfg.Dev.Once {
			return unexpected
		}
		if unexpected != nil {
			d.log.Error("the sample did not go as expected", "err", unexpected)
		}
	}
	if _, err := fmt.Fprintln(d.t.out, "Serving until interrupted."); err != nil {
		return err
	}
	<-ctx.Done()
	return unexpected
}

func (d *dev) announce(w io.Writer, api, web string) error {
	var cells []string
	for _, c := range d.cells {
		cells = append(cells, c.Name+" "+c.Replicas[0])
	}
	data := d.cfg.Dev.Data
	if d.cfg.Dev.Store != "" {
		data = sqlshard.Redacted(d.cfg.Dev.Store) + ", one database a cell"
	}
	if d.debug != nil {
		data += "\n  pprof  http://" + d.debug.Addr().String()
	}
	_, err := fmt.Fprintf(w, "%d cells with %d hosts each are registered, after %v.\n  REST   http://%s\n  gRPC   %s\n  cells  %s\n  data   %s\n",
		len(d.cells), d.cfg.Dev.Hosts, time.Since(d.start).Round(10*time.Millisecond), web, api, strings.Join(cells, ", "), data)
	return err
}

// profiles serves the process's profiles under /debug/pprof/.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
