package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/rpc"
)

// callers is the one part that stands for all callers.
const callers = "callers"

// network carries bytes between named parts, and applies faults. The bytes of a connection stay in
// order. They can be late, held, or lost with the connection. Single calls and replies can be lost
// too.
type network struct {
	seed  uint64
	wrong func(format string, args ...any)

	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
	links     map[string]*link
	calls     map[string]uint64
	dials     uint64
	scripts   map[string]script // by part
	lost      map[string]*lost  // by part
	// astray are calls that their callers gave up.
	astray sync.WaitGroup
}

// link connects the part that dials with the part that listens.
type link struct {
	late  time.Duration // at most
	held  chan struct{} // closed when bytes flow again; nil when they flow
	lose  float64       // probability that a call or reply is lost
	stray float64       // probability, of claims, releases and admin states
	wires map[*wire]struct{}
}

func newNetwork(seed uint64, wrong func(format string, args ...any)) *network {
	return &network{seed: seed, wrong: wrong, listeners: map[string]*bufconn.Listener{}, links: map[string]*link{}, calls: map[string]uint64{}}
}

func (n *network) link(from, to string) *link {
	name := from + ">" + to
	l := n.links[name]
	if l == nil {
		l = &link{wires: map[*wire]struct{}{}}
		n.links[name] = l
	}
	return l
}

// on changes the link between two parts.
func (n *network) on(from, to string, change func(*link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n.link(from, to))
}

// cut closes the connections of a link. All bytes in flight are lost.
func (n *network) cut(from, to string) {
	n.on(from, to, func(l *link) { l.cut() })
}

func (l *link) cut() {
	for w := range l.wires {
		w.kill()
	}
	clear(l.wires)
}

// silence closes those connections of a part for which gone returns true.
func (n *network) silence(part string, gone func(*wire) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		for w := range l.wires {
			if (w.from == part || w.to == part) && gone(w) {
				w.kill()
				delete(l.wires, w)
			}
		}
	}
}

// each changes every link of a part.
func (n *network) each(part string, change func(*link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, l := range n.links {
		if from, to := ends(name); from == part || to == part {
			change(l)
		}
	}
}

func ends(name string) (from, to string) {
	for i := range name {
		if name[i] == '>' {
			return name[:i], name[i+1:]
		}
	}
	return name, ""
}

// heal ends all faults of the network.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.late, l.lose, l.stray = 0, 0, 0
		l.release()
	}
}

func (l *link) hold() {
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

func (l *link) release() {
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// listen makes a part reachable under its name.
func (n *network) listen(part string) *bufconn.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := bufconn.Listen(64 << 10)
	n.listeners[part] = l
	return l
}

// leave makes the part unreachable again, unless another listener has replaced l.
func (n *network) leave(part string, l *bufconn.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[part] == l {
		delete(n.listeners, part)
	}
}

// dialer opens connections from one run of a part.
func (n *network) dialer(from string, incarnation *incarnation) func(target string) (*grpc.ClientConn, error) {
	return func(to string) (*grpc.ClientConn, error) {
		return rpc.Dial("passthrough:///"+to,
			grpc.WithStatsHandler(&attempts{network: n, from: from, to: to}),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return n.dial(ctx, from, to, incarnation) }),
			grpc.WithChainUnaryInterceptor(n.unary(from, to)))
	}
}

func (n *network) dial(ctx context.Context, from, to string, incarnation *incarnation) (net.Conn, error) {
	n.mu.Lock()
	at, held := n.listeners[to], n.link(from, to).held
	n.dials++
	rng := rand.New(rand.NewPCG(n.seed, hash(from, to)+n.dials))
	n.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if at == nil || incarnation.over() {
		return nil, errors.New("nobody listens at " + to)
	}
	c, err := at.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, network: n, from: from, to: to, incarnation: incarnation, gone: make(chan struct{}), rng: rng}
	n.mu.Lock()
	n.link(from, to).wires[w] = struct{}{}
	n.mu.Unlock()
	if incarnation.over() {
		w.kill()
	}
	return w, nil
}

// unary loses or delays single calls and replies. The later of two calls may arrive first.
func (n *network) unary(from, to string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, full string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if done, err := n.scripted(ctx, from, req, reply, func(ctx context.Context, req, reply any) error {
			return invoke(ctx, full, req, reply, cc, opts...)
		}); done {
			return err
		}
		if n.loses(ctx, from, full, req, reply, cc, invoke, opts) {
			return status.Error(codes.Unavailable, "the connection broke after the call was sent")
		}
		before, after, how := n.fate(from, to, path.Base(full))
		if err := wait(ctx, before); err != nil {
			return err
		}
		switch how {
		case lostCall:
			return status.Error(codes.Unavailable, "the connection broke before the call was sent")
		case strayCall:
			return n.strays(ctx, full, req, reply, cc, invoke, opts)
		}
		err := invoke(ctx, full, req, reply, cc, opts...)
		if late := wait(ctx, after); late != nil {
			return late
		}
		switch how {
		case lostReply:
			return status.Error(codes.Unavailable, "the connection broke before the reply was there")
		case noReply:
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return err
	}
}

type fate int

const (
	fine fate = iota
	lostCall
	lostReply
	noReply
	strayCall
)

// fate draws what happens to a call. The n-th call of a method on a link always has the same fate.
func (n *network) fate(from, to, method string) (before, after time.Duration, how fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(from, to)
	if l.late == 0 && l.lose == 0 && l.stray == 0 {
		return 0, 0, fine
	}
	kind := from + ">" + to + " " + method
	n.calls[kind]++
	rng := rand.New(rand.NewPCG(n.seed, hash(kind, fmt.Sprint(n.calls[kind]))))
	if l.late > 0 {
		before, after = time.Duration(rng.Int64N(int64(l.late))), time.Duration(rng.Int64N(int64(l.late)))
	}
	if rng.Float64() < l.lose {
		how = fate(1 + rng.IntN(3))
	} else if (method == "ClaimBatch" || method == "SetAdminState") && rng.Float64() < l.stray {
		how = strayCall
	}
	return before, after, how
}

// strays makes a call arrive after its caller gave it up. The caller gets an error at once, as if
// the connection had broken.
func (n *network) strays(ctx context.Context, full string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts []grpc.CallOption) error {
	late := proto.Clone(req.(proto.Message))
	answer := reply.(proto.Message).ProtoReflect().New().Interface()
	n.astray.Go(func() {
		sleep(700 * time.Millisecond)
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = invoke(free, full, late, answer, cc, opts...) // nobody gets the result
	})
	return status.Error(codes.Unavailable, "the connection broke after the call was sent")
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func hash(words ...string) uint64 {
	h := fnv.New64a()
	for _, w := range words {
		_, _ = h.Write([]byte(w)) // cannot fail
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}
