package simulation

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// believes turns on or off that deltas of the host are lost on their way to every replica, though
// its agent gets an acceptance for each. The agent then holds a state that no replica has.
func (h *host) believes(on bool) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if h.world.lost == nil {
		h.world.lost = map[string]bool{}
	}
	h.world.lost[h.uuid] = on
}

// loses reports whether deltas of a host are lost now.
func (w *world) loses(uuid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost[uuid]
}

// reports is the interceptor of a replica's streams that loses the deltas.
func (w *world) reports(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, &reportStream{ServerStream: s, world: w})
}

type reportStream struct {
	grpc.ServerStream
	world *world
	// host is the uuid in the last full state.
	host string
	mu   sync.Mutex
	carried
	// late are the verdicts that will arrive a second time. next is the message that was read
	// before one of them.
	late []lateWord
	next *agentv1.ReportRequest
}

func (s *reportStream) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, is := m.(*agentv1.ReportResponse); is {
		s.carried.answered(s.world, s.host, r)
	}
	return s.ServerStream.SendMsg(m)
}

func (s *reportStream) recordReport(r *agentv1.ReportRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full := r.GetFullState(); full != nil {
		s.host = full.GetHostUuid()
	}
	s.carried.recordReport(s.world, r)
}

// sends sends a response that does not come from the replica.
func (s *reportStream) sends(m *agentv1.ReportResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ServerStream.SendMsg(m)
}

func (s *reportStream) RecvMsg(m any) error {
	for {
		r, is := m.(*agentv1.ReportRequest)
		if is && s.next != nil {
			proto.Merge(r, s.next)
			s.next = nil
			return nil
		}
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		if !is {
			return nil
		}
		s.recordReport(r)
		if v := r.GetVerdict(); v != nil {
			if err := s.garbled(v); err != nil {
				return err
			}
		}
		if v := s.comesAgain(); v != nil {
			s.next = proto.CloneOf(r)
			r.Reset()
			r.Message = &agentv1.ReportRequest_Verdict{Verdict: v}
			return nil
		}
		d := r.GetDelta()
		if d == nil || !s.world.loses(s.host) {
			return nil
		}
		s.world.count("lost deltas")
		if err := s.sends(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_Accepted{Accepted: &agentv1.Accepted{
			BootId: d.GetBootId(), Version: d.GetVersion(), HeartbeatEvery: durationpb.New(beatEvery),
		}}}); err != nil {
			return err
		}
		r.Reset()
	}
}
