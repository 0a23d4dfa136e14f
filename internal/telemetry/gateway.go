package telemetry

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
)

// Gateway is what a gateway tells of itself.
type Gateway struct {
	p       *Process
	door    door
	stages  map[Stage]prometheus.Observer
	rounds  map[bool]prometheus.Observer
	rejects lazily
	// unreadable by the filter's or weigher's name.
	unreadable lazily

	inexact map[Inexact]prometheus.Counter

	placed, partial, racesLost, restarts prometheus.Counter
	twoConfirmed                         prometheus.Counter
	claimed, refused, spread             prometheus.Counter
	batchQueries, batchWait              prometheus.Observer
	commitOps, commitWait                prometheus.Observer
	movesFinished, movesFailed           prometheus.Counter
}

// Gateway makes the handle of the process's gateway.
func (p *Process) Gateway() *Gateway {
	if p == nil {
		return nil
	}
	g := &Gateway{
		p: p, stages: map[Stage]prometheus.Observer{},
		door: door{
			traces: p.traces, mark: func(Span) {},
			methods: methods{
				counted: func(rpc, outcome string) prometheus.Counter { return p.counter(gatewayRequests, rpc, outcome) },
				timed:   func(rpc string) prometheus.Observer { return p.histogram(gatewayRequestSeconds, rpc) },
			},
		},
		rounds: map[bool]prometheus.Observer{
			true:  p.histogram(gatewayMergeRounds, "one"),
			false: p.histogram(gatewayMergeRounds, "several"),
		},
		placed:  p.counter(gatewayPlaced),
		partial: p.counter(gatewayPartial), inexact: map[Inexact]prometheus.Counter{},
		racesLost: p.counter(gatewayRacesLost), restarts: p.counter(gatewayRestarts), twoConfirmed: p.counter(gatewayTwoConfirmed),
		claimed: p.counter(gatewayClaims, "made"), refused: p.counter(gatewayClaims, "refused"), spread: p.counter(gatewaySpread),
		movesFinished: p.counter(gatewayMovesFinished, "done"), movesFailed: p.counter(gatewayMovesFinished, "failed"),
		batchQueries: p.histogram(gatewayBatchQueries), batchWait: p.histogram(gatewayBatchWait),
		commitOps: p.histogram(gatewayCommitOps), commitWait: p.histogram(gatewayCommitWait),
	}
	g.rejects.of = func(filter string) prometheus.Counter { return p.counter(gatewayRejects, filter) }
	for _, r := range InexactReasons() {
		g.inexact[r] = p.counter(gatewayInexact, string(r))
	}
	g.unreadable.of = func(by string) prometheus.Counter { return p.counter(gatewayUnreadable, by) }
	for _, s := range Stages() {
		g.stages[s] = p.histogram(gatewayStageSeconds, string(s))
	}
	return g
}

// ServerOptions make a server count, time and trace its requests.
func (g *Gateway) ServerOptions() []grpc.ServerOption {
	if g == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.UnaryInterceptor(g.door.unary)}
}

// Handler serves /metrics; nil when there is nothing to serve.
func (g *Gateway) Handler() http.Handler {
	if g == nil {
		return nil
	}
	return g.p.Handler()
}

// Step is a stage under way.
type Step struct {
	Span    Span
	seconds prometheus.Observer
	began   time.Time
	without time.Duration
}

// Stage begins a stage and its span.
func (g *Gateway) Stage(ctx context.Context, s Stage) (context.Context, Step) {
	if g == nil {
		return ctx, Step{}
	}
	ctx, span := g.p.traces.start(ctx, "gateway."+string(s))
	return ctx, Step{Span: span, seconds: g.stages[s], began: time.Now()}
}

// Without takes the time of another stage out of this one's.
func (s *Step) Without(d time.Duration) { s.without += d }

// End ends the stage; err is why it failed, nil when it did not. It gives how
// long the stage took.
func (s *Step) End(err error) time.Duration {
	if s.seconds == nil {
		return 0
	}
	took := time.Since(s.began)
	s.seconds.Observe((took - s.without).Seconds())
	s.Span.End(err)
	return took
}

// Span starts a span below ctx's.
func (g *Gateway) Span(ctx context.Context, name SpanName) (context.Context, Span) {
	if g == nil {
		return ctx, Span{}
	}
	return g.p.traces.start(ctx, name.Name)
}

// Unread counts a REST request that did not become a call: method is the one it
// named, with its service; "" for none.
func (g *Gateway) Unread(method, outcome string) {
	if g == nil {
		return
	}
	if method == "" {
		method = other
	}
	name := method[strings.LastIndexAny(method, "/.")+1:]
	g.p.counter(gatewayRequests, name, inList(labelOutcome, outcome)).Inc()
}

// Merged counts a merge over some instances and the rounds it needed.
func (g *Gateway) Merged(instances, rounds int) {
	if g != nil && rounds > 0 {
		g.rounds[instances == 1].Observe(float64(rounds))
	}
}

// Rejected counts hosts that a filter rejected.
func (g *Gateway) Rejected(filter string, hosts int) {
	if g != nil && hosts > 0 {
		g.rejects.at(inList(labelFilter, filter)).Add(float64(hosts))
	}
}

// Unreadable counts hosts with data that a filter or weigher could not read.
func (g *Gateway) Unreadable(by string, hosts int) {
	if g != nil && hosts > 0 {
		g.unreadable.at(inList(labelReader, by)).Add(float64(hosts))
	}
}

// RaceLost counts an attempt at which a claim was lost to another request.
func (g *Gateway) RaceLost() {
	if g != nil {
		g.racesLost.Inc()
	}
}

// TwoConfirmed counts that an instance was seen to have two confirmed claims.
func (g *Gateway) TwoConfirmed() {
	if g != nil {
		g.twoConfirmed.Inc()
	}
}

// MoveFinished counts a move between cells that was finished in its caller's place, or
// could not be.
func (g *Gateway) MoveFinished(err error) {
	switch {
	case g == nil:
	case err != nil:
		g.movesFailed.Inc()
	default:
		g.movesFinished.Inc()
	}
}

// Raced counts claims that were made, and that came too late.
func (g *Gateway) Raced(made, refused int) {
	if g != nil {
		g.claimed.Add(float64(made))
		g.refused.Add(float64(refused))
	}
}

// Spread counts a pick that kept out of other requests' way.
func (g *Gateway) Spread() {
	if g != nil {
		g.spread.Inc()
	}
}

// Restarted counts a selection that starts over.
func (g *Gateway) Restarted() {
	if g != nil {
		g.restarts.Inc()
	}
}

// Answered counts a selection that placed its instances; inexact is empty when it did
// so exactly.
func (g *Gateway) Answered(placed int, inexact Inexact, partial bool) {
	if g == nil {
		return
	}
	g.placed.Add(float64(placed))
	if c := g.inexact[inexact]; c != nil {
		c.Inc()
	}
	if partial {
		g.partial.Inc()
	}
}

// Sent counts the queries of one ProposeBatch call.
func (g *Gateway) Sent(queries int) {
	if g != nil {
		g.batchQueries.Observe(float64(queries))
	}
}

// Waited times one query's wait to be sent.
func (g *Gateway) Waited(d time.Duration) {
	if g != nil {
		g.batchWait.Observe(d.Seconds())
	}
}

// Committed counts the operations of one ClaimBatch call that was queued.
func (g *Gateway) Committed(ops int) {
	if g != nil {
		g.commitOps.Observe(float64(ops))
	}
}

// CommitWaited times a caller's wait for its operations to be sent.
func (g *Gateway) CommitWaited(d time.Duration) {
	if g != nil {
		g.commitWait.Observe(d.Seconds())
	}
}

// Decided counts a decision that was written for later, or dropped.
func (g *Gateway) Decided(written bool) {
	if g == nil {
		return
	}
	end := "dropped"
	if written {
		end = "written"
	}
	g.p.counter(gatewayDecisions, end).Inc()
}

// Watch has the numbers read that are read when asked for. summaries calls each
// for every cell that has a summary.
func (g *Gateway) Watch(lanes func(each func(lane Lane, limit, taken int, refused uint64)), summaries func(each func(cell string, age time.Duration))) {
	if g == nil {
		return
	}
	g.p.readings.add(func(emit Emit) {
		lanes(func(lane Lane, limit, taken int, refused uint64) {
			emit(gatewayInFlight, float64(taken), string(lane))
			emit(gatewayLimit, float64(limit), string(lane))
			emit(gatewayShed, float64(refused), string(lane))
		})
		summaries(func(cell string, age time.Duration) { emit(gatewaySummaryAge, age.Seconds(), cell) })
	})
}
