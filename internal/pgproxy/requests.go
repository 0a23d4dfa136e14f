package pgproxy

import (
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// conn is a client's connection and the server's behind it. One goroutine handles its requests, and one
// its answers.
type conn struct {
	proxy  *Proxy
	n      int
	client net.Conn
	server net.Conn
	back   *pgproto3.Backend
	front  *pgproto3.Frontend
	queue  queue
	// answered is closed when no more answers can be passed on.
	answered chan struct{}

	// Only for requests.
	statements map[string]string // by name, their text
	portals    map[string]string
	number     int
	trips      int
	held       []request
}

// request is a message of the client.
type request struct {
	message []byte
	await   *awaited // nil for a message without an answer
	// sql is the statement that the message executes, if executes.
	executes bool
	simple   bool
	sql      string
}

// requests passes trips on until the client leaves.
func (c *conn) requests() {
	c.statements, c.portals = map[string]string{}, map[string]string{}
	for {
		m, err := c.back.Receive()
		if err != nil {
			return
		}
		r, ends, err := c.read(m)
		if err != nil {
			return
		}
		c.held = append(c.held, r)
		if !ends {
			continue
		}
		if !c.trip(c.held) {
			return
		}
		c.held = c.held[:0]
		if _, bye := m.(*pgproto3.Terminate); bye {
			return
		}
	}
}

// read interprets a message. ends: the client may now wait for an answer.
func (c *conn) read(m pgproto3.FrontendMessage) (r request, ends bool, err error) {
	answeredBy := func(end byte) { r.await = &awaited{end: end} }
	switch m := m.(type) {
	case *pgproto3.Parse:
		c.statements[m.Name] = m.Query
		answeredBy('1')
	case *pgproto3.Bind:
		c.portals[m.DestinationPortal] = c.statements[m.PreparedStatement]
		answeredBy('2')
	case *pgproto3.Close:
		if m.ObjectType == 'S' {
			delete(c.statements, m.Name)
		} else {
			delete(c.portals, m.Name)
		}
		answeredBy('3')
	case *pgproto3.Describe:
		answeredBy('T')
	case *pgproto3.Execute:
		r.executes, r.sql = true, c.portals[m.Portal]
		answeredBy('C')
	case *pgproto3.Query:
		r.executes, r.simple, r.sql = true, true, m.String
		answeredBy('Z')
		ends = true
	case *pgproto3.Sync, *pgproto3.FunctionCall:
		answeredBy('Z')
		ends = true
	default: // Flush, Terminate, and what belongs to COPY
		ends = true
	}
	r.message, err = m.Encode(nil)
	return r, ends, err
}

// trip sends a trip to the server, with the plan's fault. It returns false if the connection is over.
func (c *conn) trip(trip []request) bool {
	var out []byte
	failed := false
	if slices.ContainsFunc(trip, func(r request) bool { return r.executes }) {
		c.trips++
	}
	for i, r := range trip {
		if !r.executes {
			out = c.put(out, r.message, r.await)
			continue
		}
		c.number++
		s := Statement{Conn: c.n, N: c.number, Trip: c.trips, SQL: r.sql, Role: roleOf(r.sql)}
		var f Fault
		if !failed {
			f = c.proxy.fate(s)
		}
		commit := s.Role == Commit
		switch f.Kind {
		case None:
			out = c.put(out, r.message, r.await)
			continue
		case Delay:
			c.proxy.count(f.name(commit))
			if !c.send(out) || !c.wait(f.Delay) {
				return false
			}
			out = c.put(nil, r.message, r.await)
			continue
		case Late:
			c.late(out, trip[i:], f)
			return false
		case Cut:
			if !f.Done {
				c.send(out)
				c.proxy.count(f.name(commit))
				c.reset()
				return false
			}
			r.await.cuts = &fate{Fault: f, commit: commit}
			out = c.put(out, r.message, r.await)
		case Error:
			out = c.fail(out, r, &fate{Fault: f, commit: commit})
		}
		failed = true
	}
	return c.send(out)
}

// fail adds a failing statement in place of a request, or after it.
func (c *conn) fail(out []byte, r request, f *fate) []byte {
	hidden := func(end byte) *awaited { return &awaited{end: end, drop: true, before: f} }
	if r.simple {
		switch {
		case f.Done:
			r.await.drop, r.await.before = true, f
			out = c.put(out, r.message, r.await)
		case f.commit:
			out = c.put(out, encoded(&pgproto3.Query{String: "ROLLBACK"}), hidden('Z'))
		}
		return c.put(out, encoded(&pgproto3.Query{String: nonsense}), &awaited{end: 'Z', tells: f})
	}
	switch {
	case f.Done:
		// The Sync commits a statement outside a transaction.
		r.await.drop, r.await.before = true, f
		out = c.put(out, r.message, r.await)
		out = c.put(out, encoded(&pgproto3.Sync{}), hidden('Z'))
	case f.commit:
		out = c.put(out, encoded(&pgproto3.Parse{Query: "ROLLBACK"}), hidden('1'))
		out = c.put(out, encoded(&pgproto3.Bind{}), hidden('2'))
		out = c.put(out, encoded(&pgproto3.Execute{}), hidden('C'))
	}
	return c.put(out, encoded(&pgproto3.Parse{Query: nonsense}), &awaited{end: '1', tells: f})
}

// late ends the connection for the client, and sends the trip afterwards.
func (c *conn) late(out []byte, rest []request, f Fault) {
	commits := false
	for _, r := range rest {
		commits = commits || r.executes && roleOf(r.sql) == Commit
		out = c.put(out, r.message, r.await)
	}
	c.proxy.count(f.name(commits))
	c.queue.mute()
	c.reset()
	if !c.wait(f.Delay) {
		return
	}
	// The server executes the trip before it sees that the client has left. The answers are dropped,
	// and end with the connection.
	if c.send(append(out, encoded(&pgproto3.Terminate{})...)) {
		select {
		case <-c.answered:
		case <-c.proxy.closing:
		}
	}
}

// put adds a message for the server, and its answer to the queue.
func (c *conn) put(out, message []byte, answer *awaited) []byte {
	if answer != nil {
		c.queue.push(answer)
	}
	return append(out, message...)
}

func (c *conn) send(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	_, err := c.server.Write(b)
	return err == nil
}

// wait returns false if the proxy is closed.
func (c *conn) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.proxy.closing:
		return false
	}
}

// reset ends the client's connection like a broken network.
func (c *conn) reset() {
	if tcp, ok := c.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
	c.proxy.closeConn(c.client)
}

func encoded(m pgproto3.FrontendMessage) []byte {
	b, err := m.Encode(nil)
	if err != nil {
		panic(err) // messages of our own
	}
	return b
}
