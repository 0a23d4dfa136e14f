package agents

import (
	"sync"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// maxOutbox is how many messages may wait for one agent to read them.
const maxOutbox = 256

// outbox queues messages that wait to be sent on a stream. While empty it takes no memory, since a cell
// has a stream for each host. The zero value is ready.
type outbox struct {
	mu      sync.Mutex
	waiting []*agentv1.ReportResponse
	// sending: a goroutine is sending the waiting messages.
	sending, closed bool
}

// put adds a message, and calls start if nothing is sending. It never blocks: it returns false if the
// outbox is full or closed.
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

// removeAll empties the outbox and returns its messages in the order of put. A sender that gets none
// stops.
func (o *outbox) removeAll() []*agentv1.ReportResponse {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.waiting
	o.waiting, o.sending = nil, len(all) > 0
	return all
}

// close discards the waiting messages and refuses new ones.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.waiting = true, nil
}
