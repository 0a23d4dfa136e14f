package gateway

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/legacy"
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
	unseen    []*cellv1.AwaitedClaim
	withheld  []*cellv1.WithheldHost
	cut       bool
	importFor time.Duration
	// shortAsks counts how often it was asked for hosts without room; mute: it does not
	// know the question.
	shortAsks int
	mute      bool
	// forgetful: it asks for services that were sent before.
	forgetful bool
	reports   []*cellv1.ReportLegacyRequest
	pins      []*cellv1.PinGateRequest
	imported  []string
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
	if len(req.GetShortOf()) > 0 {
		f.gate.shortAsks++
		return &cellv1.ReportLegacyResponse{Short: f.shortOf(req.GetShortOf())}, nil
	}
	resp := &cellv1.ReportLegacyResponse{Awaited: f.gate.awaited, WithoutInstance: f.gate.unseen, AwaitedCut: f.gate.cut, Withheld: f.gate.withheld}
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

// shortOf gives the hosts that lack some of the amounts.
func (f *fakeCell) shortOf(asked []*cellv1.Amount) (short []*cellv1.HostRoom) {
	if f.gate.mute {
		return nil
	}
	for h := range f.table.All() {
		var rooms []*cellv1.Room
		for _, r := range h.Resources {
			for _, a := range asked {
				if left := r.Capacity - r.Used; r.Class == a.GetResourceClass() && left < int64(a.GetAmount()) {
					rooms = append(rooms, &cellv1.Room{ResourceClass: r.Class, Amount: left})
				}
			}
		}
		if len(rooms) > 0 {
			short = append(short, &cellv1.HostRoom{HostUuid: h.UUID.String(), Rooms: rooms})
		}
	}
	return short
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

func (f *fakeCell) ImportHosts(ctx context.Context, req *cellv1.ImportHostsRequest) (*cellv1.ImportHostsResponse, error) {
	if err := f.enter(ctx, "ImportHosts", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &cellv1.ImportHostsResponse{}
	e := f.table.Edit()
	for _, h := range req.GetHosts() {
		f.gate.imported = append(f.gate.imported, h.GetState().GetServiceHost())
		host := testHost(1, 1)
		host.UUID, host.ServiceHost, host.Cell = mustID(h.GetState().GetHostUuid()), h.GetState().GetServiceHost(), f.uuid
		e.PutHost(host)
		resp.Outcomes = append(resp.Outcomes, &cellv1.ImportOutcome{})
	}
	f.set(e.Table())
	return resp, nil
}

// reported gives the reports that were more than a look.
func (f *fakeCell) reported() []*cellv1.ReportLegacyRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.gate.reports), func(r *cellv1.ReportLegacyRequest) bool { return r.GetLook() })
}

// fakeStandIn answers from a table of its own, which loses what was chosen.
type fakeStandIn struct {
	table *fakeCell
	mu    sync.Mutex
	// chosen are the claims that were told and have not ended.
	chosen  map[string]*cellv1.NewClaim
	asks    int
	summary *cellv1.GetSummaryResponse
	updates []updated
	// withheld is what it was told last.
	withheld []*cellv1.WithheldHost
	// absent are the hosts that it keeps to itself since the shard lacks them.
	absent map[schedule.ID]bool
}

type updated struct {
	rows    *legacy.Snapshot
	awaited []*cellv1.AwaitedClaim
	asked   time.Time
}

func newFakeStandIn(n int, hosts ...schedule.Host) *fakeStandIn {
	return &fakeStandIn{table: newFakeCell(n, hosts...), chosen: map[string]*cellv1.NewClaim{}}
}

func (s *fakeStandIn) Update(x *legacy.Snapshot, _ time.Time, awaited []*cellv1.AwaitedClaim, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, updated{x, awaited, asked})
}

func (s *fakeStandIn) Chose(claim *cellv1.NewClaim, _ time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chosen[claim.GetClaimId()] = claim
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	n := proto.CloneOf(claim)
	n.GateEpoch, n.MovesClaimId = 0, ""
	s.table.claim(n)
}

func (s *fakeStandIn) Ended(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.chosen[id]; c != nil {
		delete(s.chosen, id)
		s.table.mu.Lock()
		defer s.table.mu.Unlock()
		s.table.release(&cellv1.ClaimRef{ClaimId: id, ConsumerUuid: c.GetConsumerUuid()})
	}
}

func (s *fakeStandIn) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	s.mu.Lock()
	s.asks++
	s.mu.Unlock()
	resp, err := s.table.ProposeBatch(ctx, req)
	for _, p := range resp.GetProposals() {
		p.Claims, p.ClaimOrigins = nil, nil
	}
	return resp, err
}

func (s *fakeStandIn) Withheld(hosts []*cellv1.WithheldHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withheld = hosts
}

func (s *fakeStandIn) Refused(host, class string, amount int64) {
	s.Rooms([]*cellv1.HostRoom{{HostUuid: host, Rooms: []*cellv1.Room{{ResourceClass: class, Amount: amount - 1}}}})
}

// Rooms has the table keep what it was told for good.
func (s *fakeStandIn) Rooms(told []*cellv1.HostRoom) {
	s.table.edit(func(e *schedule.Edit) {
		for _, t := range told {
			h, ok := s.table.table.Host(mustID(t.GetHostUuid()))
			if !ok {
				continue
			}
			h.Resources = slices.Clone(h.Resources)
			for _, room := range t.GetRooms() {
				for i := range h.Resources {
					if r := &h.Resources[i]; r.Class == room.GetResourceClass() {
						r.Used = max(r.Used, r.Capacity-room.GetAmount())
					}
				}
			}
			e.PutHost(h)
		}
	})
}

func (s *fakeStandIn) OnlyThere(uuids []string) {
	s.keepBack(func(id schedule.ID) bool { return !slices.Contains(uuids, id.String()) })
}

func (s *fakeStandIn) AllThere() { s.keepBack(func(schedule.ID) bool { return false }) }

func (s *fakeStandIn) keepBack(which func(schedule.ID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent = map[schedule.ID]bool{}
	s.table.edit(func(e *schedule.Edit) {
		for h := range s.table.table.All() {
			if h.Withheld = ""; which(h.UUID) {
				h.Withheld, s.absent[h.UUID] = "absent", true
			}
			e.PutHost(h)
		}
	})
}

func (s *fakeStandIn) Absent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.absent)
}

func (s *fakeStandIn) Counted() []string { return nil }

// Awaits has those that the cell listed.
func (s *fakeStandIn) Awaits(listed []*cellv1.AwaitedClaim) (all []schedule.ID) {
	for _, a := range listed {
		if a.GetConsumerUuid() != "" {
			all = append(all, mustID(a.GetConsumerUuid()))
		}
	}
	return all
}

// Summary is nil unless a test has set one: no cell is left out by it.
func (s *fakeStandIn) Summary() *cellv1.GetSummaryResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.summary
}

func (s *fakeStandIn) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks
}

// fakeReader is a legacy database. read, when set, holds it up or fails it.
type fakeReader struct {
	mu       sync.Mutex
	services []legacy.Service
	hosts    []legacy.Host
	read     func(context.Context) error
	reads    int
	// awaited are the instances that each read was asked for.
	awaited  [][]schedule.ID
	closed   bool
	disabled bool // by cell_mappings
	// beat, when set, is the newest heartbeat of any service.
	beat time.Time
	// fill, when set, changes what was read.
	fill func(*legacy.Snapshot)
}

func (r *fakeReader) Load(ctx context.Context, awaited ...schedule.ID) (*legacy.Snapshot, error) {
	r.mu.Lock()
	read := r.read
	r.reads++
	r.awaited = append(r.awaited, awaited)
	x := &legacy.Snapshot{At: time.Now(), Full: true, HasAggregates: true, CellDisabled: r.disabled, Services: slices.Clone(r.services), Hosts: slices.Clone(r.hosts), Heartbeat: r.beat, Written: r.beat}
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

func (r *fakeReader) Refresh(ctx context.Context, _ *legacy.Snapshot, awaited ...schedule.ID) (*legacy.Snapshot, error) {
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
	return fault.New(fault.CellUnavailable, "the cell database of cell1 cannot be reached").With("reason", string(legacy.Unreachable))
}

// upgrading is the legacy side of a fake cell.
type upgrading struct {
	standIn *fakeStandIn
	reader  *fakeReader
	imports *fakeImporter
}

func newUpgrading(n int, hosts ...schedule.Host) *upgrading {
	return &upgrading{
		standIn: newFakeStandIn(n, hosts...),
		reader:  &fakeReader{services: []legacy.Service{{ID: 1, Host: "host001", Version: 60, LastSeenUp: time.Now()}}},
		imports: &fakeImporter{},
	}
}

func (u *upgrading) parts() Legacy {
	return Legacy{
		Open:    func(context.Context) (LegacyReader, error) { return u.reader, nil },
		StandIn: u.standIn,
		Importer: func(to HostImporter) Importer {
			u.imports.to, u.imports.names = to, u.standIn
			return u.imports
		},
	}
}

// startGated is start with legacy sides by the index of their cells.
func startGated(t testing.TB, cells []*fakeCell, sides map[int]*upgrading, change func(*Config)) *world {
	t.Helper()
	deps := Deps{Legacy: map[string]Legacy{}}
	for i, u := range sides {
		deps.Legacy[cells[i].name] = u.parts()
	}
	return startWith(t, cells, func(c *Config) {
		for i := range sides {
			c.Cells[i].Legacy = &LegacyConfig{Refresh: time.Second, RequiredVersion: 68}
		}
		if change != nil {
			change(c)
		}
	}, deps)
}
