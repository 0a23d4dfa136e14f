package gateway

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"cellgate/gateway/legacy/gatewatch"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// readerStub is a legacy database. If read is set, it may delay or fail a load.
type readerStub struct {
	mu       sync.Mutex
	services []novadb.Service
	hosts    []novadb.Host
	read     func(context.Context) error
	reads    int
	closed   bool
	disabled bool // by cell_mappings
	// beat, when set, is the newest heartbeat of any service.
	beat time.Time
	// fill, when set, changes what was read.
	fill func(*novadb.Snapshot)
}

func (r *readerStub) Load(ctx context.Context) (*novadb.Snapshot, error) {
	r.mu.Lock()
	read := r.read
	r.reads++
	x := &novadb.Snapshot{At: time.Now(), Full: true, CellDisabled: r.disabled, Services: slices.Clone(r.services), Hosts: slices.Clone(r.hosts), Heartbeat: r.beat, Written: r.beat}
	if r.fill != nil {
		r.fill(x)
	}
	r.mu.Unlock()
	if read != nil {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (r *readerStub) Refresh(ctx context.Context, _ *novadb.Snapshot) (*novadb.Snapshot, error) {
	return r.Load(ctx)
}

func (r *readerStub) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

func (r *readerStub) hook(read func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = read
}

func unreachable() error {
	return fault.New(fault.CellUnavailable, "the cell database of cell1 cannot be reached").With("reason", string(novadb.Unreachable))
}

// upgrading is the legacy side of a test cell.
type upgrading struct {
	config  gatewatch.Config
	reader  *readerStub
	imports *importerStub
}

func newUpgrading() *upgrading {
	return &upgrading{
		config:  gatewatch.Config{Refresh: time.Second, RequiredVersion: 68},
		reader:  &readerStub{services: []novadb.Service{{ID: 1, Host: "host001", Version: 60, LastSeenUp: time.Now()}}},
		imports: &importerStub{begun: make(chan struct{}, 1)},
	}
}

func (u *upgrading) parts() gatewatch.Parts {
	return gatewatch.Parts{
		Config:   u.config,
		Open:     func(context.Context) (gatewatch.Reader, error) { return u.reader, nil },
		Importer: func(*gatewatch.Gate) gatewatch.Importer { return u.imports },
	}
}

// startGated is start with legacy sides by the index of their cells.
func startGated(t testing.TB, cells []*testCell, sides map[int]*upgrading, change func(*Config)) *world {
	t.Helper()
	deps := Deps{Legacy: map[string]gatewatch.Parts{}}
	for i, u := range sides {
		deps.Legacy[cells[i].name] = u.parts()
	}
	return startWith(t, cells, change, deps)
}

// importerStub imports what it is offered, at once.
type importerStub struct {
	begun chan struct{}

	mu      sync.Mutex
	offers  int
	dropped int
	// native counts the offers in NATIVE.
	native int
	// at is when rows were last offered; zero for never, or since they were dropped.
	at time.Time
	// unclaimed is what Unclaimed returns.
	unclaimed *cellv1.UnclaimedInstances
}

func (m *importerStub) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (m *importerStub) Offer(x *novadb.Snapshot, native bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x == nil {
		m.dropped++
		m.at = time.Time{}
		return
	}
	if m.offers++; native {
		m.native++
	}
	if m.at.IsZero() {
		select {
		case m.begun <- struct{}{}:
		default:
		}
	}
	m.at = time.Now()
}

func (m *importerStub) Age() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.at), !m.at.IsZero()
}

func (m *importerStub) Imported() <-chan struct{} { return m.begun }

func (m *importerStub) Unclaimed() *cellv1.UnclaimedInstances {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unclaimed
}
