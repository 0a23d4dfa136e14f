package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"cellgate/cell/gate"
	"cellgate/cell/liveness"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// maxStates is how many agents' states are in the pipeline at once.
const maxStates = 1024

type reportStream = grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]

// agentsConfig is what cell.Config says of agents.
type agentsConfig struct {
	// Cell is the cell's name.
	Cell                            string
	HeartbeatEvery, FollowFor       time.Duration
	MaxHosts, MaxHostsMiB           int
	MaxAgentHosts, MaxAgentHostsMiB int
	// MaxStates bounds the agents' states that are in the pipeline at once.
	MaxStates  int
	VerifyMode VerifyMode
	VerifyWait time.Duration
	// MaxAsking is how far apart an agent's askings for its state come to be at most.
	MaxAsking time.Duration
	Now       func() time.Time
	Log       *slog.Logger
	Telemetry *telemetry.Cell
}

// agentService hears the agents of a cell's hosts.
type agentService struct {
	agentv1.UnimplementedHostReportsServer
	cfg     agentsConfig
	rows    *rows
	queue   *queue
	journal *journal
	live    *liveness.Tracker
	gate    *gate.Keeper
	now     func() time.Time
	log     *slog.Logger
	tel     *telemetry.Cell

	// sessions are the streams of the agents that this replica hears.
	sessions  *sessions
	verify    *verifier
	reported  reported
	refusals  refusals
	strangers strangers
	// states bounds the agents' states that are in the pipeline, decoding those that are read
	// at once: half of the processors at most, so that thousands of states that come together
	// leave room for proposals.
	states, decoding chan struct{}
	// ready is closed when states can be taken, stopping when streams are to end.
	ready, stopping <-chan struct{}
}

func newAgentService(cfg agentsConfig, s *replicaState, gate *gate.Keeper, ready, stopping <-chan struct{}) *agentService {
	streams := newSessions(3*cfg.HeartbeatEvery, cfg.Now)
	return &agentService{
		cfg: cfg, rows: s.rows, queue: s.queue, journal: s.journal, live: s.live, gate: gate, now: cfg.Now, log: cfg.Log, tel: cfg.Telemetry,
		sessions: streams, verify: newVerifier(cfg.VerifyMode, cfg.VerifyWait, s.rows, s.queue, s.journal, streams, cfg.Now, cfg.Log, cfg.Telemetry),
		states: make(chan struct{}, max(cfg.MaxStates, 1)), decoding: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		ready: ready, stopping: stopping,
	}
}

// run starts what keeps agents' claims in line with the table, until ctx ends.
func (s *agentService) run(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return s.verify.run(ctx) })
	g.Go(func() error { return s.verify.write(ctx) })
	g.Go(func() error { return s.verify.recheck(ctx) })
}

// Report hears one host until its agent leaves or the replica stops. A bad
// state is refused and the stream stays open for a better one; a message that
// the schema does not know ends it, and so does a state of another cell's host.
func (s *agentService) Report(stream reportStream) error {
	ctx := stream.Context()
	defer s.tel.Stream()()
	select {
	case <-s.ready:
	case <-s.stopping:
		return errStopping()
	case <-ctx.Done():
		return ctx.Err()
	}
	requests := make(chan *agentv1.ReportRequest)
	ended := make(chan error, 1)
	// Ends with the stream, which ends when this handler returns.
	go func() { ended <- receive(stream, requests) }()
	a := &agentSession{agentService: s, opened: s.sessions.opens(), out: make(chan *agentv1.ReportResponse, maxOutbox), took: make(chan taken, 1)}
	ctx, cancel := context.WithCancel(ctx)
	defer a.leave(cancel)
	defer a.stopLooking()
	for {
		var reply *agentv1.ReportResponse
		var err error
		select {
		case reply = <-a.out:
		case <-s.stopping:
			return errStopping()
		case err := <-ended:
			return err
		case m := <-requests:
			reply, err = a.hear(ctx, m)
		case t := <-a.took:
			reply, err = a.settle(ctx, t)
		case <-a.looks:
			reply = a.lookAgain(ctx)
		}
		if err != nil {
			return err
		}
		if reply == nil {
			continue
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
}

// receive hands on the agent's messages until the stream ends; nil when the
// agent ended it.
func receive(stream reportStream, to chan<- *agentv1.ReportRequest) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case to <- m:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// agentSession is what one stream has said so far. All but opened, epoch, said, heard, back
// and out belong to the goroutine of Report.
type agentSession struct {
	*agentService
	// opened orders the streams of this replica.
	opened uint64
	// host is the uuid of the first state that was accepted; the stream is for
	// this host only.
	host string
	// held is the newest state that was accepted: what the next Delta changes.
	held *agentv1.FullState
	// refusal is of the newest state when it was refused; nil when one was accepted since.
	refusal *refusal
	// unheld is the newest state when it was refused and nothing of its life was held that its host could
	// stay by; looks says when to look again, and stops that.
	unheld   *unheld
	looks    <-chan time.Time
	stopLook func()
	// taking: a state is being taken, by a goroutine of its own, which puts what
	// came of it into took. next is the newest state that came meanwhile.
	taking bool
	took   chan taken
	next   *agentv1.ReportRequest
	// epoch is of the newest Resync that began the stream's host anew.
	epoch atomic.Uint64
	// said is what the newest accepted state is; heard when the agent last sent anything.
	// nil before the first.
	said  atomic.Pointer[statement]
	heard atomic.Pointer[time.Time]
	lost  losing
	// asked is the life over whose row the agent was asked for its next state, by the Resync
	// of the newest epoch or one before; "" for none.
	asked string
	// back is the row's version that the agent was found behind; 0 for none (regain).
	back atomic.Uint64
	// out has what is to be told the agent besides its answers (sessions.tell).
	out chan *agentv1.ReportResponse
}

// taken is what came of a state: the answer and, when it was accepted, the host's
// uuid and the state; refusal says which state was not, unheld that its host cannot stay yet. outlived: it was not written
// (sessions.outlived). over is the life whose row it would replace: the agent is to be asked
// over that one. An error ends the stream.
type taken struct {
	reply    *agentv1.ReportResponse
	host     string
	state    *agentv1.FullState
	outlived bool
	refusal  *refusal
	unheld   *unheld
	over     string
	err      error
}

// hear takes a message, and answers what needs no waiting; nil for no answer yet. An
// error ends the stream.
func (a *agentSession) hear(ctx context.Context, m *agentv1.ReportRequest) (*agentv1.ReportResponse, error) {
	now := a.now()
	a.heard.Store(&now)
	switch {
	case m.GetFullState() != nil, m.GetDelta() != nil:
		if a.taking {
			a.next = m
			return nil, nil
		}
		a.begin(ctx, m)
		return nil, nil
	case m.GetHeartbeat() != nil && rpc.IsUUID(m.GetHeartbeat().GetBootId()):
		// It breaks no rule.
	default:
		if err := rpc.Validate(m); err != nil {
			return nil, err
		}
		if v := m.GetVerdict(); v != nil {
			a.verify.take(a, v)
			return nil, nil
		}
	}
	return a.takeHeartbeat(ctx, m.GetHeartbeat()), nil
}

// begin takes a state. One is taken at a time, and the stream goes on meanwhile.
func (a *agentSession) begin(ctx context.Context, m *agentv1.ReportRequest) {
	a.taking = true
	t := stateTaking{agentService: a.agentService, opened: a.opened, host: a.host, held: a.held, epoch: a.epoch.Load(), asked: a.asked, refusing: a.refusal}
	go func() { a.took <- t.take(ctx, m) }()
}

// writeHeld takes the state that is held once more, now that its agent speaks for the host. The agent
// hears of it when it is refused.
func (a *agentSession) writeHeld(ctx context.Context) {
	a.taking = true
	t := stateTaking{agentService: a.agentService, opened: a.opened, host: a.host, held: a.held, epoch: a.held.GetEpoch(), asked: a.asked}
	m := &agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: a.held}}
	go func() {
		out := t.take(ctx, m)
		if out.state != nil {
			out.reply = nil
		}
		a.took <- out
	}()
}

// settle notes what came of a state, and begins with the one that came meanwhile.
func (a *agentSession) settle(ctx context.Context, t taken) (*agentv1.ReportResponse, error) {
	a.taking = false
	if t.err != nil {
		return nil, t.err
	}
	if t.refusal != nil {
		a.refuses(t.refusal)
	}
	a.looksFor(t.unheld)
	if t.over != "" {
		t.reply = a.askOver(t.over)
	}
	if t.state != nil {
		a.held, a.asked = t.state, ""
		a.endRefusal()
		a.said.Store(statementOf(t.state))
		if !t.outlived {
			a.reported.heard(a, t.host, t.state, a.now())
		}
		if a.host == "" {
			a.host = t.host
			a.sessions.add(t.host, a)
		}
		a.live.NoteHeard(t.host)
		if t.state.GetVerifies() && a.sessions.speaks(a.host, a) {
			a.verify.begin(a, t.state)
		}
	}
	if m := a.next; m != nil {
		a.next = nil
		a.begin(ctx, m)
	}
	return t.reply, nil
}

// leave ends what the stream stands for, and waits for the state that is being taken.
func (a *agentSession) leave(cancel context.CancelFunc) {
	cancel()
	if a.taking {
		<-a.took
	}
	a.endRefusal()
	if a.host != "" {
		a.sessions.remove(a.host, a)
		a.verify.end(a)
	}
}

// takeHeartbeat hears the host. An agent whose state is not held is asked for it, unless
// one is on its way, whose answer says what is held: nothing is wrong with the state, and a
// refusal that crossed it would have the agent rest for minutes. So is one whose state
// another agent life overwrote (regain).
//
// A state that Nova's tables kept out of the shard is put there once the gate is NATIVE.
func (a *agentSession) takeHeartbeat(ctx context.Context, b *agentv1.Heartbeat) *agentv1.ReportResponse {
	stands := a.standsBy(b)
	if a.host == "" {
		return a.refused(b.GetBootId(), b.GetVersion(), fault.Invalid("heartbeat", "a full state must come first"))
	}
	if row := a.rows.registered(a.host); row == nil || row.Imported {
		if a.refusal == nil && !a.taking && a.rows.gateRow().Native() && a.sessions.speaks(a.host, a) {
			a.writeHeld(ctx)
		}
	}
	switch {
	case a.refusal != nil && !stands:
		return nil // the answer to its state says what to name, if anything
	case stands:
		a.live.NoteHeard(a.host)
		return a.regain()
	}
	a.live.NoteHeard(a.host)
	if !sameUUID(b.GetBootId(), a.held.GetBootId()) || b.GetVersion() != a.held.GetVersion() {
		if a.taking {
			return nil
		}
		return resync(a.epoch.Load(), fmt.Sprintf("version %d of boot_id %s is held, and a heartbeat is of another", a.held.GetVersion(), a.held.GetBootId()), 0)
	}
	return a.regain()
}

// sameUUID compares uuids whatever their letters' case.
func sameUUID(a, b string) bool {
	x, err := schedule.ParseID(a)
	if err != nil {
		return false
	}
	y, err := schedule.ParseID(b)
	return err == nil && x == y
}
