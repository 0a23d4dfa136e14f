package agents

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// Streams are the agents' streams to this replica, by host.
type Streams struct {
	// silentFor is how long a stream's agent may send nothing and still be up; 0 for no limit.
	silentFor time.Duration
	now       func() time.Time
	last      atomic.Uint64

	mu sync.Mutex
	// byHost has the streams in the order they were opened.
	byHost map[string][]*stream
	asked  map[string]asking
}

func newStreams(silentFor time.Duration, now func() time.Time) *Streams {
	return &Streams{silentFor: silentFor, now: now, byHost: map[string][]*stream{}, asked: map[string]asking{}}
}

// nextNumber numbers a stream that opens.
func (s *Streams) nextNumber() uint64 { return s.last.Add(1) }

// add registers a stream of a host. A host may have a second stream for a while: the end of the first
// is not known yet, or two agents report the host.
func (s *Streams) add(host string, a *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byHost[host]
	at := len(list)
	for at > 0 && list[at-1].opened > a.opened {
		at--
	}
	s.byHost[host] = slices.Insert(slices.Clone(list), at, a)
}

func (s *Streams) remove(host string, a *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byHost[host]
	for i, other := range list {
		if other == a {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(s.byHost, host)
		delete(s.asked, host)
		return
	}
	s.byHost[host] = list
}

// HasStream reports whether the host's agent has a stream to this replica.
func (s *Streams) HasStream(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHost[host]) > 0
}

// Hosts gives the hosts that have a stream, in no order.
func (s *Streams) Hosts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.byHost))
	for host := range s.byHost {
		list = append(list, host)
	}
	return list
}

// Send queues a message to the host's agent on its active stream. It never blocks: it returns false if
// there is no stream, or if the agent reads too slowly.
func (s *Streams) Send(host string, m *agentv1.ReportResponse) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.activeLocked(host)
	return a != nil && a.post(m)
}

// StartOver begins a new epoch on the streams of a host, whose row is row; it returns false if there is
// no stream. An agent whose outbox is full is asked when it next sends something.
func (s *Streams) StartOver(host, why string, within time.Duration, row *shard.Host) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byHost[host] {
		a.post(a.renewal(why, within, row))
	}
	return len(s.byHost[host]) > 0
}

// resync asks for a whole state.
func resync(epoch uint64, why string, within time.Duration) *agentv1.ReportResponse {
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Resync{Resync: &agentv1.Resync{
		Reason: why, Epoch: epoch, Within: durationpb.New(within),
	}}}
}
