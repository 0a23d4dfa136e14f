package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"cellgate/internal/fault"
	"cellgate/internal/health"
	"cellgate/internal/keystone"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Config configures a gateway's part of Nova's message bus.
type Config struct {
	// TransportURL is Nova's transport_url of the API's message bus.
	TransportURL string
	// Exchange is Nova's control_exchange.
	Exchange string
	// Host is this gateway's name on the bus: its own queue is scheduler.HOST.
	Host   string
	Queues Queues
	// TLS gives what a connection uses if SSL is set, or if the URL has ?ssl=1; nil for the default. Without
	// RootCAs no certificate is verified.
	TLS func() (*tls.Config, error)
	SSL bool
	// VerifyHost demands that the broker's certificate names its address.
	VerifyHost bool
	// Heartbeat is the time without a frame after which a broker counts as lost.
	Heartbeat time.Duration
	// Prefetch is how many requests are handled at once.
	Prefetch int
	// Timeout bounds the retries of a request that may be repeated; ClaimTTL is the lease of
	// its claims.
	Timeout, ClaimTTL time.Duration
	// MaxAttempts is Nova's option; an answer has one alternate fewer.
	MaxAttempts int
	// Reasons is the detail in NoValidHost: none, filters or counts.
	Reasons string
	// Placement, if set, is the service to which the allocations of answers are written.
	Placement *keystone.Service
	// Notifications, when set, are sent about each select_destinations.
	Notifications *Notifications
	// RetryFrom and RetryMost bound the pause between connections; 0 means 250 ms and
	// 30 s.
	RetryFrom, RetryMost time.Duration
}

// Deps are the parts of the gateway that the bus needs.
type Deps struct {
	// Conn is a connection to the gateway's own gRPC server.
	Conn grpc.ClientConnInterface
	// As gives the context of a call on behalf of a conductor.
	As func(context.Context) context.Context
	// Cells are the cells with a message bus of their own, on which computes cast to
	// schedulers. Transport gives a cell's transport_url from cell_mappings, and "" while it is
	// not known.
	Cells     []string
	Transport func(cell string) string
	// Changed is called when Nova casts that instances, hosts or aggregates of a cell changed;
	// "" for any cell. It must not block. It may be nil.
	Changed func(cell string)
	// Telemetry may be nil.
	Telemetry telemetry.Bus
	Log       *slog.Logger
}

// Bus serves the topic. Run runs it once.
type Bus struct {
	cfg       Config
	transport *transport
	names     names
	scheduler cellgatev1.SchedulerClient
	claims    cellgatev1.ClaimsClient
	as        func(context.Context) context.Context
	// allocations is nil where nothing is written to Placement.
	allocations *allocations
	// notifier is nil where no notifications are sent.
	notifier *notifier
	cells    []string
	url      func(cell string) string
	changed  func(cell string)
	tel      telemetry.Bus
	log      *slog.Logger
	// drops logs dropped messages, at most once a minute for each kind.
	drops *throttle.Log
	// first is closed with the first connection, draining when consuming must stop.
	first, draining chan struct{}
	drainOnce       sync.Once
	answered        recent
	gone            recent
	// replyWait is how long a reply waits for a missing reply queue, settleWait how long a move
	// waits for the claim of an earlier move.
	replyWait, settleWait time.Duration
	// on is called with each event; tests set it.
	on func(event)

	mu sync.Mutex
	// broker is the connected broker, "" for none; lost is why there is none.
	broker string
	lost   error
}

// New makes a bus; it connects in Run.
func New(cfg Config, d Deps) (*Bus, error) {
	t, err := parseTransportURL(cfg.TransportURL)
	if err != nil {
		return nil, fmt.Errorf("transport_url: %w", err)
	}
	if cfg.RetryFrom == 0 {
		cfg.RetryFrom, cfg.RetryMost = 250*time.Millisecond, 30*time.Second
	}
	if cfg.TLS == nil {
		cfg.TLS = func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }
	}
	b := &Bus{
		cfg: cfg, transport: t, as: d.As, cells: d.Cells, url: d.Transport, changed: d.Changed, tel: d.Telemetry, log: d.Log,
		names:     names{exchange: cfg.Exchange, common: topic, own: topic + "." + cfg.Host, fanout: fanoutName()},
		scheduler: cellgatev1.NewSchedulerClient(d.Conn), claims: cellgatev1.NewClaimsClient(d.Conn),
		first: make(chan struct{}), draining: make(chan struct{}),
		drops: throttle.New(d.Log, time.Now, time.Minute),
		lost:  errors.New("no connection was made yet"), replyWait: replyTimeout, settleWait: settleTimeout, on: func(event) {},
	}
	if cfg.Placement != nil {
		b.allocations = &allocations{cfg.Placement}
	}
	if cfg.Notifications != nil {
		if b.notifier, err = newNotifier(b, *cfg.Notifications); err != nil {
			return nil, err
		}
	}
	if b.as == nil {
		b.as = func(ctx context.Context) context.Context { return ctx }
	}
	if b.changed == nil {
		b.changed = func(string) {}
	}
	b.tel.Watch(func() bool { broker, _ := b.state(); return broker != "" })
	return b, nil
}

// event is something that a test can wait for.
type event string

const (
	connected event = "connected"
	// replied: the broker has confirmed the reply, but does not have the acknowledgement yet.
	replied event = "replied"
	// duplicate: a message was dropped since it was answered before.
	duplicate event = "duplicate"
)

// Drain stops consuming: requests that wait in the queue are left to other gateways. Consumed
// requests are still answered.
func (b *Bus) Drain() { b.drainOnce.Do(func() { close(b.draining) }) }

// fanoutName gives a new name for a queue of casts to all schedulers.
func fanoutName() string { return topic + "_fanout_" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// Run serves the topic until ctx ends. It then finishes the requests under way, within
// drainLimit; the others go back to the queue.
func (b *Bus) Run(ctx context.Context) error {
	if b.notifier != nil {
		defer b.notifier.start(ctx)()
	}
	var cells sync.WaitGroup
	defer cells.Wait()
	for _, cell := range b.cells {
		cells.Go(func() { b.listenForCasts(ctx, cell) })
	}
	b.retry(ctx, func() (served bool, err error) {
		served, err = b.serve(ctx)
		b.setState("", err)
		select {
		case <-b.draining: // do not reconnect: unfinished requests are left to other gateways
			<-ctx.Done()
		default:
		}
		return served, err
	}, "the message bus is not connected; conductors wait, or another gateway answers them")
	return nil
}

// serve connects to one of the brokers and serves the topic there until that connection is lost. The error says why it
// was lost, or why each broker failed.
func (b *Bus) serve(ctx context.Context) (served bool, err error) {
	s, broker, err := b.connect(ctx)
	if err != nil {
		return false, err
	}
	b.setState(broker, nil)
	b.log.Info("the message bus is connected", "broker", broker, "vhost", b.transport.vhost, "queue", b.names.common)
	b.on(connected)
	return true, s.serve(ctx)
}

// retry calls serve until ctx ends, with pauses that double until a call has served. It logs a failure when its reason
// is new. A call without an error has found nothing to serve yet.
func (b *Bus) retry(ctx context.Context, serve func() (served bool, err error), message string, attrs ...any) {
	pause, logged := b.cfg.RetryFrom, ""
	for {
		served, err := serve()
		if ctx.Err() != nil {
			return
		}
		if served {
			pause, logged = b.cfg.RetryFrom, ""
		}
		wait := idlePause
		if err != nil {
			if err.Error() != logged {
				logged = err.Error()
				b.log.Warn(message, append(attrs, "err", err)...)
			}
			wait, pause = time.Duration((0.5+rand.Float64()/2)*float64(pause)), min(2*pause, b.cfg.RetryMost)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (b *Bus) setState(broker string, lost error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broker, b.lost = broker, lost
	if broker == "" {
		return
	}
	select {
	case <-b.first:
		b.tel.Reconnected()
	default:
		close(b.first)
	}
}

func (b *Bus) state() (broker string, lost error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broker, b.lost
}

// Check is the bus's part of the gateway's readiness. A gateway is not ready before its first
// connection. After a lost connection it stays ready, since it serves REST and gRPC without
// the bus, and Why says what is wrong.
func (b *Bus) Check() health.Check {
	c := health.Check{Name: "bus", OK: true}
	broker, lost := b.state()
	if broker != "" {
		return c
	}
	select {
	case <-b.first:
	default:
		c.OK = false
	}
	c.Why = fmt.Sprintf("not connected: %v", lost)
	return c
}

// faultOf gives the error with its kind; nil when it has none.
func faultOf(err error) *fault.Error {
	var e *fault.Error
	errors.As(err, &e)
	return e
}

// recent remembers the newest 1,000 texts, each with the time when it was last added.
type recent struct {
	mu sync.Mutex
	// order lists the texts by that time, the oldest first.
	order []string
	known map[string]time.Time
}

const keepRecent = 1000

func (r *recent) add(text string, now time.Time) {
	if text == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]time.Time{}
	}
	if _, ok := r.known[text]; ok {
		r.order = slices.DeleteFunc(r.order, func(known string) bool { return known == text })
	}
	r.order = append(r.order, text)
	r.known[text] = now
	if len(r.order) > keepRecent {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
}

// at gives the time when a text was last added; the zero time if the text is not known.
func (r *recent) at(text string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[text]
}
