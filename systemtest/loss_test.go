package systemtest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// call is one call between two parts: the n-th (from 1) of its kind.
type call struct {
	// pair is the caller and the callee: "conductor-gateway", "gateway-cell", "cell-store".
	pair string
	// method is the RPC or store call. For a batch, the kinds of its operations follow.
	method string
	n      int
}

func (c call) String() string { return fmt.Sprintf("%s %s #%d", c.pair, c.method, c.n) }

// way is how a reply is lost.
type way string

const (
	// cut breaks the connection: the caller gets UNAVAILABLE at once.
	cut way = "cut"
	// silence sends no reply: the caller waits until its deadline.
	silence way = "silence"
)

// network counts the calls between the parts and loses the reply of one of them: the call takes
// effect, but the caller gets an error.
type network struct {
	lose *call
	way  way
	// loseFirst, unless empty, loses the reply of the first call whose method contains it. Which
	// operations share a transaction depends on timing, so a call number does not identify one.
	loseFirst string
	// weather, unless nil, slows calls down and loses more replies.
	weather *weather

	mu   sync.Mutex
	seen map[call]int // by call without n
	lost bool
	// quiet: calls are neither counted nor lost.
	quiet bool
}

func newNetwork() *network { return &network{seen: map[call]int{}, quiet: true} }

func (n *network) watch(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.quiet = !on
}

// calls lists every call that was counted.
func (n *network) calls() []call {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []call
	for c, count := range n.seen {
		for i := range count {
			out = append(out, call{c.pair, c.method, i + 1})
		}
	}
	slices.SortFunc(out, func(a, b call) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// loses counts a call and reports whether its reply is the one to lose.
func (n *network) loses(pair, method string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.quiet {
		return false
	}
	c := call{pair: pair, method: method}
	n.seen[c]++
	c.n = n.seen[c]
	first := n.loseFirst != "" && !n.lost && strings.Contains(method, n.loseFirst)
	if !first && (n.lose == nil || *n.lose != c) {
		return false
	}
	n.lost = true
	return true
}

// between intercepts the calls of a client. It is the interceptor nearest to the wire, so that
// callers take its error for a status of the network.
func (n *network) between(pair string) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, full string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if n.weather != nil {
			return n.weathered(ctx, path.Base(full)+kindsOf(req), func() error { return invoke(ctx, full, req, reply, cc, opts...) })
		}
		err := invoke(ctx, full, req, reply, cc, opts...)
		if !n.loses(pair, path.Base(full)+kindsOf(req)) {
			return err
		}
		if n.way == silence {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return status.Error(codes.Unavailable, "the connection broke before the reply was there")
	})
}

// weathered delays a call and may lose its reply. If the caller gives up before the call is sent,
// nothing is done. If it gives up later, the call has its effect all the same.
func (n *network) weathered(ctx context.Context, kind string, do func() error) error {
	call, reply, lost := n.weather.faultsFor(kind)
	if err := wait(ctx, call); err != nil {
		return err
	}
	err := do()
	if late := wait(ctx, reply); late != nil {
		return late
	}
	if lost {
		return status.Error(codes.Unavailable, "the connection broke before the reply was there")
	}
	return err
}

// wait waits for d of the bubble's time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// kindsOf names the operations of a batch.
func kindsOf(req any) string {
	batch, ok := req.(*cellv1.ClaimBatchRequest)
	if !ok {
		return ""
	}
	var kinds []string
	for _, op := range batch.GetOps() {
		name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", op.GetOp()), "*cellv1.ClaimOp_"))
		if !slices.Contains(kinds, name) {
			kinds = append(kinds, name)
		}
	}
	return " " + strings.Join(kinds, "+")
}

// store loses replies of a store. Its calls in the background come by the clock,
// not by the scenario: only those that a scenario makes are counted.
func (n *network) store(s shard.Store) shard.Store {
	slow := func(ctx context.Context, c shardtest.Call) error {
		if n.weather == nil || c.Name != "Apply" {
			return nil
		}
		call, _, _ := n.weather.faultsFor("Apply")
		return wait(ctx, call)
	}
	return &shardtest.Faulty{Store: s, Before: slow, After: func(ctx context.Context, c shardtest.Call) error {
		if n.weather != nil && c.Name == "Apply" && slices.ContainsFunc(c.Ops, func(op shard.Op) bool { return op.PutHost == nil }) {
			_, reply, lost := n.weather.faultsFor("Apply")
			if err := wait(ctx, reply); err != nil || lost {
				return shardtest.Unknown()
			}
			return nil
		}
		if c.Name != "Apply" && c.Name != "FindClaims" || !n.loses("cell-store", c.Name+storeKinds(c.Ops)) {
			return nil
		}
		return shardtest.Unknown()
	}}
}

func storeKinds(ops []shard.Op) string {
	var kinds []string
	for i := range ops {
		op, kind := &ops[i], "other"
		switch {
		case op.PutHost != nil:
			kind = "report"
		case op.Claim != nil:
			kind = "claim"
		case op.Confirm != nil:
			kind = "confirm"
		case op.Release != nil:
			kind = "release"
		case op.Expire != nil:
			kind = "expire"
		case op.Pin != nil:
			kind = "pin"
		case op.Unpin != nil:
			kind = "unpin"
		case op.Swap != nil:
			kind = "swap"
		case op.Transfer != nil:
			kind = "transfer"
		case op.TakeOver != nil:
			kind = "keep"
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return " " + strings.Join(kinds, "+")
}
