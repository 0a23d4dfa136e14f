package gatewatch

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Gate is this gateway's part for a cell under upgrade. It reads Nova's tables, reports their
// services to the cell, and imports the tables when the cell asks for it. Requests do not
// pass through it: the cell answers in every state of its gate.
//
// Run owns it. Its methods are safe for concurrent use.
type Gate struct {
	cell  *cellclient.Cell
	cfg   Config
	parts Parts
	log   *slog.Logger
	now   func() time.Time
	tel   telemetry.Gate
	// known is the cell's last answer, nil before; unanswered is why there is no newer one.
	known      atomic.Pointer[knownGate]
	unanswered atomic.Pointer[string]
	// rows are the newest rows, nil before the first; unread is why there are no newer ones.
	rows   atomic.Pointer[knownRows]
	unread atomic.Pointer[string]
	// hurry signals that the rows should be read at once.
	hurry chan struct{}
	// asking is held during a call to the cell.
	asking chan struct{}
	// report is the next report to the cell. The holder of asking owns it.
	report gateReport
	// first is closed after the first read of the rows, at the latest after firstWithin.
	first    chan struct{}
	once     sync.Once
	importer Importer
}

type knownGate struct {
	*cellgatev1.Gate
	at time.Time
}

// doubtfulBecause gives why the rows do not show the present state of services: this gateway may have been paused
// since it read them, or they are silent. It is "" if they do, or if there are none. It needs asking.
func (w *Gate) doubtfulBecause() string {
	rows := w.rows.Load()
	if rows == nil {
		return ""
	}
	if w.tooOld() {
		return "they were last read " + rows.age(w.now()).Round(time.Second).String() + " ago"
	}
	return w.noBeats()
}

// tooOld reports whether the rows were read too long ago to be used.
func (w *Gate) tooOld() bool {
	rows := w.rows.Load()
	return rows != nil && rows.age(w.now()) > w.cfg.rowsMaxAge()
}

type knownRows struct {
	*novadb.Snapshot
	// at is when the read of the rows began, by the gateway's clock.
	at time.Time
}

// age gives how long ago the rows were read. A suspended machine stops its monotonic clock, so
// the longer of the wall and monotonic times counts.
func (k *knownRows) age(now time.Time) time.Duration {
	return max(now.Sub(k.at), now.Round(0).Sub(k.at.Round(0)))
}

// New makes the Gate of a cell. gateway identifies this incarnation of the gateway, name is its name for people.
func New(c *cellclient.Cell, parts Parts, gateway, name string, log *slog.Logger, now func() time.Time) *Gate {
	out := &Gate{
		cell: c, cfg: parts.Config.withDefaults(), parts: parts, log: log, now: now, tel: c.Telemetry.Gate(), hurry: make(chan struct{}, 1), asking: make(chan struct{}, 1), first: make(chan struct{}),
		report: gateReport{gateway: gateway, name: name},
	}
	if parts.Importer != nil {
		out.importer = parts.Importer(out)
	}
	return out
}

// ImportHosts calls the cell, for an Importer.
func (w *Gate) ImportHosts(ctx context.Context, req *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	return cellclient.CallFor(ctx, w.cell, w.cell.Name(), w.cell.ClaimBudget, req, cellv1.CellSchedulerClient.ImportHosts)
}

// ListHosts calls the cell, for an Importer.
func (w *Gate) ListHosts(ctx context.Context, req *cellv1.ListHostsRequest, _ ...grpc.CallOption) (*cellv1.ListHostsResponse, error) {
	return cellclient.Call(ctx, w.cell, w.cell.ClaimBudget, req, cellv1.CellSchedulerClient.ListHosts)
}

// FindUnclaimed calls the cell, for an Importer.
func (w *Gate) FindUnclaimed(ctx context.Context, req *cellv1.FindUnclaimedRequest, _ ...grpc.CallOption) (*cellv1.FindUnclaimedResponse, error) {
	return cellclient.CallFor(ctx, w.cell, w.cell.Name(), w.cell.ClaimBudget, req, cellv1.CellSchedulerClient.FindUnclaimed)
}

// ListClaims calls the cell, for an Importer.
func (w *Gate) ListClaims(ctx context.Context, req *cellv1.ListClaimsRequest, _ ...grpc.CallOption) (*cellv1.ListClaimsResponse, error) {
	return cellclient.Call(ctx, w.cell, w.cell.ClaimBudget, req, cellv1.CellSchedulerClient.ListClaims)
}

// learn stores the gate in the cell's answer, unless the answer is from a replica that is behind others.
func (w *Gate) learn(ctx context.Context, answered *cellgatev1.Gate) {
	if answered == nil || answered.GetState() == cellgatev1.Gate_STATE_UNSPECIFIED {
		// The cell never had a gate.
		answered = &cellgatev1.Gate{State: cellgatev1.Gate_NATIVE, Epoch: answered.GetEpoch()}
	}
	w.unanswered.Store(nil)
	for {
		old, now := w.known.Load(), w.now()
		if old != nil && answered.GetEpoch() < old.GetEpoch() && now.Sub(old.at) <= gateMaxAge {
			return
		}
		if !w.known.CompareAndSwap(old, &knownGate{Gate: answered, at: now}) {
			continue
		}
		if old == nil || old.GetEpoch() != answered.GetEpoch() || old.GetState() != answered.GetState() {
			w.moved(ctx, old, answered)
		}
		return
	}
}

// gateMaxAge is how long the answer of a replica that is behind does not replace a newer gate.
const gateMaxAge = 10 * time.Second

// moved logs a move of the gate, for the audit.
func (w *Gate) moved(ctx context.Context, old *knownGate, to *cellgatev1.Gate) {
	from := "not known"
	if old != nil {
		from = old.GetState().String()
	}
	state := strings.ToLower(to.GetState().String())
	if w.tel.Is(state); old != nil && old.GetState() != to.GetState() {
		w.tel.Moved(state)
	}
	w.log.InfoContext(ctx, "the gate of a cell", "cell", w.cell.Name(), "from", from, "to", to.GetState().String(), "epoch", to.GetEpoch(),
		"since", to.GetSince().AsTime(), "reason", to.GetReason(), "pin", pinText(to), "pin_reason", to.GetPinReason(), "waits_for", to.GetWaitsFor())
}

func pinText(g *cellgatev1.Gate) string {
	if g.GetPin() == cellgatev1.Gate_STATE_UNSPECIFIED {
		return ""
	}
	return g.GetPin().String()
}

func (w *Gate) enter(ctx context.Context) error {
	select {
	case w.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Gate) leave() { <-w.asking }

// ask asks the cell for its gate, with a report unless look is set. The caller holds asking.
func (w *Gate) ask(ctx context.Context, look bool) (*cellv1.ReportLegacyResponse, error) {
	req := w.report.request(w.cfg.RequiredVersion, w.importer != nil && w.answerable(), look, w.doubtfulBecause())
	req.ServiceDownTime = durationpb.New(w.cfg.ServiceDownTime)
	if w.importer != nil && !req.GetLook() {
		req.Unclaimed = w.importer.Unclaimed()
		if age, is := w.importer.Age(); is && w.answerable() {
			req.ImportedAge = durationpb.New(age)
		}
	}
	resp, err := cellclient.CallFor(ctx, w.cell, w.cell.Name(), w.cell.ClaimBudget, req, cellv1.CellSchedulerClient.ReportLegacy)
	if err == nil && resp.GetSendServices() && !look {
		// The cell has taken the rest of the report.
		req.Unchanged, req.Services = false, w.report.services
		resp, err = cellclient.CallFor(ctx, w.cell, w.cell.Name(), w.cell.ClaimBudget, req, cellv1.CellSchedulerClient.ReportLegacy)
	}
	w.report.noteOutcome(err)
	if err != nil {
		why := cellclient.ReasonOf(err)
		w.unanswered.Store(&why)
		return nil, err
	}
	if resp.GetGate() == nil && (req.GetLook() || req.GetUnreadable() != "") {
		// The first report of services creates the gate. Until then the cell's own table may
		// be empty.
		why := "it has no gate yet, and the legacy database has not been read"
		w.unanswered.Store(&why)
		return resp, nil
	}
	w.learn(ctx, resp.GetGate())
	return resp, nil
}

// answerable reports whether the newest rows are current. Otherwise all their hosts would be
// down, and the cell full.
func (w *Gate) answerable() bool {
	rows := w.rows.Load()
	return rows != nil && !w.tooOld() && w.noBeats() == ""
}

// DisabledByNova reports whether Nova's cell_mappings disables the cell, by the newest rows,
// whatever the state of its gate.
func (w *Gate) DisabledByNova() bool {
	if w == nil {
		return false
	}
	rows := w.rows.Load()
	return rows != nil && rows.CellDisabled
}

// NotKnown is the text that the state of the gate is not known, and why.
func (w *Gate) NotKnown() string {
	text := "the cell has not reported its gate yet"
	if why := w.unanswered.Load(); why != nil {
		text += ": " + *why
	}
	return text
}

// LastKnown gives the gate in the cell's last answer; nil before the first.
func (w *Gate) LastKnown() *cellgatev1.Gate {
	if known := w.known.Load(); known != nil {
		return known.Gate
	}
	return nil
}

// Troubles gives the reasons why this gateway cannot read the legacy database, or cannot use it.
func (w *Gate) Troubles() (out []string) {
	if why := w.unread.Load(); why != nil {
		out = append(out, "this gateway cannot read the legacy database: "+*why)
	}
	if why := w.noBeats(); why != "" {
		out = append(out, "this gateway's legacy database has no current data: "+why)
		if w.importer != nil {
			out = append(out, "nothing is imported from it")
		}
	}
	return out
}

// RowsAge gives how long ago rows were last read; false before the first read.
func (w *Gate) RowsAge() (time.Duration, bool) {
	rows := w.rows.Load()
	if rows == nil {
		return 0, false
	}
	return w.now().Sub(rows.at), true
}

// AwaitFirst waits until the rows were read once, or firstWithin has passed.
func (w *Gate) AwaitFirst() { <-w.first }

// KnowsService reports whether Nova's rows have a service of a host, or are not read yet. If
// so, Nova's state of the service counts.
func (w *Gate) KnowsService(uuid string) bool {
	if w == nil {
		return false
	}
	rows := w.rows.Load()
	return rows == nil || slices.ContainsFunc(rows.Hosts, func(h novadb.Host) bool { return h.UUID.String() == uuid && h.ServiceID != 0 })
}

// ReadNow starts a read of the tables at once, after a notification by Nova. It never blocks.
func (w *Gate) ReadNow() {
	select {
	case w.hurry <- struct{}{}:
	default: // a read is due already
	}
}

// TransportURL gives the transport_url of the cell's own message bus from cell_mappings; "" while it is not known.
func (w *Gate) TransportURL() string {
	if rows := w.rows.Load(); rows != nil {
		return rows.TransportURL
	}
	return ""
}

// noBeats gives why the rows do not show the present state, however recently they were read: no
// service at all has a new heartbeat. Then nothing is imported from them, and no service is
// reported. It is "" if a service has one.
func (w *Gate) noBeats() string {
	rows := w.rows.Load()
	if rows == nil {
		return ""
	}
	return rows.WhySilent(w.cfg.ServiceDownTime)
}

// Pin pins the gate, once no other call to the cell is under way.
func (w *Gate) Pin(ctx context.Context, req *cellgatev1.UpdateCellRequest, who string) (*cellgatev1.Gate, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.leave()
	return w.pinLocked(ctx, req, who)
}

// pinLocked pins the gate and stores the gate in the answer. It needs asking.
func (w *Gate) pinLocked(ctx context.Context, req *cellgatev1.UpdateCellRequest, who string) (*cellgatev1.Gate, error) {
	gate, err := PinAt(ctx, w.cell, req, who)
	if err != nil {
		return nil, err
	}
	w.learn(ctx, gate)
	return gate, nil
}

func PinAt(ctx context.Context, c *cellclient.Cell, req *cellgatev1.UpdateCellRequest, who string) (*cellgatev1.Gate, error) {
	pin := &cellv1.PinGateRequest{Pin: req.GetGatePin(), Reason: req.GetReason(), Who: who, Force: req.GetForce()}
	resp, err := cellclient.CallFor(ctx, c, c.Name(), c.ClaimBudget, pin, cellv1.CellSchedulerClient.PinGate)
	if err != nil {
		return nil, err
	}
	return resp.GetGate(), nil
}
