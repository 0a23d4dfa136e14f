package agents

import (
	"sync"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// maxOutbox is how many messages may wait for one agent to read them.
const maxOutbox = 256

// outbox has what waits to be sent on a stream. It takes no memory while it is empty: a cell has a stream for each host.
type outbox struct {
	// filled has a value when messages wait.
	filled chan struct{}

	mu      sync.Mutex
	waiting []*agentv1.ReportResponse
}

func newOutbox() *outbox { return &outbox{filled: make(chan struct{}, 1)} }

// put adds a message. It never waits: false when the outbox is full.
func (o *outbox) put(m *agentv1.ReportResponse) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) >= maxOutbox {
		return false
	}
	o.waiting = append(o.waiting, m)
	select {
	case o.filled <- struct{}{}:
	default:
	}
	return true
}

// removeAll empties the outbox and gives what was in it, in the order of put.
func (o *outbox) removeAll() []*agentv1.ReportResponse {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.waiting
	o.waiting = nil
	return all
}
