package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	"cellgate/internal/hoststate"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// heartbeatDefault is used if the cell names no interval; heartbeatLeast keeps a wrong interval from
// flooding the cell.
const (
	heartbeatDefault = 10 * time.Second
	heartbeatLeast   = 50 * time.Millisecond
	// beatGrid is the spacing, on the host's clock, of the moments at which heartbeats are sent: a cell
	// that receives those of many hosts at once wakes up less often.
	beatGrid = 250 * time.Millisecond
	// busyRetry, or up to twice as long, is the wait before a state is offered again that the cell was
	// too busy to accept.
	busyRetry = 2 * time.Second
	// longestPause bounds the pause that a cell may ask for.
	longestPause = time.Hour
)

// session is one stream of a reporter. One state is on its way at a time, and
// the newest follows it:
//
//	send state ──► waiting ──Accepted──► beating ──changed──► send delta or state
//	                  │ │                   │                    ▲
//	                  │ └──Resync──┬──Resync┘                    │
//	                  │            └──► pausing ──changed, or within──► send state
//	                  └──Refused──► resting ──changed, or late───┘
//
// While it rests, it sends heartbeats if the refusal names a version that the replica holds.
type session struct {
	*Reporter
	stream grpc.BidiStreamingClient[agentv1.ReportRequest, agentv1.ReportResponse]
	// sent is the newest version sent on this stream; waiting: it has no answer yet.
	sent    uint64
	waiting bool
	changed <-chan struct{}
	// verdictQueued is closed when an operation on the host queues a verdict.
	verdictQueued <-chan struct{}
	// held is the version that heartbeats name while the newest state is refused; 0 for the newest
	// version.
	held uint64
	// sending is the state of version sent. base is the newest accepted state, to which the replica
	// applies Deltas; nil if the whole state must be sent.
	sending, base *agentv1.FullState
	// instancesUnknown: the newest accepted state had unknown instances.
	instancesUnknown bool
	// epoch is the epoch of the newest Resync. pausing: the answer to a Resync waits until retry fires.
	// renews is the version to renew then, 0 for none; the new one must exceed above.
	epoch   uint64
	pausing bool
	renews  uint64
	above   uint64
	// beat, answer and retry are timers; while waiting only answer runs.
	beat, answer, retry *time.Timer
	every               time.Duration

	// asked: a Resync arrived since a state was last accepted.
	asked bool

	// accepted: some state was accepted on this stream.
	accepted bool
}

// run reports over one stream until it breaks or ctx ends.
func (s *session) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	s.stream, err = s.deps.Client.Report(ctx)
	if err != nil {
		cancel()
		return err
	}
	answers := make(chan *agentv1.ReportResponse)
	ended := make(chan error, 1)
	go func() { ended <- receive(ctx, s.stream, answers) }()
	defer func() {
		cancel()
		if e := <-ended; errors.Is(err, io.EOF) {
			err = e // after EOF from Send, the reason is in the received error
		}
	}()

	s.host.streamOpened(s.deps.Replica)
	defer s.host.streamClosed(s.deps.Replica)
	s.beat, s.answer, s.retry = stopped(), stopped(), stopped()
	defer s.rest()
	if err := s.sendState(); err != nil {
		return err
	}
	for {
		changed := s.changed
		if s.waiting {
			changed = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-ended:
			ended <- e
			return e
		case m := <-answers:
			err = s.handleMessage(m)
		case <-changed:
			err = s.sendState()
		case <-s.verdictQueued:
			err = s.sendPendingVerdicts()
		case <-s.retry.C:
			err = s.sendState()
		case <-s.beat.C:
			err = s.sendHeartbeat()
		case <-s.answer.C:
			err = errNoAnswer
		}
		if err != nil {
			return err
		}
	}
}

// receive passes on the cell's messages until the stream or ctx ends.
func receive(ctx context.Context, stream grpc.BidiStreamingClient[agentv1.ReportRequest, agentv1.ReportResponse], to chan<- *agentv1.ReportResponse) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("report stream: %w", err)
		}
		select {
		case to <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sendState sends the newest state, as a Delta if possible, and starts to wait for the answer.
func (s *session) sendState() error {
	follow := !s.host.writes(s.deps.Replica)
	if s.renews > 0 && !follow {
		s.host.renew(s.renews, s.above)
	}
	s.sending, s.changed = s.host.State()
	s.rest()
	s.pausing, s.renews, s.waiting = false, 0, true
	s.sent = s.sending.GetVersion()
	s.answer.Reset(answerWithin)
	if s.base != nil {
		if d := DeltaOf(s.base, s.sending); d != nil {
			d.Epoch, d.Follow = s.epoch, follow
			return s.sendWithVerdicts(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Delta{Delta: d}})
		}
	}
	return s.sendWithVerdicts(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s.marked(follow)}})
}

// sendWithVerdicts sends a state, and then rejections of accepted claims that no longer fit.
func (s *session) sendWithVerdicts(state *agentv1.ReportRequest) error {
	if err := s.stream.Send(state); err != nil {
		return err
	}
	return s.sendPendingVerdicts()
}

// sendPendingVerdicts sends the queued verdicts, which answer no offer.
func (s *session) sendPendingVerdicts() error {
	verdicts, queued := s.host.claims.pendingVerdicts(s.Reporter)
	s.verdictQueued = queued
	return s.sendVerdicts(verdicts)
}

func (s *session) sendVerdicts(verdicts []*agentv1.Verdict) error {
	for _, v := range verdicts {
		if err := s.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Verdict{Verdict: v}}); err != nil {
			return err
		}
	}
	return nil
}

// marked is the state to send, with this stream's epoch and follow. It is a copy if they are set,
// because other streams share the host's state.
func (s *session) marked(follow bool) *agentv1.FullState {
	if s.epoch == 0 && !follow {
		return s.sending
	}
	out := hoststate.ShallowCopy(s.sending)
	out.Epoch, out.Follow = s.epoch, follow
	return out
}

func (s *session) sendHeartbeat() error {
	s.beat.Reset(onGrid(time.Now(), s.every))
	version := s.sent
	if s.held > 0 {
		version = s.held
	}
	// Encoded before the call of gRPC, a heartbeat needs less than 4 KiB of stack.
	var m grpc.PreparedMsg
	if err := m.Encode(s.stream, &agentv1.ReportRequest{Message: &agentv1.ReportRequest_Heartbeat{
		Heartbeat: &agentv1.Heartbeat{BootId: s.host.bootID, Version: version},
	}}); err != nil {
		return err
	}
	return s.stream.SendMsg(&m)
}

// handleMessage handles a message of the cell.
func (s *session) handleMessage(m *agentv1.ReportResponse) error {
	switch {
	case m.GetClaimOffer() != nil:
		if v := s.host.claims.offered(s.Reporter, m.GetClaimOffer()); v != nil {
			return s.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Verdict{Verdict: v}})
		}
	case m.GetClaimEnded() != nil:
		s.host.claims.ended(m.GetClaimEnded().GetClaimId(), m.GetClaimEnded().GetState())
	case m.GetClaimSet() != nil:
		s.host.claims.set(s.Reporter, m.GetClaimSet())
	default:
		return s.handleResponse(m)
	}
	return nil
}

// handleResponse handles an answer. It ignores an answer about an older version.
func (s *session) handleResponse(m *agentv1.ReportResponse) error {
	switch {
	case m.GetAccepted() != nil && m.GetAccepted().GetVersion() == s.sent:
		return s.handleAccepted(m.GetAccepted())
	case m.GetRefused() != nil && m.GetRefused().GetVersion() == s.sent:
		return s.handleRefused(m.GetRefused())
	case m.GetResync() != nil:
		s.handleResync(m.GetResync())
	}
	return nil
}

func (s *session) handleAccepted(m *agentv1.Accepted) error {
	if !s.waiting {
		return nil // the answer to a state that a Resync overtook
	}
	s.rest()
	s.waiting = false
	s.base = s.sending
	s.held = 0
	s.beatsEvery(m.GetHeartbeatEvery().AsDuration())
	// The first heartbeat comes at a random time in the interval, so that hosts accepted together do
	// not beat together.
	s.beat.Reset(onGrid(time.Now(), rand.N(s.every)+1))
	s.accepted, s.asked = true, false
	s.host.streamAccepted(s.deps.Replica)
	s.host.clearRefusal(s.deps.Replica)
	s.deps.Tel.Reported("")
	waited := time.Duration(0)
	if s.proven < s.sent {
		waited = time.Since(s.host.putAt(s.proven + 1))
		s.proven = s.sent
	}
	s.deps.Accepted(waited)
	known := s.instancesUnknown && !s.sending.GetInstancesUnknown()
	s.instancesUnknown = s.sending.GetInstancesUnknown()
	if known {
		// The cell ignores aborts of confirmed claims while the host knows no instances.
		return s.sendVerdicts(s.host.claims.aborts(s.Reporter))
	}
	return nil
}

// onGrid returns the time from now to the moment on the beatGrid nearest to now+d; d itself if below
// four grids.
func onGrid(now time.Time, d time.Duration) time.Duration {
	if d < 4*beatGrid {
		return d
	}
	return now.Add(d).Round(beatGrid).Sub(now)
}

// beatsEvery sets the heartbeat interval that the cell asks for; 0 means the default.
func (s *session) beatsEvery(d time.Duration) {
	s.every = heartbeatDefault
	if d > 0 {
		s.every = max(d, heartbeatLeast)
	}
}

func (s *session) handleRefused(m *agentv1.Refused) error {
	if s.pausing {
		return nil
	}
	s.rest()
	delta := s.waiting && s.base != nil
	s.waiting = false
	s.deps.Tel.Reported(fault.Kind(m.GetReason()))
	switch fault.Kind(m.GetReason()) {
	case fault.Overloaded, fault.OutcomeUnknown:
		// Nothing is wrong with the state: the cell is busy.
		s.retry.Reset(busyRetry + rand.N(busyRetry))
		return nil
	}
	s.base = nil
	if delta {
		// The fault may be in the delta or in the cell's base state, so the whole state decides.
		return s.sendState()
	}
	s.host.refused(s.deps.Replica, m)
	s.reportRefused(m)
	s.retry.Reset(refusedRetry)
	if s.held = m.GetHeldVersion(); s.held == 0 {
		return nil
	}
	// One heartbeat at once, so that a host whose state keeps changing sends heartbeats, too; then as
	// after an Accepted.
	s.beatsEvery(m.GetHeartbeatEvery().AsDuration())
	err := s.sendHeartbeat()
	s.beat.Reset(onGrid(time.Now(), rand.N(s.every)+1))
	return err
}

// handleResync schedules the whole state after a random part of the time that the cell gives. A change of
// the state sends it earlier, and heartbeats go on meanwhile.
func (s *session) handleResync(m *agentv1.Resync) {
	if s.pausing && m.GetEpoch() <= s.epoch {
		return
	}
	s.epoch = max(s.epoch, m.GetEpoch())
	if m.GetRenew() {
		s.renews, s.above = s.host.version(), m.GetAbove()
	}
	within := min(max(m.GetWithin().AsDuration(), 0), longestPause)
	if s.waiting {
		if s.asked && s.base == nil {
			within = max(within, busyRetry) // the whole state did not satisfy the cell: no busy loop
		}
		if s.every > 0 {
			s.beat.Reset(onGrid(time.Now(), rand.N(s.every)+1))
		}
	}
	s.base, s.waiting, s.pausing, s.asked = nil, false, true, true
	s.answer.Stop()
	s.retry.Reset(rand.N(within + 1))
}

// rest stops all timers.
func (s *session) rest() {
	s.beat.Stop()
	s.answer.Stop()
	s.retry.Stop()
}

// stopped makes a timer that is not running.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
