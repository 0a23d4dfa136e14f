package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"cellgate/cell/gate"
	"cellgate/cell/liveness"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// MaxStates is how many agents' states are in the pipeline at once.
const MaxStates = 1024

type reportStream = grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]

// Config is the part of cell.Config that concerns agents.
type Config struct {
	// Cell is the cell's name.
	Cell                            string
	HeartbeatEvery                  time.Duration
	MaxHosts, MaxHostsMiB           int
	MaxAgentHosts, MaxAgentHostsMiB int
	// MaxStates bounds the agents' states that are in the pipeline at once.
	MaxStates  int
	VerifyMode VerifyMode
	VerifyWait time.Duration
	// MaxAsking is the longest interval between two requests to an agent for a lost state.
	MaxAsking time.Duration
	Now       func() time.Time
	Log       *slog.Logger
	Telemetry telemetry.Cell
}

// Service serves the agents of a cell's hosts.
type Service struct {
	agentv1.UnimplementedHostReportsServer
	cfg     Config
	rows    *replica.Rows
	queue   *replica.Queue
	journal *replica.Journal
	live    *liveness.Tracker
	gate    *gate.Keeper
	now     func() time.Time
	log     *slog.Logger
	tel     telemetry.Cell

	// Streams are the agents' streams to this replica.
	Streams  *Streams
	Verify   *verifier
	Reports  reports
	refusals refusals
	// wrongCell logs states that agents of other cells sent.
	wrongCell *throttle.Log
	// refusedStates logs at most one line a second: one credential may bring thousands of hosts too
	// many.
	refusedStates *throttle.Log
	// states bounds the agents' states that are in the pipeline. Decoding bounds the states that are
	// decoded at once, by half of the processors, so that thousands of states at once leave room for
	// proposals.
	states, Decoding chan struct{}
	// ready is closed when states can be accepted; stopping is done when streams must end.
	ready    <-chan struct{}
	stopping context.Context
}

// New makes a service over a replica's state. It accepts no state before ready is closed, and its
// streams end when stopping is done.
func New(stopping context.Context, cfg Config, s *replica.State, gate *gate.Keeper, ready <-chan struct{}) *Service {
	streams := newStreams(3*cfg.HeartbeatEvery, cfg.Now)
	return &Service{
		cfg: cfg, rows: s.Rows, queue: s.Queue, journal: s.Journal, live: s.Live, gate: gate, now: cfg.Now, log: cfg.Log, tel: cfg.Telemetry,
		Streams: streams, Verify: newVerifier(cfg.VerifyMode, cfg.VerifyWait, s.Rows, s.Queue, s.Journal, streams, cfg.Now, cfg.Log, cfg.Telemetry),
		states: make(chan struct{}, max(cfg.MaxStates, 1)), Decoding: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		ready: ready, stopping: stopping, wrongCell: throttle.New(cfg.Log, cfg.Now, time.Minute),
		refusedStates: throttle.New(cfg.Log, cfg.Now, time.Second),
	}
}

// Run starts what keeps agents' claims in line with the table, until ctx ends.
func (s *Service) Run(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error {
		return replica.Repeat(ctx, VerifyTick, s.log, "", func(context.Context) error {
			for _, host := range s.Verify.dueHosts() {
				s.Verify.sweep(host)
			}
			return nil
		})
	})
	g.Go(func() error { return s.Verify.write(ctx) })
	g.Go(func() error { return s.Verify.recheck(ctx) })
}

// Report serves one host's stream until its agent leaves or the replica stops. A bad state is refused,
// and the stream stays open for a better one. A message that breaks the schema, or a state of another
// cell's host, ends the stream.
//
// Report only waits, and receive does the work: a cell has a stream for each host, and a goroutine with
// a shallow call stack keeps to 4 KiB.
func (s *Service) Report(on reportStream) error {
	defer s.tel.Stream()()
	if err := s.awaitReady(on.Context()); err != nil {
		return err
	}
	a := &stream{Service: s, on: on, opened: s.Streams.nextNumber(), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(on.Context())
	defer a.close(cancel)
	defer context.AfterFunc(s.stopping, func() { a.finish(replica.ErrStopping()) })()
	// receive ends with the gRPC stream, which ends when this handler returns.
	go a.receive(ctx)
	return <-a.ended
}

func (s *Service) awaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.stopping.Done():
		return replica.ErrStopping()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stream is the state of one agent's stream.
type stream struct {
	*Service
	on reportStream
	// opened orders the streams of this replica.
	opened uint64
	// ended has what Report returns.
	ended chan error
	// epoch is the epoch of the newest Resync.
	epoch atomic.Uint64
	// lastReport summarizes the newest accepted state, and lastSeen is when the agent last sent
	// anything. Both are nil before the first.
	lastReport atomic.Pointer[reportSummary]
	lastSeen   atomic.Pointer[time.Time]
	// out queues the messages to the agent that are not answers (Streams.Send).
	out outbox
	// work counts the goroutines that register a state or send from out.
	work sync.WaitGroup

	// mu guards the fields below, and is held while a message is sent.
	mu sync.Mutex
	// closed: nothing is handled or sent any more.
	closed bool
	// host is the uuid of the first state that was accepted; the stream is for
	// this host only.
	host string
	// held is the newest accepted state, to which the next Delta applies.
	held *agentv1.FullState
	// refusal is the refusal of the newest state; nil if a state was accepted since.
	refusal *refusal
	// registering: a goroutine is registering a state. next is the newest state that arrived meanwhile.
	registering bool
	next        *agentv1.ReportRequest
	// lostSince is since when another incarnation's row stands for the host; zero if none does.
	lostSince time.Time
	// askedOver is the incarnation whose row the agent's next state may replace: the agent was asked
	// for it by the Resync of the newest epoch or an earlier one. "" for none.
	askedOver string
}

// result is the outcome of a state: the answer, and for an accepted state the host's uuid and the
// state. A refused state has refusal. superseded: the state was not written (Streams.superseded). over
// is the incarnation whose row the state would replace: the agent must be asked because of that row. An
// error ends the stream.
type result struct {
	reply      *agentv1.ReportResponse
	host       string
	state      *agentv1.FullState
	superseded bool
	refusal    *refusal
	over       string
	err        error
}

// finish makes Report return err. Only the first call counts.
func (a *stream) finish(err error) {
	select {
	case a.ended <- err:
	default:
	}
}

// receive handles the agent's messages until the stream ends.
func (a *stream) receive(ctx context.Context) {
	for {
		m := &agentv1.ReportRequest{}
		if err := a.on.RecvMsg(m); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			a.finish(err)
			return
		}
		a.answer(func() (*agentv1.ReportResponse, error) { return a.handle(ctx, m) })
	}
}

// answer sends what handle answers, nil for nothing. An error, or a panic, ends the stream.
func (a *stream) answer(handle func() (*agentv1.ReportResponse, error)) {
	a.mu.Lock()
	defer func() {
		a.mu.Unlock()
		if p := recover(); p != nil {
			a.finish(panicked(p))
		}
	}()
	if a.closed {
		return
	}
	reply, err := handle()
	if err == nil && reply != nil {
		err = a.on.Send(reply)
	}
	if err != nil {
		a.finish(err)
	}
}

// panicked is the error of a stream whose message made a handler panic.
func panicked(p any) error {
	return fault.Wrap(fault.Internal, fmt.Errorf("%v\n%s", p, debug.Stack()), "panic")
}

// post queues a message besides the answers. It never blocks: it returns false if too many messages
// wait for the agent to read them.
func (a *stream) post(m *agentv1.ReportResponse) bool {
	return a.out.put(m, func() { a.work.Go(a.sendWaiting) })
}

// sendWaiting sends what is in the outbox.
func (a *stream) sendWaiting() {
	for all := a.out.removeAll(); len(all) > 0; all = a.out.removeAll() {
		for _, m := range all {
			a.answer(func() (*agentv1.ReportResponse, error) { return m, nil })
		}
	}
}

// handle processes a message and returns the answer if it needs no waiting; nil for no answer yet. An
// error ends the stream.
func (a *stream) handle(ctx context.Context, m *agentv1.ReportRequest) (*agentv1.ReportResponse, error) {
	now := a.now()
	a.lastSeen.Store(&now)
	switch {
	case m.GetFullState() != nil, m.GetDelta() != nil:
		if a.registering {
			a.next = m
			return nil, nil
		}
		a.beginRegistration(ctx, m)
		return nil, nil
	case !isPlainMessage(m):
		if err := rpc.Validate(m); err != nil {
			return nil, err
		}
	}
	if v := m.GetVerdict(); v != nil {
		a.Verify.handleVerdict(a, v)
		return nil, nil
	}
	return a.handleHeartbeat(ctx, m.GetHeartbeat()), nil
}

// beginRegistration starts to register a state. One state is registered at a time; the stream goes on
// meanwhile.
func (a *stream) beginRegistration(ctx context.Context, m *agentv1.ReportRequest) {
	a.registering = true
	t := registration{Service: a.Service, opened: a.opened, host: a.host, held: a.held, epoch: a.epoch.Load(), askedOver: a.askedOver, refusing: a.refusal}
	a.work.Go(func() { a.noteResult(ctx, t.register(ctx, m)) })
}

// writeHeld registers the held state once more, now that agents' reports count. The agent gets an
// answer only if the state is refused.
func (a *stream) writeHeld(ctx context.Context) {
	a.registering = true
	t := registration{Service: a.Service, opened: a.opened, host: a.host, held: a.held, epoch: a.held.GetEpoch(), askedOver: a.askedOver}
	m := &agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: a.held}}
	a.work.Go(func() {
		out := t.register(ctx, m)
		if out.state != nil {
			out.reply = nil
		}
		a.noteResult(ctx, out)
	})
}

func (a *stream) noteResult(ctx context.Context, t result) {
	a.answer(func() (*agentv1.ReportResponse, error) { return a.handleResult(ctx, t) })
}

// handleResult records the outcome of a state, and begins with the state that arrived meanwhile.
func (a *stream) handleResult(ctx context.Context, t result) (*agentv1.ReportResponse, error) {
	a.registering = false
	if t.err != nil {
		return nil, t.err
	}
	if t.refusal != nil {
		a.setRefusal(t.refusal)
	}
	if t.over != "" {
		t.reply = a.askOver(t.over)
	}
	if t.state != nil {
		a.held, a.askedOver = t.state, ""
		a.endRefusal()
		a.lastReport.Store(summaryOf(t.state))
		if !t.superseded {
			a.Reports.noteAccepted(a, t.host, t.state, a.now())
		}
		if a.host == "" {
			a.host = t.host
			a.Streams.add(t.host, a)
		}
		a.live.NoteSeen(t.host)
		if t.state.GetVerifies() && a.Streams.isActive(a.host, a) {
			a.Verify.addStream(a, t.state)
		}
	}
	if m := a.next; m != nil {
		a.next = nil
		a.beginRegistration(ctx, m)
	}
	return t.reply, nil
}

// close unregisters the stream and waits for the state that is being registered.
func (a *stream) close(cancel context.CancelFunc) {
	cancel()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.out.close()
	a.work.Wait()
	a.endRefusal()
	if a.host != "" {
		a.Streams.remove(a.host, a)
		a.Verify.dropStream(a)
		if !a.hasRow(a.host) {
			// While Nova's tables report the hosts, an agent may name any number of hosts that no row counts.
			a.Reports.forget(a.host, a)
		}
	}
}

// handleHeartbeat records that the host is up. If the heartbeat does not name the held state, the agent
// is asked for its state. It is not asked while a state is being registered: a refusal that crossed the
// request would make the agent pause for minutes. An agent whose state another incarnation overwrote is
// asked, too (askForLostState).
//
// A state that the gate kept out of the shard is written once the gate is NATIVE.
func (a *stream) handleHeartbeat(ctx context.Context, b *agentv1.Heartbeat) *agentv1.ReportResponse {
	isAccepted := a.acceptsHeartbeat(b)
	if a.host == "" {
		return a.refused(b.GetBootId(), b.GetVersion(), fault.Invalid("heartbeat", "a full state must come first"))
	}
	if row := a.rows.HostInService(a.host); row == nil || row.Imported {
		if a.refusal == nil && !a.registering && a.rows.GateRow().Native() && a.Streams.isActive(a.host, a) {
			a.writeHeld(ctx)
		}
	}
	switch {
	case a.refusal != nil && !isAccepted:
		return nil // the refusal already named the version to send, if any
	case isAccepted:
		a.live.NoteSeen(a.host)
		return a.askForLostState()
	}
	a.live.NoteSeen(a.host)
	if !strings.EqualFold(b.GetBootId(), a.held.GetBootId()) || b.GetVersion() != a.held.GetVersion() {
		if a.registering {
			return nil
		}
		return resync(a.epoch.Load(), fmt.Sprintf("version %d of boot_id %s is held, and a heartbeat is of another", a.held.GetVersion(), a.held.GetBootId()), 0)
	}
	return a.askForLostState()
}
