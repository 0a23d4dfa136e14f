package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// gate is what this gateway knows of the gate of a cell under upgrade, and the parts
// that answer while it is not NATIVE:
//
//	LEGACY, SHADOW   the stand-in, from rows that are fresh; see noBeats and unsure, too
//	NATIVE           the cell's replicas
//	not known        nobody: the cell is unavailable, with the reason
//
// watchGate owns it. Its methods are safe for concurrent use.
type gate struct {
	cell  *cell
	cfg   LegacyConfig
	parts Legacy
	g     *Gateway
	tel   *telemetry.Gate
	// known is what the cell said last, nil before; unheard why it did not answer since.
	known   atomic.Pointer[knownGate]
	unheard atomic.Pointer[string]
	// rows are those that the stand-in has, nil before the first; unread why there are
	// no newer ones.
	rows   atomic.Pointer[knownRows]
	unread atomic.Pointer[string]
	// asking is held while the cell is asked.
	asking chan struct{}
	// report is what is told to the cell, and room what it was asked last of hosts that
	// have none. They belong to who holds asking.
	report gateReport
	room   askedRoom
	// gateless: the cell has said that it has no gate yet. It belongs to who holds asking.
	gateless bool
	// hurry asks for rows and a report at once.
	hurry chan struct{}
	// first is closed once the gate was asked for and the rows were, or soon.
	first    chan struct{}
	once     sync.Once
	importer Importer
	// noImports says why no host can be imported; nil while some can, as far as is known.
	// failing tells tryAgain.
	noImports atomic.Pointer[importTrouble]
	failing   chan struct{}
	// listing is held while the stand-in is told which hosts the shard has; listed is when
	// the cell was asked for them last, zero while they do not count. It belongs to who holds
	// listing.
	listing chan struct{}
	listed  time.Time
	shadow  *comparer
}

type knownGate struct {
	*cellgatev1.Gate
	at time.Time
}

// doubt says why the rows do not tell how services are now: this gateway may have been paused
// since it read them, they are silent, or may be: those that look down alone, where it is unsure. ""
// when they do, and when there are none. A cell without a gate has one by the first report, whatever
// its services are. It needs asking.
func (w *gate) doubt() (why string, unsure bool) {
	rows := w.rows.Load()
	if rows == nil {
		return "", false
	}
	if w.tooOld() {
		return "they were last read " + rows.age(w.g.now()).Round(time.Second).String() + " ago", false
	}
	if why := w.noBeats(); why != "" || w.gateless {
		return why, false
	}
	why = w.unsure()
	return why, why != ""
}

// tooOld reports whether the rows were read too long ago to go by.
func (w *gate) tooOld() bool {
	rows := w.rows.Load()
	return rows != nil && rows.age(w.g.now()) > w.cfg.rowsMaxAge()
}

type knownRows struct {
	*legacy.Snapshot
	// at is when their reading began, by the gateway's clock.
	at time.Time
	// unsure says why it was not known then which services are silent; noneUp: every nova-compute was down.
	unsure string
	noneUp bool
	// places are of Hosts, made when first asked for.
	index  sync.Once
	places map[schedule.ID]int
}

// age is how long ago the rows were read. A machine that is suspended stops one of its clocks,
// so that counts by which it is longer.
func (k *knownRows) age(now time.Time) time.Duration {
	return max(now.Sub(k.at), now.Round(0).Sub(k.at.Round(0)))
}

// host gives the row of a host; nil when there is none.
func (k *knownRows) host(id schedule.ID) *legacy.Host {
	k.index.Do(func() {
		k.places = make(map[schedule.ID]int, len(k.Hosts))
		for i := range k.Hosts {
			k.places[k.Hosts[i].UUID] = i
		}
	})
	if i, is := k.places[id]; is {
		return &k.Hosts[i]
	}
	return nil
}

// gateView is what a request goes by in one cell. The zero value is that of a cell
// without legacy tables, which its replicas answer.
type gateView struct {
	gate *gate
	// known is nil before the cell said anything.
	known *knownGate
	// standIn: the stand-in answers.
	standIn bool
	// err says why nobody can be asked; nil when somebody can.
	err error
}

func newGate(c *cell, cfg LegacyConfig, parts Legacy, g *Gateway) *gate {
	out := &gate{
		shadow: newComparer(ReadOfHypervisors(g.cfg.Filters, g.cfg.FilterExpression)),
		cell:   c, cfg: cfg.withDefaults(), parts: parts, g: g, tel: c.tel.Gate(),
		asking: make(chan struct{}, 1), hurry: make(chan struct{}, 1), failing: make(chan struct{}, 1), listing: make(chan struct{}, 1), first: make(chan struct{}),
	}
	out.report = gateReport{gateway: g.newID(), name: g.cfg.Name, shadow: out.shadow}
	if parts.Importer != nil {
		out.importer = parts.Importer(out)
	}
	return out
}

// view gives who answers for the cell now.
func (c *cell) view() gateView {
	if c.gate == nil {
		return gateView{}
	}
	return c.gate.view()
}

func (w *gate) view() gateView {
	v := gateView{gate: w, known: w.known.Load()}
	if v.known == nil {
		v.err = fault.New(fault.CellUnavailable, "the cell has not said yet where its gate is%s", because(&w.unheard))
		return v
	}
	if v.known.GetState() == cellgatev1.Gate_NATIVE {
		return v
	}
	now := w.g.now()
	if age := now.Sub(v.known.at); age > w.cfg.gateMaxAge() {
		v.err = fault.New(fault.CellUnavailable, "the cell's gate was %s, and the cell has not said so for %s%s", v.known.GetState(), age.Round(time.Second), because(&w.unheard))
		return v
	}
	rows := w.rows.Load()
	switch {
	case rows == nil:
		v.err = fault.New(fault.CellUnavailable, "the cell's gate is %s, and its legacy database has not been read yet%s", v.known.GetState(), because(&w.unread))
	case rows.age(now) > w.cfg.rowsMaxAge():
		v.err = fault.New(fault.CellUnavailable, "the cell's gate is %s, and its legacy database was last read %s ago%s", v.known.GetState(), rows.age(now).Round(time.Second), because(&w.unread))
	case w.noBeats() != "":
		// Its hosts would all be down, and the cell full.
		v.err = fault.New(fault.CellUnavailable, "the cell's gate is %s, and its legacy database tells nothing of now: %s", v.known.GetState(), w.noBeats())
	case rows.noneUp && w.unsure() != "":
		v.err = fault.New(fault.CellUnavailable, "the cell's gate is %s, and its legacy database may tell nothing of now: %s", v.known.GetState(), w.unsure())
	default:
		v.standIn = true
	}
	return v
}

// because gives a reason, after a colon; "" for none.
func because(why *atomic.Pointer[string]) string {
	if text := why.Load(); text != nil {
		return ": " + *text
	}
	return ""
}

// epoch is that of the gate; 0 when it is not known.
func (v *gateView) epoch() int64 {
	if v.known == nil {
		return 0
	}
	return v.known.GetEpoch()
}

// source is where the cell's candidates come from.
func (v *gateView) source() cellgatev1.CellSource {
	if v.standIn || v.err != nil && v.known != nil {
		return cellgatev1.CellSource_LEGACY
	}
	return cellgatev1.CellSource_NATIVE
}

// why says why the stand-in answers; "" when it does not.
func (v *gateView) why() string {
	if !v.standIn {
		return ""
	}
	text := fmt.Sprintf("the gate is %s", v.known.GetState())
	switch {
	case v.known.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED:
		text += ", pinned by an operator"
		if v.gate.cfg.Only {
			text = "the gate is LEGACY: the cell has no scheduler (legacy_only), and other gateways' choices are not seen"
		} else if why := v.known.GetPinReason(); why != "" {
			text += ": " + why
		}
	case len(v.known.GetWaitsFor()) > 0:
		text += ", and waits for: " + strings.Join(v.known.GetWaitsFor(), "; ")
	case v.known.GetReason() != "":
		text += ": " + v.known.GetReason()
	}
	return text + v.gate.absentText()
}

// ImportHosts is HostImporter's.
func (w *gate) ImportHosts(ctx context.Context, req *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	return callFor(ctx, w.cell, w.cell.cfg.Name, w.cell.claimBudget, req, cellv1.CellSchedulerClient.ImportHosts)
}

// ListHosts and ListClaims show an importer what the cell has.
func (w *gate) ListHosts(ctx context.Context, req *cellv1.ListHostsRequest, _ ...grpc.CallOption) (*cellv1.ListHostsResponse, error) {
	return call(ctx, w.cell, w.cell.claimBudget, req, cellv1.CellSchedulerClient.ListHosts)
}

// FindUnclaimed is HostImporter's.
func (w *gate) FindUnclaimed(ctx context.Context, req *cellv1.FindUnclaimedRequest, _ ...grpc.CallOption) (*cellv1.FindUnclaimedResponse, error) {
	return callFor(ctx, w.cell, w.cell.cfg.Name, w.cell.claimBudget, req, cellv1.CellSchedulerClient.FindUnclaimed)
}

// ListClaims is described at ListHosts.
func (w *gate) ListClaims(ctx context.Context, req *cellv1.ListClaimsRequest, _ ...grpc.CallOption) (*cellv1.ListClaimsResponse, error) {
	return call(ctx, w.cell, w.cell.claimBudget, req, cellv1.CellSchedulerClient.ListClaims)
}

// learn takes what the cell said. That of a replica which is behind others is left.
func (w *gate) learn(ctx context.Context, told *cellgatev1.Gate) {
	if told == nil || told.GetState() == cellgatev1.Gate_STATE_UNSPECIFIED {
		// The cell never had a gate.
		told = &cellgatev1.Gate{State: cellgatev1.Gate_NATIVE, Epoch: told.GetEpoch()}
	}
	w.unheard.Store(nil)
	for {
		old, now := w.known.Load(), w.g.now()
		if old != nil && told.GetEpoch() < old.GetEpoch() && now.Sub(old.at) <= w.cfg.gateMaxAge() {
			return
		}
		if !w.known.CompareAndSwap(old, &knownGate{Gate: told, at: now}) {
			continue
		}
		if old == nil || old.GetEpoch() != told.GetEpoch() || old.GetState() != told.GetState() {
			w.moved(ctx, old, told)
		}
		return
	}
}

// moved tells of a move of the gate, for the audit.
func (w *gate) moved(ctx context.Context, old *knownGate, to *cellgatev1.Gate) {
	from := "not known"
	if old != nil {
		from = old.GetState().String()
	}
	state := strings.ToLower(to.GetState().String())
	if w.tel.Is(state); old != nil && old.GetState() != to.GetState() {
		w.tel.Moved(state)
	}
	w.g.log.InfoContext(ctx, "the gate of a cell", "cell", w.cell.cfg.Name, "from", from, "to", to.GetState().String(), "epoch", to.GetEpoch(),
		"since", to.GetSince().AsTime(), "reason", to.GetReason(), "pin", pinText(to), "pin_reason", to.GetPinReason(), "waits_for", to.GetWaitsFor())
}

func pinText(g *cellgatev1.Gate) string {
	if g.GetPin() == cellgatev1.Gate_STATE_UNSPECIFIED {
		return ""
	}
	return g.GetPin().String()
}

// look asks the cell for its gate, unless it has another epoch by now than a refused
// claim was planned under. It gives the view then.
func (w *gate) look(ctx context.Context, than int64) (gateView, error) {
	if err := w.enter(ctx); err != nil {
		return gateView{}, err
	}
	defer w.leave()
	if known := w.known.Load(); known == nil || known.GetEpoch() == than {
		if _, err := w.ask(ctx, true); err != nil && ctx.Err() != nil {
			return gateView{}, ctx.Err()
		}
	}
	select {
	case w.hurry <- struct{}{}:
	default: // it is asked for already
	}
	return w.view(), nil
}

func (w *gate) enter(ctx context.Context) error {
	select {
	case w.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *gate) leave() { <-w.asking }

// ask asks the cell for its gate, with a report unless it only looks. It needs asking.
func (w *gate) ask(ctx context.Context, look bool) (*cellv1.ReportLegacyResponse, error) {
	doubt, unsure := w.doubt()
	req := w.report.request(w.cfg.RequiredVersion, w.importer != nil && w.noBeats() == "", look, doubt, unsure)
	req.ServiceDownTime = durationpb.New(w.cfg.ServiceDownTime)
	if w.importer != nil && !req.GetLook() {
		req.Unclaimed = w.importer.Unclaimed()
	}
	if rows := w.rows.Load(); rows != nil && !req.GetLook() && req.GetUnreadable() == "" && w.isShadow() {
		req.HostsCompared = w.shadow.looks.comparison(rows, rows.At.Add(w.g.now().Sub(rows.at)), w.cfg.ServiceDownTime)
	}
	resp, err := callFor(ctx, w.cell, w.cell.cfg.Name, w.cell.claimBudget, req, cellv1.CellSchedulerClient.ReportLegacy)
	if err == nil && resp.GetSendServices() && !look {
		// It has taken all else of the report.
		req.Unchanged, req.Services, req.Compared, req.Differed, req.Differences = false, w.report.services, 0, 0, nil
		w.report.last = comparisons{}
		resp, err = callFor(ctx, w.cell, w.cell.cfg.Name, w.cell.claimBudget, req, cellv1.CellSchedulerClient.ReportLegacy)
	}
	w.report.ended(err)
	if err != nil {
		why := reasonOf(err)
		w.unheard.Store(&why)
		return nil, err
	}
	if resp.GetGate() == nil && (req.GetLook() || req.GetUnreadable() != "") {
		// Its first gate is made by a report of services: until then its own table may be
		// empty.
		why := "it has no gate yet, and the legacy database has not been read"
		w.unheard.Store(&why)
		w.gateless = true
		return resp, nil
	}
	w.gateless = false
	w.learn(ctx, resp.GetGate())
	w.parts.StandIn.Withheld(resp.GetWithheld())
	return resp, nil
}

// saw tells the stand-in what became of operations on claims.
func (w *gate) saw(ops []*cellv1.ClaimOp, outcomes []*cellv1.ClaimOutcome) {
	if w == nil || !w.view().standIn {
		return
	}
	until := w.g.now().Add((settle + 1) * w.cfg.Refresh)
	for i, o := range outcomes {
		if r := o.GetRefusal(); r != nil {
			w.refused(ops[i], r)
			continue
		}
		switch op := ops[i].GetOp().(type) {
		case *cellv1.ClaimOp_Claim:
			if c := o.GetClaim(); c != nil {
				w.parts.StandIn.Chose(op.Claim, c.GetExpiresAt().AsTime())
				w.shadow.touch(op.Claim.GetHostUuid(), until)
			}
		case *cellv1.ClaimOp_Swap:
			w.parts.StandIn.Ended(op.Swap.GetClaimId())
			if c := o.GetClaim(); c != nil {
				w.parts.StandIn.Chose(&cellv1.NewClaim{
					ClaimId: c.GetClaimId(), ConsumerUuid: c.GetConsumerUuid(), HostUuid: op.Swap.GetHostUuid(), Allocations: op.Swap.GetAllocations(),
					MovesClaimId: c.GetMovesClaimId(),
				}, c.GetExpiresAt().AsTime())
				w.shadow.touch(op.Swap.GetHostUuid(), until)
			}
		case *cellv1.ClaimOp_Release:
			w.parts.StandIn.Ended(op.Release.GetClaimId())
			w.shadow.touch(o.GetClaim().GetHostUuid(), until)
		}
	}
}
