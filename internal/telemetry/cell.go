package telemetry

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"cellgate/internal/fault"
)

// Cell is what a scheduler replica of a cell tells of itself.
type Cell struct {
	p             *Process
	name, replica string
	door          door
	transactions  lazily
	states        lazily
	verdicts      lazily
	verdictWaits  map[bool]prometheus.Observer
	unanswered    prometheus.Counter
	cold          lazily
	gateMoves     lazily
	repairs       lazily
	ops           map[Op]*lazily
	refused       map[bool]prometheus.Counter
	waits         map[bool]prometheus.Observer

	expired, adopted, elsewhere, overcommitted       prometheus.Counter
	streams                                          prometheus.Gauge
	proposeSeconds, proposeQueries, txSeconds, txOps prometheus.Observer
}

// Cell makes the handle of a replica of a cell.
func (p *Process) Cell(cell, replica string) *Cell {
	if p == nil {
		return nil
	}
	c := &Cell{p: p, name: cell, replica: replica, ops: map[Op]*lazily{}}
	c.door = door{
		traces: p.traces, untraced: "cellgate.cell.v1.CellScheduler/ProposeBatch", mark: c.mark,
		methods: methods{
			counted: func(rpc, outcome string) prometheus.Counter {
				return p.counter(cellRequests, cell, replica, rpc, outcome)
			},
			timed: func(rpc string) prometheus.Observer { return p.histogram(cellRequestSeconds, cell, replica, rpc) },
		},
	}
	c.transactions.of = func(o string) prometheus.Counter { return p.counter(cellTransactions, cell, replica, o) }
	c.verdicts.of = func(what string) prometheus.Counter {
		mode, verdict, _ := strings.Cut(what, " ")
		return p.counter(cellVerdicts, cell, replica, mode, verdict)
	}
	c.verdictWaits = map[bool]prometheus.Observer{
		true: p.histogram(cellVerdictWait, cell, replica, "heard"), false: p.histogram(cellVerdictWait, cell, replica, "late"),
	}
	c.unanswered = p.counter(cellOffersUnanswered, cell, replica)
	c.cold.of = func(answer string) prometheus.Counter { return p.counter(cellCold, cell, replica, answer) }
	c.gateMoves.of = func(to string) prometheus.Counter { return p.counter(cellGateMoves, cell, replica, to) }
	c.repairs.of = func(what string) prometheus.Counter {
		kind, end, _ := strings.Cut(what, " ")
		return p.counter(cellRepairs, cell, replica, kind, end)
	}
	c.states.of = func(o string) prometheus.Counter { return p.counter(cellStates, cell, replica, o) }
	for _, op := range Ops() {
		c.ops[op] = &lazily{of: func(o string) prometheus.Counter { return p.counter(cellOperations, cell, replica, string(op), o) }}
	}
	c.refused = map[bool]prometheus.Counter{
		true: p.counter(cellQueueRefused, cell, replica, "urgent"), false: p.counter(cellQueueRefused, cell, replica, "other"),
	}
	c.expired, c.adopted = p.counter(cellLeasesExpired, cell, replica), p.counter(cellAdopted, cell, replica)
	c.elsewhere, c.overcommitted = p.counter(cellElsewhere, cell, replica), p.counter(cellOvercommitted, cell, replica)
	c.streams = p.gauge(cellStreams, cell, replica)
	c.proposeSeconds, c.proposeQueries = p.histogram(cellProposeSeconds, cell, replica), p.histogram(cellProposeQueries, cell, replica)
	c.txSeconds, c.txOps = p.histogram(cellTransactionSeconds, cell, replica), p.histogram(cellTransactionOps, cell, replica)
	c.waits = map[bool]prometheus.Observer{
		true: p.histogram(cellQueueWait, cell, replica, "urgent"), false: p.histogram(cellQueueWait, cell, replica, "other"),
	}
	return c
}

func (c *Cell) mark(s Span) {
	s.Text(AttrCell, c.name)
	s.Text(AttrReplica, c.replica)
}

// ServerOptions make a server count, time and trace its calls.
func (c *Cell) ServerOptions() []grpc.ServerOption {
	if c == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.UnaryInterceptor(c.door.unary)}
}

// Span starts a span below ctx's.
func (c *Cell) Span(ctx context.Context, name SpanName) (context.Context, Span) {
	if c == nil {
		return ctx, Span{}
	}
	return c.p.traces.start(ctx, name.Name)
}

// Propose starts the span of a query below the one that the query names.
func (c *Cell) Propose(ctx context.Context, traceParent string) (context.Context, Span) {
	if c == nil || traceParent == "" {
		return ctx, Span{}
	}
	ctx, span := c.p.traces.start(c.p.traces.under(ctx, traceParent, ""), SpanPropose.Name)
	if span.On() {
		c.mark(span)
	}
	return ctx, span
}

// Asked counts the queries of one ProposeBatch call.
func (c *Cell) Asked(queries int) {
	if c != nil {
		c.proposeQueries.Observe(float64(queries))
	}
}

// Proposed times the computing of one query.
func (c *Cell) Proposed(took time.Duration) {
	if c != nil {
		c.proposeSeconds.Observe(took.Seconds())
	}
}

// Cold counts a query that came while the table was loaded; cut: it was answered from
// some of the hosts that the shard found.
func (c *Cell) Cold(cut bool, err error) {
	if c == nil {
		return
	}
	answer := "all"
	switch {
	case err != nil:
		answer = "refused"
	case cut:
		answer = "cut"
	}
	c.cold.at(answer).Inc()
}

// Transaction counts and times a transaction of some operations.
func (c *Cell) Transaction(ops int, took time.Duration, err error) {
	if c == nil {
		return
	}
	c.transactions.at(outcomeOf(err)).Inc()
	c.txSeconds.Observe(took.Seconds())
	c.txOps.Observe(float64(ops))
}

// Operation counts an operation that was done, or refused with a kind.
func (c *Cell) Operation(op Op, refused fault.Kind) {
	if c == nil {
		return
	}
	outcome := OK
	if refused != "" {
		outcome = inList(labelOutcome, string(refused))
	}
	c.ops[op].at(outcome).Inc()
}

// QueueWaited times the wait of a caller's operations for a transaction.
func (c *Cell) QueueWaited(urgent bool, d time.Duration) {
	if c != nil {
		c.waits[urgent].Observe(d.Seconds())
	}
}

// QueueRefused counts a call that found the queue full.
func (c *Cell) QueueRefused(urgent bool) {
	if c != nil {
		c.refused[urgent].Inc()
	}
}

// LeaseExpired counts a claim that ended with its lease.
func (c *Cell) LeaseExpired() {
	if c != nil {
		c.expired.Inc()
	}
}

// HostPut counts what a host's report found of its instances.
func (c *Cell) HostPut(adopted, elsewhere, overcommitted int) {
	if c != nil {
		c.adopted.Add(float64(adopted))
		c.elsewhere.Add(float64(elsewhere))
		c.overcommitted.Add(float64(overcommitted))
	}
}

// Stream notes that an agent's stream is open; the function that it has ended.
func (c *Cell) Stream() (ended func()) {
	if c == nil {
		return func() {}
	}
	c.streams.Inc()
	return c.streams.Dec
}

// State counts a full state that was accepted, or refused with an error.
func (c *Cell) State(err error) {
	if c != nil {
		c.states.at(outcomeOf(err)).Inc()
	}
}

// Verdict counts a host's verdict on a claim in a verify mode; reason is of a rejection.
func (c *Cell) Verdict(mode string, rejected bool, reason string) {
	if c == nil {
		return
	}
	what := inList(labelVerify, mode) + " ok"
	if rejected {
		what = inList(labelVerify, mode) + " " + inList(labelVerdict, reason)
	}
	c.verdicts.at(what).Inc()
}

// VerdictWaited times the wait of a claim for its host's verdict.
func (c *Cell) VerdictWaited(d time.Duration, heard bool) {
	if c != nil {
		c.verdictWaits[heard].Observe(d.Seconds())
	}
}

// OfferUnanswered counts an offer that had no verdict in time.
func (c *Cell) OfferUnanswered() {
	if c != nil {
		c.unanswered.Inc()
	}
}

// GateMoved counts a move of the cell's gate to a state.
func (c *Cell) GateMoved(to string) {
	if c != nil {
		c.gateMoves.at(inList(labelGate, strings.ToLower(to))).Inc()
	}
}

// Repaired counts a repair of a finding of a kind that was done, refused, or failed.
func (c *Cell) Repaired(kind, end string) {
	if c != nil {
		c.repairs.at(inList(labelFinding, kind) + " " + inList(labelRepair, end)).Inc()
	}
}

// CellReading is what is read of a cell when it is asked for.
type CellReading struct {
	Hosts, HostsUp, HostsImported, HostsWithheld, Pending, Confirmed int64

	// StoreAhead is store time less the machine's clock.
	StoreAhead                time.Duration
	QueuedUrgent, QueuedOther int
	Pinned                    int
	// Gate is the state of the gate, in GateStates; empty for a cell without one.
	Gate                     string
	GateEpoch                int64
	GateLagging, GateAwaited int
	// GateBehind counts gateways whose rows of Nova's tables are behind, GateReadingLag is the
	// greatest lag of any.
	GateBehind     int
	GateReadingLag time.Duration
	// GateRowsAge is how long ago all that Nova's tables say was in the shard; below 0 for never.
	GateRowsAge time.Duration
	// GateDiffering counts gateways that ask less of Nova's services than another.
	GateDiffering int
	JournalAge    time.Duration
	// Findings that stand, by kind, and the hosts that were compared.
	Findings     map[string]int
	Compared     int
	ReconcileAge time.Duration
}

// Watch has the cell read; ok is false while there is nothing to read.
func (c *Cell) Watch(read func() (r CellReading, ok bool)) {
	if c == nil {
		return
	}
	c.p.readings.add(func(emit Emit) {
		r, ok := read()
		if !ok {
			return
		}
		emit(cellHosts, float64(r.Hosts), c.name, c.replica)
		emit(cellHostsUp, float64(r.HostsUp), c.name, c.replica)
		emit(cellHostsImported, float64(r.HostsImported), c.name, c.replica)
		emit(cellHostsWithheld, float64(r.HostsWithheld), c.name, c.replica)
		emit(cellStoreAhead, r.StoreAhead.Seconds(), c.name, c.replica)
		emit(cellClaims, float64(r.Pending), c.name, c.replica, "pending")
		emit(cellClaims, float64(r.Confirmed), c.name, c.replica, "confirmed")
		emit(cellQueueOps, float64(r.QueuedUrgent), c.name, c.replica, "urgent")
		emit(cellQueueOps, float64(r.QueuedOther), c.name, c.replica, "other")
		if r.Gate != "" {
			emit(cellGate, float64(slices.Index(GateStates(), r.Gate)), c.name, c.replica)
			emit(cellGateEpoch, float64(r.GateEpoch), c.name, c.replica)
			emit(cellGateLagging, float64(r.GateLagging), c.name, c.replica)
			emit(cellGateAwaited, float64(r.GateAwaited), c.name, c.replica)
			emit(cellGateBehind, float64(r.GateBehind), c.name, c.replica)
			if r.GateRowsAge >= 0 {
				emit(cellGateRowsAge, r.GateRowsAge.Seconds(), c.name, c.replica)
			}
			emit(cellGateReadingLag, r.GateReadingLag.Seconds(), c.name, c.replica)
			emit(cellGateDiffering, float64(r.GateDiffering), c.name, c.replica)
		}
		for _, kind := range FindingKinds() {
			emit(cellFindings, float64(r.Findings[kind]), c.name, c.replica, kind)
		}
		emit(cellHostsCompared, float64(r.Compared), c.name, c.replica)
		emit(cellReconcileAge, r.ReconcileAge.Seconds(), c.name, c.replica)
		emit(cellPinned, float64(r.Pinned), c.name, c.replica)
		emit(cellJournalAge, r.JournalAge.Seconds(), c.name, c.replica)
	})
}

// StoreReading is what is read of a shard in a database when it is asked for.
type StoreReading struct {
	Reruns, Relocked, ConnectionsLost, CommitsUnknown, CommitsResolved, StatementTimeouts, PoolEmpty, NoConnectionLeft, Refused int64

	ConnectionsInUse, ConnectionsIdle, ConnectionsOpening, ConnectionsMax int
	// Waited is how long calls have waited for a connection.
	Waited time.Duration
}

// WatchStore has the cell's shard read.
func (c *Cell) WatchStore(read func() StoreReading) {
	if c == nil {
		return
	}
	c.p.readings.add(func(emit Emit) {
		r := read()
		for i, n := range []int64{r.Reruns, r.Relocked, r.ConnectionsLost, r.CommitsUnknown, r.CommitsResolved, r.StatementTimeouts, r.PoolEmpty, r.NoConnectionLeft, r.Refused} {
			emit(cellStoreEvents, float64(n), c.name, c.replica, labelEvent.Values[i])
		}
		for i, n := range []int{r.ConnectionsInUse, r.ConnectionsIdle, r.ConnectionsOpening} {
			emit(cellStoreConnections, float64(n), c.name, c.replica, labelConnection.Values[i])
		}
		emit(cellStoreConnectionsMax, float64(r.ConnectionsMax), c.name, c.replica)
		emit(cellStoreWait, r.Waited.Seconds(), c.name, c.replica)
	})
}
