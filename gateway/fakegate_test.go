package gateway

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/legacy/gatewatch"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// fakeGate is the gate of a fake cell; without a Gate it never had one.
type fakeGate struct {
	*cellgatev1.Gate
	// awaited and importFor are told.
	awaited   []*cellv1.AwaitedClaim
	cut       bool
	importFor time.Duration
	// closed is why it answers no query; "" when it does.
	closed string
	// forgetful: it asks for services that were sent before.
	forgetful bool
	reports   []*cellv1.ReportLegacyRequest
	pins      []*cellv1.PinGateRequest
}

func (g *fakeGate) state() cellgatev1.Gate_State {
	if g.Gate == nil {
		return cellgatev1.Gate_NATIVE
	}
	return g.GetState()
}

// moveGate moves the gate to a state, under the next epoch.
func (f *fakeCell) moveGate(to cellgatev1.Gate_State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate.Gate = &cellgatev1.Gate{State: to, Epoch: f.gate.GetEpoch() + 1, Reason: "the test said so", WaitsFor: f.gate.GetWaitsFor()}
}

func (f *fakeCell) ReportLegacy(ctx context.Context, req *cellv1.ReportLegacyRequest) (*cellv1.ReportLegacyResponse, error) {
	if err := f.enter(ctx, "ReportLegacy", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate.reports = append(f.gate.reports, req)
	resp := &cellv1.ReportLegacyResponse{Awaited: f.gate.awaited, AwaitedCut: f.gate.cut}
	if f.gate.Gate != nil {
		resp.Gate = proto.CloneOf(f.gate.Gate)
	}
	if f.gate.forgetful && req.GetUnchanged() {
		f.gate.forgetful, resp.SendServices = false, true
	}
	if f.gate.importFor > 0 && req.GetImporter() {
		resp.ImportFor = durationpb.New(f.gate.importFor)
	}
	return resp, nil
}

func (f *fakeCell) PinGate(ctx context.Context, req *cellv1.PinGateRequest) (*cellv1.PinGateResponse, error) {
	if err := f.enter(ctx, "PinGate", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.GetPin() == cellgatev1.Gate_STATE_UNSPECIFIED && f.gate.GetPin() == cellgatev1.Gate_STATE_UNSPECIFIED {
		return nil, fault.New(fault.NotFound, "the gate is not pinned")
	}
	f.gate.pins = append(f.gate.pins, req)
	g := &cellgatev1.Gate{State: req.GetPin(), Pin: req.GetPin(), PinReason: req.GetReason(), Epoch: f.gate.GetEpoch() + 1}
	if req.GetPin() == cellgatev1.Gate_STATE_UNSPECIFIED {
		g.State = f.gate.state()
	}
	f.gate.Gate = g
	return &cellv1.PinGateResponse{Gate: proto.CloneOf(g)}, nil
}

// reported gives the reports that were more than a look.
func (f *fakeCell) reported() []*cellv1.ReportLegacyRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.gate.reports), func(r *cellv1.ReportLegacyRequest) bool { return r.GetLook() })
}

// fakeReader is a legacy database. read, when set, holds it up or fails it.
type fakeReader struct {
	mu       sync.Mutex
	services []novadb.Service
	hosts    []novadb.Host
	read     func(context.Context) error
	reads    int
	// awaited are the instances that each read was asked for.
	awaited  [][]schedule.ID
	closed   bool
	disabled bool // by cell_mappings
	// beat, when set, is the newest heartbeat of any service.
	beat time.Time
	// fill, when set, changes what was read.
	fill func(*novadb.Snapshot)
}

func (r *fakeReader) Load(ctx context.Context, awaited ...schedule.ID) (*novadb.Snapshot, error) {
	r.mu.Lock()
	read := r.read
	r.reads++
	r.awaited = append(r.awaited, awaited)
	x := &novadb.Snapshot{At: time.Now(), Full: true, HasAggregates: true, CellDisabled: r.disabled, Services: slices.Clone(r.services), Hosts: slices.Clone(r.hosts), Heartbeat: r.beat, Written: r.beat}
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

func (r *fakeReader) Refresh(ctx context.Context, _ *novadb.Snapshot, awaited ...schedule.ID) (*novadb.Snapshot, error) {
	return r.Load(ctx, awaited...)
}

func (r *fakeReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

func (r *fakeReader) hook(read func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = read
}

func unreachable() error {
	return fault.New(fault.CellUnavailable, "the cell database of cell1 cannot be reached").With("reason", string(novadb.Unreachable))
}

// upgrading is the legacy side of a fake cell.
type upgrading struct {
	config  gatewatch.Config
	reader  *fakeReader
	imports *fakeImporter
}

func newUpgrading() *upgrading {
	return &upgrading{
		config:  gatewatch.Config{Refresh: time.Second, RequiredVersion: 68},
		reader:  &fakeReader{services: []novadb.Service{{ID: 1, Host: "host001", Version: 60, LastSeenUp: time.Now()}}},
		imports: &fakeImporter{begun: make(chan struct{}, 1)},
	}
}

func (u *upgrading) parts() gatewatch.Parts {
	return gatewatch.Parts{
		Config:   u.config,
		Open:     func(context.Context) (gatewatch.Reader, error) { return u.reader, nil },
		Importer: func(gatewatch.HostImporter) gatewatch.Importer { return u.imports },
	}
}

// startGated is start with legacy sides by the index of their cells.
func startGated(t testing.TB, cells []*fakeCell, sides map[int]*upgrading, change func(*Config)) *world {
	t.Helper()
	deps := Deps{Legacy: map[string]gatewatch.Parts{}}
	for i, u := range sides {
		deps.Legacy[cells[i].name] = u.parts()
	}
	return startWith(t, cells, change, deps)
}
