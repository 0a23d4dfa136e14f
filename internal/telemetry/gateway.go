package telemetry

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// Gateway is the telemetry of a gateway.
type Gateway struct {
	*part
	requests *requestMeter
}

// Gateway makes the handle of the process's gateway.
func (p *Process) Gateway() Gateway {
	g := Gateway{part: p.newPart()}
	g.requests = &requestMeter{part: g.part, requests: gatewayRequests, seconds: gatewayRequestSeconds, mark: func(Span) {}}
	g.show(gatewayStageSeconds, gatewayMergeRounds, gatewayPlaced, gatewayPartial, gatewayInexact, gatewayRacesLost, gatewayRestarts,
		gatewayTwoConfirmed, gatewayClaims, gatewaySpread, gatewayMovesFinished, gatewayBatchQueries)
	return g
}

// ServerOptions make a server count, time and trace its requests.
func (g Gateway) ServerOptions() []grpc.ServerOption {
	if g.part == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.UnaryInterceptor(g.requests.unary)}
}

// Handler serves /metrics; nil for a zero Gateway.
func (g Gateway) Handler() http.Handler {
	if g.part == nil {
		return nil
	}
	return g.p.Handler()
}

// Step is a stage that has begun.
type Step struct {
	Span    Span
	of      *part
	stage   Stage
	began   time.Time
	without time.Duration
}

// Stage begins a stage and its span.
func (g Gateway) Stage(ctx context.Context, s Stage) (context.Context, Step) {
	ctx, span := g.span(ctx, "gateway."+string(s))
	return ctx, Step{Span: span, of: g.part, stage: s, began: time.Now()}
}

// Without subtracts the time of another stage from this one's.
func (s *Step) Without(d time.Duration) { s.without += d }

// End ends the stage; err is why it failed, or nil. It returns how long the stage took.
func (s *Step) End(err error) time.Duration {
	if s.of == nil {
		return 0
	}
	took := time.Since(s.began)
	s.of.observe(gatewayStageSeconds, (took - s.without).Seconds(), string(s.stage))
	s.Span.End(err)
	return took
}

// Span starts a span below ctx's.
func (g Gateway) Span(ctx context.Context, name SpanName) (context.Context, Span) {
	return g.span(ctx, name.Name)
}

// Unread counts a REST request that did not become a call. method is the full name of the method that
// the request named; "" for none.
func (g Gateway) Unread(method, outcome string) {
	if method == "" {
		method = other
	}
	name := method[strings.LastIndexAny(method, "/.")+1:]
	g.add(gatewayRequests, 1, name, inList(labelOutcome, outcome))
}

// Merged counts a merge over some instances and the rounds it needed.
func (g Gateway) Merged(instances, rounds int) {
	if rounds > 0 {
		g.observe(gatewayMergeRounds, float64(rounds), either(instances == 1, "one", "several"))
	}
}

// Rejected counts hosts that a filter rejected.
func (g Gateway) Rejected(filter string, hosts int) {
	if hosts > 0 {
		g.add(gatewayRejects, hosts, inList(labelFilter, filter))
	}
}

// Unreadable counts hosts with data that a filter or weigher could not read.
func (g Gateway) Unreadable(by string, hosts int) {
	if hosts > 0 {
		g.add(gatewayUnreadable, hosts, inList(labelReader, by))
	}
}

// RaceLost counts an attempt whose claim was lost to another request.
func (g Gateway) RaceLost() { g.add(gatewayRacesLost, 1) }

// TwoConfirmed counts an observation of an instance with two confirmed claims.
func (g Gateway) TwoConfirmed() { g.add(gatewayTwoConfirmed, 1) }

// MoveFinished counts a move between cells that the gateway finished in its caller's place, or failed
// to finish.
func (g Gateway) MoveFinished(err error) {
	g.add(gatewayMovesFinished, 1, either(err == nil, "done", "failed"))
}

// Raced counts claims that were made, and claims that came too late.
func (g Gateway) Raced(made, refused int) {
	g.add(gatewayClaims, made, "made")
	g.add(gatewayClaims, refused, "refused")
}

// Spread counts a pick that avoided the hosts of other requests.
func (g Gateway) Spread() { g.add(gatewaySpread, 1) }

// Restarted counts a selection that starts over.
func (g Gateway) Restarted() { g.add(gatewayRestarts, 1) }

// Answered counts a selection that placed its instances; inexact is "" if the selection was exact.
func (g Gateway) Answered(placed int, inexact Inexact, partial bool) {
	g.add(gatewayPlaced, placed)
	if inexact != "" {
		g.add(gatewayInexact, 1, string(inexact))
	}
	if partial {
		g.add(gatewayPartial, 1)
	}
}

// Sent records the number of queries in one ProposeBatch call.
func (g Gateway) Sent(queries int) { g.observe(gatewayBatchQueries, float64(queries)) }

// Decided counts a decision that was stored, or dropped.
func (g Gateway) Decided(written bool) {
	g.add(gatewayDecisions, 1, either(written, "written", "dropped"))
}

// Watch reads values at each scrape. summaries calls each for every cell that has a summary.
func (g Gateway) Watch(queues func(each func(queue Queue, limit, taken int, refused uint64)), summaries func(each func(cell string, age time.Duration))) {
	g.watch(func(emit Emit) {
		queues(func(queue Queue, limit, taken int, refused uint64) {
			emit(gatewayInFlight, float64(taken), string(queue))
			emit(gatewayLimit, float64(limit), string(queue))
			emit(gatewayShed, float64(refused), string(queue))
		})
		summaries(func(cell string, age time.Duration) { emit(gatewaySummaryAge, age.Seconds(), cell) })
	})
}
