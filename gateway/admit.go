package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"cellgate/gateway/admission"
	"cellgate/gateway/console"
	"cellgate/gateway/rest"
	"cellgate/internal/fault"
	"cellgate/internal/ingress"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// projectHeader names the project of a call, in gRPC metadata and in HTTP. It is read before
// the request, so that the projects of one caller have equal shares.
const projectHeader = "cellgate-project"

// placeHeader marks, in the metadata, a call made from a REST request that already has its
// place in a queue. Only this process knows its value.
const placeHeader = "cellgate-place"

// queues hold a gateway's calls. Changes of claims do not wait behind selections, and reads
// wait behind neither.
type queues struct {
	selections, claims, others *admission.Queue
	// place is the value of placeHeader.
	place string
}

func newQueues(most int) queues {
	return queues{
		selections: admission.NewQueue("selections", most),
		claims:     admission.NewFixedQueue("changes of claims", most),
		others:     admission.NewQueue("other calls", most),
		place:      rand.Text(),
	}
}

// queueOf gives the queue of a gRPC method; nil for Capacity, and for services that are not
// the gateway's.
func (l *queues) queueOf(method string) *admission.Queue {
	switch method {
	case cellgatev1.Scheduler_SelectDestinations_FullMethodName, cellgatev1.Scheduler_ExplainDestinations_FullMethodName:
		return l.selections
	case cellgatev1.Claims_ConfirmClaim_FullMethodName, cellgatev1.Claims_ReleaseClaim_FullMethodName,
		cellgatev1.Claims_ClaimAlternate_FullMethodName, cellgatev1.Claims_TransferClaim_FullMethodName:
		return l.claims
	}
	if strings.HasPrefix(method, "/cellgate.v1.Capacity/") {
		return nil // it bounds itself: its calls take seconds, and would mislead the adaptive limit of the others
	}
	if strings.HasPrefix(method, "/cellgate.v1.") {
		return l.others
	}
	return nil
}

// each passes the state of every queue to tell, for metrics.
func (l *queues) each(tell func(queue telemetry.Queue, limit, taken int, refused uint64)) {
	for name, queue := range map[telemetry.Queue]*admission.Queue{
		telemetry.QueueSelections: l.selections, telemetry.QueueClaims: l.claims, telemetry.QueueOthers: l.others,
	} {
		s := queue.State()
		tell(name, s.Limit, s.Taken, s.Refused)
	}
}

// ServerOptions gives the options for the server that the gateway is registered with.
func (g *Gateway) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.NumStreamWorkers(handlers), rpc.Tap(g.admitCall),
		grpc.ChainUnaryInterceptor(answerInTime, takeTexts, g.awaitTurn, g.acceptNames),
	}
}

// answerInTime ends a call whose deadline has passed with DEADLINE_EXCEEDED, instead of an
// answer that lacks cells or an error that blames one: a cell that had no time to answer is
// not unavailable.
func answerInTime(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	// The deadline's timer may be late.
	if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) && (err == nil || fault.KindOf(err) == fault.CellUnavailable) {
		return nil, context.DeadlineExceeded
	}
	return resp, err
}

// admitCall gives a call its place in a queue, or refuses it, before its request is read. It
// bounds the deadline even of a call whose request never arrives.
func (g *Gateway) admitCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	queue := g.queues.queueOf(info.FullMethodName)
	if queue == nil {
		return ctx, nil
	}
	leave := func() {}
	if header := info.Header[placeHeader]; len(header) != 1 || header[0] != g.queues.place {
		deadline, _ := ctx.Deadline()
		got, err := queue.Enter(callerOf(ctx, addressOf(ctx), info.Header[projectHeader]), deadline)
		if err != nil {
			if p, ok := peer.FromContext(ctx); ok {
				ingress.CallRefused(p.Addr)
			}
			return ctx, err
		}
		leave = sync.OnceFunc(got)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.MaxDeadline)
	// A call may end before it comes to awaitTurn; its context ends with it.
	context.AfterFunc(ctx, func() { leave(); cancel() })
	return context.WithValue(ctx, leaveKey{}, leave), nil
}

// leaveKey is the context key of the function that frees a call's place in its queue.
type leaveKey struct{}

// awaitTurn begins a call when it is its turn.
func (g *Gateway) awaitTurn(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	queue := g.queues.queueOf(info.FullMethod)
	if queue == nil {
		return handler(ctx, req)
	}
	if leave, ok := ctx.Value(leaveKey{}).(func()); ok {
		defer leave()
	}
	var admit telemetry.Step
	if queue == g.queues.selections {
		_, admit = g.tel.Stage(ctx, telemetry.StageAdmit)
	}
	end, err := queue.Begin(ctx)
	admit.End(err)
	if err != nil {
		return nil, err
	}
	answered := false // unless the handler panics
	defer func() { end(answered) }()
	resp, err := handler(ctx, req)
	answered = err == nil || fault.KindOf(err) == fault.NoValidHost
	return resp, err
}

// placeKey is the context key that marks a REST request with a place in a queue.
type placeKey struct{}

// admitHTTP is admitCall for a REST request, before its body is read. leave frees the place;
// it does nothing for a method without a queue, and is nil with an error.
func (g *Gateway) admitHTTP(r *http.Request, method string) (admitted *http.Request, leave func(), err error) {
	ctx := r.Context()
	queue := g.queues.queueOf(method)
	if queue == nil {
		return r, func() {}, nil
	}
	deadline, _ := ctx.Deadline()
	leave, err = queue.Enter(callerOf(ctx, r.RemoteAddr, r.Header.Values(projectHeader)), deadline)
	if err != nil {
		return nil, nil, err
	}
	return r.WithContext(context.WithValue(ctx, placeKey{}, true)), leave, nil
}

// withPlace gives the context of the call that a REST request becomes, marked if the request has its place.
func (g *Gateway) withPlace(ctx context.Context) context.Context {
	if ctx.Value(placeKey{}) == nil {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, placeHeader, g.queues.place)
}

// callerOf gives the caller among whom a queue is shared: the identity that it proved, else
// the address of its machine. Its Part is the project that the call names, else the
// connection.
func callerOf(ctx context.Context, address string, project []string) admission.Caller {
	c := admission.Caller{Part: address}
	if id := security.FromContext(ctx); id != nil {
		c.Name = string(id.Role) + " " + id.Name
	} else if host, _, err := net.SplitHostPort(address); err == nil {
		c.Name = host
	}
	if len(project) > 0 {
		c.Part = "project " + project[0]
	}
	return c
}

// addressOf gives the address that a call comes from.
func addressOf(ctx context.Context) string {
	from := ""
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		from = p.Addr.String()
	}
	return cmp.Or(security.AddressOf(ctx), from)
}

// HTTPHandler serves the REST API of the gateway; conn is a connection to the gRPC server
// that the gateway is registered with.
func (g *Gateway) HTTPHandler(conn *grpc.ClientConn) (http.Handler, error) {
	pages, err := console.Pages()
	if err != nil {
		return nil, err
	}
	events := console.Events(console.Source{
		Cells: g.listCells, Newest: g.decisions.Newest, Admitted: security.StillAdmitted, Stopping: g.health.Stopping(), Refuse: rest.WriteError,
	})
	return rest.New(rest.Deps{
		Console: pages, ConsolePaths: console.Paths, Events: events,
		Conn: conn, Admit: g.admitHTTP, Outgoing: g.withPlace, Check: checkDepth,
		Ingress: g.in, Health: g.health, Telemetry: g.tel, Log: g.log,
	})
}
