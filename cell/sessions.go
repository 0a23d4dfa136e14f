package cell

import (
	"sync"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// maxOutbox is how many messages may wait for one agent to read them.
const maxOutbox = 256

// sessions are the agents' streams to this replica, by host. The zero value is ready.
type sessions struct {
	mu     sync.Mutex
	byHost map[string][]*agentSession
}

// add notes that a host is heard on a stream; a host may have a second one for a
// moment, while the first one's end is not known.
func (s *sessions) add(host string, a *agentSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHost == nil {
		s.byHost = map[string][]*agentSession{}
	}
	s.byHost[host] = append(s.byHost[host], a)
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

// tell sends a message to the host's agent, on its newest stream. It never waits:
// false when there is no stream, or when its agent reads too slowly.
func (s *sessions) tell(host string, m *agentv1.ReportResponse) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byHost[host]
	if len(list) == 0 {
		return false
	}
	select {
	case list[len(list)-1].out <- m:
		return true
	default:
		return false
	}
}
