package hostprobe

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/agent"
	"cellgate/internal/fault"
	"cellgate/internal/hoststate"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// Config says what a probe reads, and how often.
type Config struct {
	Settings Settings
	// Instances may be nil: then the instances are unknown.
	Instances Instances
	// Every is how often the machine is read.
	Every time.Duration
}

// Deps are the dependencies of a probe.
type Deps struct {
	// Read reads the machine.
	Read func(*Settings) (*Machine, error)
	// Log and Telemetry may be nil.
	Log       *slog.Logger
	Telemetry telemetry.Agent
}

// Probe is the Source of the machine that it runs on. A state that differs from the last one becomes
// the next version. If the machine cannot be read, the state does not change.
type Probe struct {
	uuid   string
	cfg    Config
	deps   Deps
	host   *agent.Host
	reload chan Config

	last *Report
	// failing is the text of the last read's error, as logged; "" if it succeeded.
	failing string
	// readAt is when the machine was last read successfully, in nanoseconds since start.
	start  time.Time
	readAt atomic.Int64
}

// New reads the machine for the first time, and makes a probe.
func New(hostUUID string, cfg Config, deps Deps) (*Probe, error) {
	if cfg.Every <= 0 {
		return nil, errors.New("a probe needs a time between reads")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	p := &Probe{uuid: hostUUID, cfg: cfg, deps: deps, reload: make(chan Config, 1), start: time.Now()}
	report, err := p.Read(cfg)
	if err != nil {
		return nil, err
	}
	p.note(report)
	p.last = report
	p.readAt.Store(int64(time.Since(p.start)))
	p.host = agent.NewHost(clone(report.State))
	deps.Telemetry.WatchRead(p.age)
	return p, nil
}

// Hosts is the one host.
func (p *Probe) Hosts() []*agent.Host { return []*agent.Host{p.host} }

// Reload makes the probe read at once with another configuration. If that does not fit the machine, the
// probe logs the error and keeps the former one.
func (p *Probe) Reload(cfg Config) {
	for {
		select {
		case p.reload <- cfg:
			return
		case <-p.reload: // an older one that was not applied yet
		}
	}
}

// Run reads the machine periodically until ctx ends; it then returns nil.
func (p *Probe) Run(ctx context.Context) error {
	tick := time.NewTicker(p.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			report, err := p.Read(p.cfg)
			p.applyReport(report, err)
		case cfg := <-p.reload:
			report, err := p.Read(cfg)
			if err != nil {
				p.deps.Log.Error("the new configuration is not taken, the former one stays", "err", err)
				continue
			}
			p.cfg = cfg
			tick.Reset(cfg.Every)
			p.applyReport(report, nil)
			p.deps.Log.Info("the new configuration is taken")
		}
	}
}

// applyReport puts the new state into the host if it differs.
func (p *Probe) applyReport(report *Report, err error) {
	if err != nil {
		p.deps.Telemetry.ReadFailed()
		if text := err.Error(); text != p.failing {
			p.failing = text
			p.deps.Log.Error("this host cannot be read; what it last reported stays", "err", err)
		}
		return
	}
	if p.failing != "" {
		p.failing = ""
		p.deps.Log.Info("this host is read again")
	}
	p.readAt.Store(int64(time.Since(p.start)))
	if !slices.Equal(report.Notes, p.last.Notes) {
		p.note(report)
	}
	if !proto.Equal(report.State, p.last.State) {
		p.host.Put(clone(report.State))
	}
	p.last = report
}

func (p *Probe) note(report *Report) {
	for _, n := range report.Notes {
		p.deps.Log.Warn(n)
	}
}

// Read reads the machine and builds its report.
func (p *Probe) Read(cfg Config) (*Report, error) {
	book := Book{}
	if p.host != nil {
		book.Claimed, book.ClaimsKnown = p.host.Claims().Taken(p.uuid, diskGB)
	}
	return readWith(p.uuid, cfg, p.deps.Read, book)
}

// Read reads a machine once and builds its report, as if the cell had no claims on it beyond the
// instances. A state that every cell would refuse is an error.
func Read(hostUUID string, cfg Config, read func(*Settings) (*Machine, error)) (*Report, error) {
	return readWith(hostUUID, cfg, read, Book{ClaimsKnown: true})
}

func readWith(hostUUID string, cfg Config, read func(*Settings) (*Machine, error), book Book) (*Report, error) {
	m, err := read(&cfg.Settings)
	var instances []Instance
	if cfg.Instances != nil {
		list, wrong := cfg.Instances.List()
		instances, err = list, errors.Join(err, wrong)
	}
	if err != nil {
		return nil, err
	}
	book.Unknown = cfg.Instances == nil
	report, err := cfg.Settings.Report(m, hostUUID, instances, book)
	if err != nil {
		return nil, err
	}
	report.State.InstancesUnknown = cfg.Instances == nil
	whole := clone(report.State)
	whole.BootId, whole.Version = hostUUID, 1 // any will do
	if err := rpc.Validate(whole); err != nil {
		return nil, err
	}
	bad := append(hoststate.NotPlausible(whole, nil), hoststate.Unreadable(schedule.ParseFacts(hoststate.FactTexts(whole)))...)
	if err := fault.InvalidFields(bad); err != nil {
		return nil, err
	}
	return report, nil
}

// age is how long ago the machine was last read successfully.
func (p *Probe) age() time.Duration {
	return time.Since(p.start) - time.Duration(p.readAt.Load())
}

func clone(s *agentv1.FullState) *agentv1.FullState { return proto.Clone(s).(*agentv1.FullState) }
