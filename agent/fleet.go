package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Source provides the states of hosts: of the machine that it reads (hostprobe), or of a simulation.
type Source interface {
	// Hosts are the source's hosts, each with its first state. Every call returns the same ones. Uuids
	// in states are in lower case, as in cells.
	Hosts() []*Host
	// Run puts a new state into a host (Host.Put) whenever its state changed. It ends with ctx, and
	// then returns nil.
	Run(ctx context.Context) error
}

// FleetConfig says to which cell the hosts of a source are reported.
type FleetConfig struct {
	// Cell is the cell's name.
	Cell string
	// Replicas are the addresses of the cell's replicas; every host has a stream
	// to each.
	Replicas []string
	// HostsPerConn is how many streams share a connection; 0 means 250.
	HostsPerConn int
	// TrustCell: the hosts do not verify the claims of their cell.
	TrustCell bool
}

// FleetDeps are the dependencies of a fleet.
type FleetDeps struct {
	// Source has the hosts; the fleet runs it.
	Source Source
	// Dial opens a connection to a replica.
	Dial func(target string) (*grpc.ClientConn, error)
	// Accepted, if not nil, is called each time a replica accepts a state of a host; see ReporterDeps.
	Accepted func(h *Host, waited time.Duration)
	// Log and Telemetry may be nil.
	Log       *slog.Logger
	Telemetry telemetry.Agent
}

// Fleet is the agents of a source's hosts, all of one cell.
type Fleet struct {
	cfg   FleetConfig
	deps  FleetDeps
	hosts []*Host

	accepted atomic.Int64
	ready    chan struct{}
}

// NewFleet makes the agents; Run connects them.
func NewFleet(cfg FleetConfig, deps FleetDeps) (*Fleet, error) {
	switch {
	case deps.Source == nil:
		return nil, errors.New("a fleet needs a source of hosts")
	case len(deps.Source.Hosts()) == 0:
		return nil, errors.New("a fleet needs at least one host")
	case cfg.Cell == "":
		return nil, errors.New("a fleet needs its cell's name")
	case len(cfg.Replicas) == 0:
		return nil, errors.New("a fleet needs the address of a replica of its cell")
	case deps.Dial == nil:
		return nil, errors.New("a fleet needs a way to dial")
	}
	if cfg.HostsPerConn < 1 {
		cfg.HostsPerConn = 250
	}
	if deps.Accepted == nil {
		deps.Accepted = func(*Host, time.Duration) {}
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.TrustCell {
		for _, h := range deps.Source.Hosts() {
			h.trustCell()
		}
	}
	return &Fleet{cfg: cfg, deps: deps, hosts: deps.Source.Hosts(), ready: make(chan struct{})}, nil
}

// Ready is closed when each host has been accepted by some replica.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// Accepted is how many hosts have been accepted by some replica.
func (f *Fleet) Accepted() int { return int(f.accepted.Load()) }

// Run runs the source and keeps all hosts' streams open until ctx ends; it then returns nil.
func (f *Fleet) Run(ctx context.Context) error {
	conns, err := f.dial()
	defer func() {
		for _, c := range conns {
			if err := c.Close(); err != nil {
				f.deps.Log.Warn("closing a connection to the cell", "cell", f.cfg.Cell, "err", err)
			}
		}
	}()
	if err != nil {
		return err
	}
	health := newHealth(f.deps.Log.With("cell", f.cfg.Cell), len(f.hosts)*len(f.cfg.Replicas))
	f.deps.Telemetry.Watch(func() int { n, _ := health.read(); return n })
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return health.run(ctx) })
	g.Go(func() error { return f.deps.Source.Run(ctx) })
	perReplica := len(conns) / len(f.cfg.Replicas)
	for i, h := range f.hosts {
		state, _ := h.State()
		once := sync.OnceFunc(f.countAccepted)
		for r := range f.cfg.Replicas {
			conn := conns[r*perReplica+i/f.cfg.HostsPerConn]
			rep := NewReporter(ReporterDeps{
				Client:  agentv1.NewHostReportsClient(conn),
				Replica: f.cfg.Replicas[r],
				Log:     f.deps.Log.With("host", state.GetServiceHost(), "replica", f.cfg.Replicas[r]),
				Accepted: func(waited time.Duration) {
					once()
					health.up(h, r)
					f.deps.Accepted(h, waited)
				},
				Lost:   func(err error) { health.down(h, r, err) },
				Tel:    f.deps.Telemetry,
				Failed: func(err error) { health.failed(fmt.Errorf("replica %s: %w", f.cfg.Replicas[r], err)) },
			}, h)
			g.Go(func() error { return rep.Run(ctx) })
		}
	}
	return g.Wait()
}

// dial opens the shared connections, replica by replica. On an error it also returns the connections
// opened so far.
func (f *Fleet) dial() ([]*grpc.ClientConn, error) {
	n := (len(f.hosts) + f.cfg.HostsPerConn - 1) / f.cfg.HostsPerConn
	conns := make([]*grpc.ClientConn, 0, n*len(f.cfg.Replicas))
	for _, addr := range f.cfg.Replicas {
		for range n {
			c, err := f.deps.Dial(addr)
			if err != nil {
				return conns, fmt.Errorf("replica %s of cell %s: %w", addr, f.cfg.Cell, err)
			}
			conns = append(conns, c)
		}
	}
	return conns, nil
}

func (f *Fleet) countAccepted() {
	if f.accepted.Add(1) == int64(len(f.hosts)) {
		close(f.ready)
	}
}
