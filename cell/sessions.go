package cell

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// maxOutbox is how many messages may wait for one agent to read them.
const maxOutbox = 256

// sessions are the agents' streams to this replica, by host.
type sessions struct {
	// silentFor is how long an agent that lives may send nothing; 0 for however long.
	silentFor time.Duration
	now       func() time.Time
	last      atomic.Uint64

	mu sync.Mutex
	// byHost has the streams in the order they were opened.
	byHost map[string][]*agentSession
	asked  map[string]asking
}

func newSessions(silentFor time.Duration, now func() time.Time) *sessions {
	return &sessions{silentFor: silentFor, now: now, byHost: map[string][]*agentSession{}, asked: map[string]asking{}}
}

// opens numbers a stream that opens.
func (s *sessions) opens() uint64 { return s.last.Add(1) }

// add notes that a host is heard on a stream; a host may have a second one for a
// while, when the first one's end is not known, or when two agents report it.
func (s *sessions) add(host string, a *agentSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byHost[host]
	at := len(list)
	for at > 0 && list[at-1].opened > a.opened {
		at--
	}
	s.byHost[host] = slices.Insert(slices.Clone(list), at, a)
}

func (s *sessions) remove(host string, a *agentSession) {
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

// open reports whether the host's agent has a stream to this replica.
func (s *sessions) open(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHost[host]) > 0
}

// hosts gives the hosts that have a stream, in no order.
func (s *sessions) hosts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.byHost))
	for host := range s.byHost {
		list = append(list, host)
	}
	return list
}

// tell sends a message to the host's agent, on the stream that speaks for the host. It
// never waits: false when there is no stream, or when its agent reads too slowly.
func (s *sessions) tell(host string, m *agentv1.ReportResponse) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.speakerLocked(host)
	if a == nil {
		return false
	}
	select {
	case a.out <- m:
		return true
	default:
		return false
	}
}
