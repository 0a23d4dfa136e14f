package ingress

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"cellgate/internal/fault"
)

// Limits are the limits of one process; 0 means the default.
type Limits struct {
	// Bytes and CallerBytes bound the bytes of requests above Window that are being received or
	// processed, in total and of one caller: the owner of a client certificate, or else the address.
	Bytes, CallerBytes int64
	// Connections and AddressConnections bound the open connections, in total and from one address.
	Connections, AddressConnections int
	// CallerCalls bounds the concurrent calls of one agent's credential: a stream costs 32 KiB.
	CallerCalls int
	// OnRefused, if set, is called for each refusal. It must not block.
	OnRefused func(Bound)
}

const (
	// strangerBytes bounds what all connections without an admitted call hold together.
	strangerBytes = 16 << 20
	// heavyCost bounds the sum of the costs of large requests that are being decoded and answered.
	heavyCost = 32 << 20
	// Light is the cost of a request that is decoded without waiting for others.
	Light = 256 << 10
	// ElementCost is what each element of a request (a JSON value, a protobuf message) adds to its
	// bytes to make its cost. Decoded, a request takes up to ten times its cost.
	ElementCost = 32
	// Window is how much of a message a stream may hold without being charged: gRPC has no smaller
	// HTTP/2 window.
	Window = 64 << 10
	// MaxMessage is the longest message that gRPC begins to read. It is above the longest accepted
	// message, so that a slightly longer one gets an answer that names the limit.
	MaxMessage = 5 << 20
	// heavyWait is how long a large request waits for others.
	heavyWait = 5 * time.Second
	// retryAfter is how long an answer asks a refused caller to wait.
	retryAfter = time.Second
)

func (l Limits) withDefaults() Limits {
	l.Bytes, l.CallerBytes = cmp.Or(l.Bytes, 128<<20), cmp.Or(l.CallerBytes, 64<<20)
	l.Connections = cmp.Or(l.Connections, 16384)
	l.AddressConnections = cmp.Or(l.AddressConnections, min(l.Connections, max(64, l.Connections/16)))
	l.CallerCalls = cmp.Or(l.CallerCalls, 4096)
	if l.OnRefused == nil {
		l.OnRefused = func(Bound) {}
	}
	return l
}

// Ingress counts what callers make one process hold. Safe for concurrent use.
type Ingress struct {
	limits Limits
	heavy  *semaphore.Weighted

	mu sync.Mutex
	// callers has the bytes charged to each caller that has any; "" stands for all strangers.
	callers map[string]int64
	total   int64
	// connections and open count the connections, and the calls that need no credential, by address;
	// calls counts the calls of agents by credential.
	connections, open, calls tally
}

// Bound names a limit.
type Bound string

// The limits.
const (
	BoundBytes       Bound = "bytes"
	BoundCallerBytes Bound = "caller_bytes"
	BoundHeavy       Bound = "large_requests"
	BoundConnections Bound = "connections"
	BoundAddress     Bound = "address_connections"
	BoundOpen        Bound = "open_calls"
	BoundCallerCalls Bound = "caller_calls"
)

// New makes an Ingress that holds nothing.
func New(l Limits) *Ingress {
	l = l.withDefaults()
	return &Ingress{
		limits: l, heavy: semaphore.NewWeighted(heavyCost),
		callers:     map[string]int64{},
		connections: newTally(l.Connections, BoundConnections, l.AddressConnections, BoundAddress),
		open:        newTally(openCalls, BoundOpen, openAddressCalls, BoundOpen),
		calls:       newTally(math.MaxInt, BoundCallerCalls, l.CallerCalls, BoundCallerCalls),
	}
}

// stranger stands for all connections without an admitted call.
const stranger = ""

// charge charges n bytes to a caller; it returns false if a limit forbids that.
func (in *Ingress) charge(caller string, n int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	most := in.limits.CallerBytes
	if caller == stranger {
		most = min(most, strangerBytes)
	}
	switch {
	case in.callers[caller]+n > most:
		in.limits.OnRefused(BoundCallerBytes)
		return false
	case in.total+n > in.limits.Bytes:
		in.limits.OnRefused(BoundBytes)
		return false
	}
	in.callers[caller] += n
	in.total += n
	return true
}

func (in *Ingress) release(caller string, n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.total -= n
	if in.callers[caller] -= n; in.callers[caller] == 0 {
		delete(in.callers, caller)
	}
}

// Body charges n bytes of a request's body to a caller, until release is called. The error
// is OVERLOADED.
func (in *Ingress) Body(caller string, n int64) (release func(), err error) {
	if !in.charge(caller, n) {
		return nil, overloaded("too many bytes of requests are being received or worked on")
	}
	return func() { in.release(caller, n) }, nil
}

// Heavy waits until a request of a cost may be decoded. It then counts until the caller calls release.
// Requests up to Light do not wait. The error is OVERLOADED, or ctx's.
func (in *Ingress) Heavy(ctx context.Context, cost int64) (release func(), err error) {
	if cost <= Light {
		return func() {}, nil
	}
	cost = min(cost, heavyCost)
	within, cancel := context.WithTimeout(ctx, heavyWait)
	defer cancel()
	if in.heavy.Acquire(within, cost) != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		in.limits.OnRefused(BoundHeavy)
		return nil, overloaded("too many large requests are being worked on")
	}
	return func() { in.heavy.Release(cost) }, nil
}

func overloaded(what string) error {
	return &fault.Error{Kind: fault.Overloaded, Message: what, RetryAfter: retryAfter}
}

// Held is the number of bytes that are charged.
func (in *Ingress) Held() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.total
}
