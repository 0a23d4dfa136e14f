package telemetry

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
)

// Cell is the telemetry of a scheduler replica of a cell.
type Cell struct {
	*part
	requests *requestMeter
}

// Cell makes the handle of a replica of a cell.
func (p *Process) Cell(cell, replica string) Cell {
	c := Cell{part: p.newPart(cell, replica)}
	c.requests = &requestMeter{
		part: c.part, requests: cellRequests, seconds: cellRequestSeconds, mark: c.mark,
		untraced: "cellgate.cell.v1.CellScheduler/ProposeBatch",
	}
	c.show(cellVerdictWait, cellOffersUnanswered, cellQueueRefused, cellQueueWait, cellLeasesExpired, cellAdopted, cellElsewhere, cellOvercommitted,
		cellStreams, cellProposeSeconds, cellNearMissesSpared, cellTransactionSeconds, cellTransactionOps)
	return c
}

func (c Cell) mark(s Span) {
	s.Text(AttrCell, c.labels[0])
	s.Text(AttrReplica, c.labels[1])
}

// ServerOptions make a server count, time and trace its calls.
func (c Cell) ServerOptions() []grpc.ServerOption {
	if c.part == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.UnaryInterceptor(c.requests.unary)}
}

// Span starts a span below ctx's.
func (c Cell) Span(ctx context.Context, name SpanName) (context.Context, Span) {
	return c.span(ctx, name.Name)
}

// Propose starts the span of a query below the one that the query names.
func (c Cell) Propose(ctx context.Context, traceParent string) (context.Context, Span) {
	if c.part == nil || traceParent == "" {
		return ctx, Span{}
	}
	ctx, span := c.p.traces.start(c.p.traces.under(ctx, traceParent, ""), SpanPropose.Name)
	if span.On() {
		c.mark(span)
	}
	return ctx, span
}

// Proposed times the computation of one query.
func (c Cell) Proposed(took time.Duration) { c.observe(cellProposeSeconds, took.Seconds()) }

// NearMissesSpared counts a query that is answered without the near misses it asked for.
func (c Cell) NearMissesSpared() { c.add(cellNearMissesSpared, 1) }

// Cold counts a query while the table is being loaded; cut: it was answered from only some of the hosts
// that the shard found.
func (c Cell) Cold(cut bool, err error) {
	answer := either(cut, "cut", "all")
	if err != nil {
		answer = "refused"
	}
	c.add(cellCold, 1, answer)
}

// Transaction counts and times a transaction of some operations.
func (c Cell) Transaction(ops int, took time.Duration, err error) {
	c.add(cellTransactions, 1, outcomeOf(err))
	c.observe(cellTransactionSeconds, took.Seconds())
	c.observe(cellTransactionOps, float64(ops))
}

// Operation counts an operation that was done, or refused with a kind.
func (c Cell) Operation(op string, refused fault.Kind) {
	c.add(cellOperations, 1, inList(labelOp, op), outcomeOfKind(refused))
}

// QueueWaited times the wait of a caller's operations for a transaction.
func (c Cell) QueueWaited(urgent bool, d time.Duration) {
	c.observe(cellQueueWait, d.Seconds(), either(urgent, "urgent", "other"))
}

// QueueRefused counts a call that found the queue full.
func (c Cell) QueueRefused(urgent bool) {
	c.add(cellQueueRefused, 1, either(urgent, "urgent", "other"))
}

// LeaseExpired counts a claim that ended with its lease.
func (c Cell) LeaseExpired() { c.add(cellLeasesExpired, 1) }

// HostPut counts the results of comparing a host's reported instances with claims.
func (c Cell) HostPut(adopted, elsewhere, overcommitted int) {
	c.add(cellAdopted, adopted)
	c.add(cellElsewhere, elsewhere)
	c.add(cellOvercommitted, overcommitted)
}

// Stream counts an open stream of an agent until the caller calls ended.
func (c Cell) Stream() (ended func()) {
	if c.part == nil {
		return func() {}
	}
	streams := c.gauge(cellStreams)
	streams.Inc()
	return streams.Dec
}

// State counts a full state that was accepted, or refused with an error.
func (c Cell) State(err error) { c.add(cellStates, 1, outcomeOf(err)) }

// Verdict counts a host's verdict on a claim in a verify mode; reason is the reason of a rejection.
func (c Cell) Verdict(mode string, rejected bool, reason string) {
	verdict := "ok"
	if rejected {
		verdict = inList(labelVerdict, reason)
	}
	c.add(cellVerdicts, 1, inList(labelVerify, mode), verdict)
}

// VerdictWaited times the wait of a claim for its host's verdict.
func (c Cell) VerdictWaited(d time.Duration, arrived bool) {
	c.observe(cellVerdictWait, d.Seconds(), either(arrived, "arrived", "late"))
}

// OfferUnanswered counts an offer that had no verdict in time.
func (c Cell) OfferUnanswered() { c.add(cellOffersUnanswered, 1) }

// GateMoved counts a move of the cell's gate to a state.
func (c Cell) GateMoved(to string) {
	c.add(cellGateMoves, 1, inList(labelGate, strings.ToLower(to)))
}

// Repaired counts an attempt to repair a finding of a kind; end says whether it was done, refused, or
// failed.
func (c Cell) Repaired(kind, end string) {
	c.add(cellRepairs, 1, inList(labelFinding, kind), inList(labelRepair, end))
}

// CellReading has the values of a cell that are read at each scrape.
type CellReading struct {
	Hosts, HostsUp, HostsImported, HostsWithheld, Pending, Confirmed int64

	// StoreAhead is store time minus the machine's clock.
	StoreAhead                time.Duration
	QueuedUrgent, QueuedOther int
	// Gate is the state of the gate, one of GateStates; empty for a cell without a gate.
	Gate           string
	GateEpoch      int64
	GateLagging    int
	GateReadingLag time.Duration
	// GateRowsAge is how long ago all of Nova's tables were in the shard; negative for never.
	GateRowsAge time.Duration
	JournalAge  time.Duration
	// Findings are the open findings by kind, Compared the hosts that were compared.
	Findings     map[string]int
	Compared     int
	ReconcileAge time.Duration
	Packing      PackingReading
}

// PackingReading says how well a cell's hosts are packed.
type PackingReading struct {
	// Empty is the number of hosts that accept instances and have none.
	Empty int
	// Density is the used fraction of the hosts that are not empty, by class. Classes that they lack
	// are missing.
	Density map[string]float64
	Shapes  []ShapeReading
}

// ShapeReading is the room for instances of a shape. Fits counts it host by host; Pooled counts it as
// if one host had all free resources.
type ShapeReading struct {
	Shape        string
	Fits, Pooled int64
}

// Watch reads the cell at each scrape; ok is false while there is nothing to read.
func (c Cell) Watch(read func() (r CellReading, ok bool)) {
	c.watch(func(emit Emit) {
		r, ok := read()
		if !ok {
			return
		}
		emit(cellHosts, float64(r.Hosts))
		emit(cellHostsUp, float64(r.HostsUp))
		emit(cellHostsImported, float64(r.HostsImported))
		emit(cellHostsWithheld, float64(r.HostsWithheld))
		emit(cellHostsEmpty, float64(r.Packing.Empty))
		for class, density := range r.Packing.Density {
			emit(cellPackedRatio, density, class)
		}
		for _, s := range r.Packing.Shapes {
			emit(cellShapeFits, float64(s.Fits), s.Shape)
			emit(cellShapePooled, float64(s.Pooled), s.Shape)
		}
		emit(cellStoreAhead, r.StoreAhead.Seconds())
		emit(cellClaims, float64(r.Pending), "pending")
		emit(cellClaims, float64(r.Confirmed), "confirmed")
		emit(cellQueueOps, float64(r.QueuedUrgent), "urgent")
		emit(cellQueueOps, float64(r.QueuedOther), "other")
		if r.Gate != "" {
			emit(cellGate, float64(slices.Index(GateStates(), r.Gate)))
			emit(cellGateEpoch, float64(r.GateEpoch))
			emit(cellGateLagging, float64(r.GateLagging))
			if r.GateRowsAge >= 0 {
				emit(cellGateRowsAge, r.GateRowsAge.Seconds())
			}
			emit(cellGateReadingLag, r.GateReadingLag.Seconds())
		}
		for _, kind := range FindingKinds() {
			emit(cellFindings, float64(r.Findings[kind]), kind)
		}
		emit(cellHostsCompared, float64(r.Compared))
		emit(cellReconcileAge, r.ReconcileAge.Seconds())
		emit(cellJournalAge, r.JournalAge.Seconds())
	})
}

// StoreReading has the values of a database shard that are read at each scrape.
type StoreReading struct {
	Reruns, Relocked, ConnectionsLost, CommitsUnknown, CommitsResolved, StatementTimeouts, PoolEmpty, NoConnectionLeft, Refused int64

	ConnectionsInUse, ConnectionsIdle, ConnectionsOpening, ConnectionsMax int
	// Waited is how long calls have waited for a connection.
	Waited time.Duration
}

// WatchStore reads the cell's shard at each scrape.
func (c Cell) WatchStore(read func() StoreReading) {
	c.watch(func(emit Emit) {
		r := read()
		for i, n := range []int64{r.Reruns, r.Relocked, r.ConnectionsLost, r.CommitsUnknown, r.CommitsResolved, r.StatementTimeouts, r.PoolEmpty, r.NoConnectionLeft, r.Refused} {
			emit(cellStoreEvents, float64(n), labelEvent.Values[i])
		}
		for i, n := range []int{r.ConnectionsInUse, r.ConnectionsIdle, r.ConnectionsOpening} {
			emit(cellStoreConnections, float64(n), labelConnection.Values[i])
		}
		emit(cellStoreConnectionsMax, float64(r.ConnectionsMax))
		emit(cellStoreWait, r.Waited.Seconds())
	})
}
