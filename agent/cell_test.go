package agent

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// heartbeatEvery is the interval that fakeCell gives its agents.
const heartbeatEvery = 10 * time.Second

// fakeCell is the other end of the stream. It records messages and answers as configured. Its
// listener can be stopped and started again.
type fakeCell struct {
	agentv1.UnimplementedHostReportsServer
	// refuse returns the problems of a state, or nil to accept it. mute: nothing is answered.
	refuse func(*agentv1.FullState) []string
	mute   bool
	// end is the error that every stream ends with at its first message, or nil.
	end error
	// held is the version that refusals name as held.
	held uint64
	// reason is the reason of refusals. "" means a bad state.
	reason string
	// answer, unless nil, returns the answer to a delta.
	answer func(*agentv1.Delta) *agentv1.ReportResponse

	mu       sync.Mutex
	listener *bufconn.Listener
	server   *rpc.Server
	states   []*agentv1.FullState
	deltas   []*agentv1.Delta
	beats    []time.Time
	named    []uint64
	verdicts []*agentv1.Verdict
	streams  int
	last     grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]
}

func (c *fakeCell) Report(s grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]) error {
	c.mu.Lock()
	c.streams++
	c.last = s
	c.mu.Unlock()
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		if c.end != nil {
			return c.end
		}
		if err := s.Send(c.hear(m)); err != nil {
			return err
		}
	}
}

// hear records a message and returns its answer. The answer to a heartbeat is empty, as from a
// newer cell.
func (c *fakeCell) hear(m *agentv1.ReportRequest) *agentv1.ReportResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := m.GetDelta(); d != nil {
		c.deltas = append(c.deltas, d)
		if c.answer != nil {
			if a := c.answer(d); a != nil {
				return a
			}
		}
		return c.accepted(d.GetBootId(), d.GetVersion())
	}
	if v := m.GetVerdict(); v != nil {
		c.verdicts = append(c.verdicts, v)
		return &agentv1.ReportResponse{}
	}
	state := m.GetFullState()
	if state == nil {
		c.beats, c.named = append(c.beats, time.Now()), append(c.named, m.GetHeartbeat().GetVersion())
		return &agentv1.ReportResponse{}
	}
	c.states = append(c.states, state)
	if c.mute {
		return &agentv1.ReportResponse{}
	}
	if c.refuse != nil {
		if p := c.refuse(state); p != nil {
			return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Refused{Refused: &agentv1.Refused{
				BootId: state.GetBootId(), Version: state.GetVersion(), Reason: cmp.Or(c.reason, "INVALID_REQUEST"), Problems: p,
				HeldVersion: c.held, HeartbeatEvery: durationpb.New(heartbeatEvery),
			}}}
		}
	}
	return c.accepted(state.GetBootId(), state.GetVersion())
}

func (c *fakeCell) accepted(boot string, version uint64) *agentv1.ReportResponse {
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Accepted{Accepted: &agentv1.Accepted{
		BootId: boot, Version: version, HeartbeatEvery: durationpb.New(heartbeatEvery),
	}}}
}

// receivedDeltas returns a copy of the deltas received so far.
func (c *fakeCell) receivedDeltas() []*agentv1.Delta {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*agentv1.Delta(nil), c.deltas...)
}

// sendToAgent sends a message on the newest stream.
func (c *fakeCell) sendToAgent(m *agentv1.ReportResponse) {
	c.mu.Lock()
	s := c.last
	c.mu.Unlock()
	_ = s.Send(m)
}

// start serves on a new listener. stop breaks every stream.
func (c *fakeCell) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener = bufconn.Listen(1 << 16)
	c.server = rpc.NewServer(slog.New(slog.DiscardHandler))
	agentv1.RegisterHostReportsServer(c.server, c)
	go func(s *rpc.Server, l net.Listener) { _ = s.Serve(l) }(c.server, c.listener)
}

func (c *fakeCell) stop() {
	c.mu.Lock()
	s := c.server
	c.mu.Unlock()
	s.Stop()
}

func (c *fakeCell) dial(string) (*grpc.ClientConn, error) {
	return rpc.Dial("passthrough:///cell",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c.mu.Lock()
			l := c.listener
			c.mu.Unlock()
			return l.DialContext(ctx)
		}))
}

// received returns copies of the messages received so far.
func (c *fakeCell) received() (states []*agentv1.FullState, beats []time.Time, streams int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(states, c.states...), append(beats, c.beats...), c.streams
}

// reporting runs a reporter of host 0 against c until the test ends.
func reporting(t *testing.T, c *fakeCell, deps ReporterDeps) *Host {
	t.Helper()
	host := NewHost(Simulate(1, "cell1", 0))
	reportingTo(t, c, host, deps)
	return host
}

// reportingTo runs a reporter of a host against c until the test ends.
func reportingTo(t *testing.T, c *fakeCell, host *Host, deps ReporterDeps) {
	t.Helper()
	conn, err := c.dial("")
	if err != nil {
		t.Fatal(err)
	}
	deps.Client = agentv1.NewHostReportsClient(conn)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- NewReporter(deps, host).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		c.stop()
	})
}
