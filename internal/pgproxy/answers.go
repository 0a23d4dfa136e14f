package pgproxy

import (
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// nonsense is a statement that no server can parse.
	nonsense = "cellgate fault of the test"
	message  = "a fault of the test"
)

// fate is a fault that is being carried out.
type fate struct {
	Fault
	commit bool
	// failed: an earlier statement failed on its own, and the client got that error.
	failed bool
}

// awaited is an answer that the server owes.
type awaited struct {
	// end is the type of the message that completes the answer: ParseComplete, BindComplete,
	// CloseComplete, 'T' for a description, 'C' for the end of an Execute, or ReadyForQuery.
	end byte
	// drop: the answer is not passed to the client.
	drop bool
	// before: the fault follows after this answer.
	before *fate
	// tells: an error in this answer is the fault.
	tells *fate
	// cuts: the connection is cut after this answer.
	cuts *fate
}

// queue has the answers that the server owes, in order.
type queue struct {
	mu     sync.Mutex
	list   []*awaited
	silent bool
}

func (q *queue) push(a *awaited) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, a)
}

// head is the current answer; a message that nothing waits for gets an empty one.
func (q *queue) head() *awaited {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return &awaited{}
	}
	return q.list[0]
}

func (q *queue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) > 0 {
		q.list[0] = nil
		q.list = q.list[1:]
	}
}

// ready returns the answer that ReadyForQuery completes: after an error the server skips the answers
// before it.
func (q *queue) ready() *awaited {
	for {
		a := q.head()
		q.pop()
		if a.end == 'Z' || a.end == 0 {
			return a
		}
		if a.before != nil {
			a.before.failed = true
		}
	}
}

// mute stops passing answers on.
func (q *queue) mute() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.silent = true
}

func (q *queue) muted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.silent
}

// answers passes the server's answers on until one side has closed.
func (c *conn) answers() {
	var cut *fate
	for {
		m, err := c.front.Receive()
		if err != nil {
			return
		}
		if c.queue.muted() {
			continue // the client is gone
		}
		over := false
		switch m := m.(type) {
		case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus, *pgproto3.NotificationResponse:
			c.back.Send(m)
		case *pgproto3.ErrorResponse:
			cut = nil
			over = c.wrong(m)
		case *pgproto3.ReadyForQuery:
			a := c.queue.ready()
			if a.cuts != nil {
				cut = a.cuts
			}
			if cut != nil {
				c.proxy.count(cut.name(cut.commit))
				c.reset()
				return
			}
			if !a.drop && (a.tells == nil || !a.tells.failed) {
				c.back.Send(m)
			}
		default:
			a := c.queue.head()
			if !a.drop && a.tells == nil {
				c.back.Send(m)
			}
			if a.end != 'Z' && completes(m, a.end) {
				if a.cuts != nil {
					cut = a.cuts // outside a transaction a statement is committed when the server is ready again
				}
				c.queue.pop()
			}
		}
		if !over && c.front.ReadBufferLen() > 0 {
			continue
		}
		if err := c.back.Flush(); over || err != nil && !c.queue.muted() {
			return
		}
	}
}

// wrong passes an error on, or the fault in whose place the server made it. over: the connection ends
// with it.
func (c *conn) wrong(m *pgproto3.ErrorResponse) (over bool) {
	a := c.queue.head()
	switch {
	case a.tells != nil && a.tells.failed:
		return false
	case a.tells != nil:
		f := a.tells
		c.proxy.count(f.name(f.commit))
		severity := "ERROR"
		if f.fatal() {
			severity = "FATAL"
		}
		c.back.Send(&pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: f.Code, Message: message})
		return f.fatal()
	case a.before != nil:
		// The statement failed on its own, so the client gets that error.
		a.before.failed, a.drop = true, false
	}
	a.cuts = nil
	c.back.Send(m)
	return strings.HasPrefix(m.SeverityUnlocalized, "FATAL")
}

// completes reports whether a message is the last one of an answer.
func completes(m pgproto3.BackendMessage, end byte) bool {
	switch m.(type) {
	case *pgproto3.ParseComplete:
		return end == '1'
	case *pgproto3.BindComplete:
		return end == '2'
	case *pgproto3.CloseComplete:
		return end == '3'
	case *pgproto3.RowDescription, *pgproto3.NoData:
		return end == 'T'
	case *pgproto3.CommandComplete, *pgproto3.EmptyQueryResponse, *pgproto3.PortalSuspended:
		return end == 'C'
	}
	return false
}
