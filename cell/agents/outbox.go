package agents

import (
	"sync"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// maxOutbox is how many messages may wait for one agent to read them.
const maxOutbox = 256

// outbox has what waits to be sent on a stream. It takes no memory while it is empty: a cell has a
// stream for each host. The zero value is ready.
type outbox struct {
	mu      sync.Mutex
	waiting []*agentv1.ReportResponse
	// sending: somebody sends what waits.
	sending, closed bool
}

// put adds a message, and starts what sends it unless it runs. It never waits: false when the outbox
// is full or closed.
func (o *outbox) put(m *agentv1.ReportResponse, start func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.waiting) >= maxOutbox {
		return false
	}
	o.waiting = append(o.waiting, m)
	if !o.sending {
		o.sending = true
		start()
	}
	return true
}

// removeAll empties the outbox and gives what was in it, in the order of put. Who gets nothing stops
// sending.
func (o *outbox) removeAll() []*agentv1.ReportResponse {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.waiting
	o.waiting, o.sending = nil, len(all) > 0
	return all
}

// close has nothing started any more.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.waiting = true, nil
}
