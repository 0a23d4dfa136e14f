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
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// heartbeatDefault is used when the cell names no interval; heartbeatLeast keeps
// a wrong one from flooding it.
const (
	heartbeatDefault = 10 * time.Second
	heartbeatLeast   = 50 * time.Millisecond
	// busyRetry, up to twice, is when a state is offered again that the cell was
	// too busy to take.
	busyRetry = 2 * time.Second
)

// session is one life of a reporter's stream:
//
//	send state ──► waiting ──Accepted──► beating ──changed──► send state
//	                  │                                          ▲
//	                  └──Refused──► resting ──changed, or late───┘
type session struct {
	*Reporter
	stream grpc.BidiStreamingClient[agentv1.ReportRequest, agentv1.ReportResponse]
	// sent is the newest version sent on this stream.
	sent    uint64
	changed <-chan struct{}
	// beat, answer and retry are the timers of the three states; at most one runs.
	beat, answer, retry *time.Timer
	every               time.Duration

	// accepted: some state was accepted on this stream. refused: the newest one
	// was not.
	accepted, refused bool
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
			err = e // a failed Send says EOF; the reason is at the receiving end
		}
	}()

	s.beat, s.answer, s.retry = stopped(), stopped(), stopped()
	defer s.rest()
	if err := s.sendState(); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-ended:
			ended <- e
			return e
		case m := <-answers:
			s.take(m)
		case <-s.changed:
			err = s.sendState()
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

// receive hands on the cell's messages until the stream or ctx ends.
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

// sendState sends the newest state and waits for its answer from here.
func (s *session) sendState() error {
	var state *agentv1.FullState
	state, s.changed = s.host.State()
	s.rest()
	s.refused = false
	s.sent = state.GetVersion()
	s.answer.Reset(s.cfg.AnswerWithin)
	return s.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: state}})
}

func (s *session) sendHeartbeat() error {
	s.beat.Reset(s.every)
	return s.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Heartbeat{
		Heartbeat: &agentv1.Heartbeat{BootId: s.host.bootID, Version: s.sent},
	}})
}

// take acts on an answer; one about an older version is not the answer waited
// for and is left aside.
func (s *session) take(m *agentv1.ReportResponse) {
	switch {
	case m.GetAccepted() != nil && m.GetAccepted().GetVersion() == s.sent:
		s.rest()
		s.every = heartbeatDefault
		if d := m.GetAccepted().GetHeartbeatEvery().AsDuration(); d > 0 {
			s.every = max(d, heartbeatLeast)
		}
		// The first beat comes anywhere in the interval: hosts that were accepted
		// together do not beat together.
		s.beat.Reset(rand.N(s.every) + 1)
		s.accepted = true
		s.deps.Tel.Reported("")
		s.deps.Accepted()
	case m.GetRefused() != nil && m.GetRefused().GetVersion() == s.sent:
		s.rest()
		s.deps.Tel.Reported(fault.Kind(m.GetRefused().GetReason()))
		if r := fault.Kind(m.GetRefused().GetReason()); r == fault.Overloaded || r == fault.OutcomeUnknown {
			// Nothing is wrong with the state: the cell is busy.
			s.retry.Reset(busyRetry + rand.N(busyRetry))
			return
		}
		s.refused = true
		s.reportRefused(m.GetRefused())
		s.retry.Reset(s.cfg.RefusedRetry)
	}
}

// rest stops all timers.
func (s *session) rest() {
	s.beat.Stop()
	s.answer.Stop()
	s.retry.Stop()
}

// stopped makes a timer that does not run yet.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
