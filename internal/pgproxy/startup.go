package pgproxy

import (
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// dialLimit bounds the time to connect to the server.
const dialLimit = 5 * time.Second

// serve serves a client's connection until it ends.
func (p *Proxy) serve(client net.Conn, n int) {
	defer p.closeConn(client)
	wire := &hushed{Conn: client, silent: p.silence(), closing: p.closing}
	c := &conn{
		proxy: p, n: n, client: client, back: pgproto3.NewBackend(wire, wire),
		answered: make(chan struct{}),
	}
	first := c.greet()
	if first == nil || !c.welcome() {
		return
	}
	server, err := net.DialTimeout("tcp", p.server, dialLimit)
	if err != nil || !p.track(server) {
		return
	}
	defer p.closeConn(server)
	c.server, c.front = server, pgproto3.NewFrontend(server, server)
	c.front.Send(first)
	if c.front.Flush() != nil {
		return
	}
	if _, cancel := first.(*pgproto3.CancelRequest); cancel || !c.authenticate() {
		return
	}
	go func() {
		defer close(c.answered)
		defer p.closeConn(client)
		c.answers()
	}()
	c.requests()
	// Answers on their way to the client still arrive.
	p.closeConn(server)
	<-c.answered
}

// greet reads the client's first message, and refuses encryption; nil if the client left.
func (c *conn) greet() pgproto3.FrontendMessage {
	for {
		m, err := c.back.ReceiveStartupMessage()
		if err != nil {
			return nil
		}
		switch m.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := c.client.Write([]byte{'N'}); err != nil {
				return nil
			}
		default:
			return m
		}
	}
}

// welcome asks the plan whether the client may connect.
func (c *conn) welcome() bool {
	f := c.proxy.fate(Statement{Conn: c.n, Role: Connect})
	if f.Kind == None {
		return true
	}
	c.proxy.count(f.connectName())
	switch f.Kind {
	case Delay:
		return c.wait(f.Delay)
	case Error:
		c.back.Send(&pgproto3.ErrorResponse{
			Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: f.Code, Message: message,
		})
		_ = c.back.Flush() // it is refused in either case
	default:
		c.reset()
	}
	return false
}

// authenticate passes messages between server and client until the server is ready for statements.
func (c *conn) authenticate() bool {
	for {
		m, err := c.front.Receive()
		if err != nil {
			return false
		}
		if _, ready := m.(*pgproto3.ReadyForQuery); ready {
			for name, value := range c.proxy.reported() {
				c.back.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
			}
		}
		c.back.Send(m)
		if c.back.Flush() != nil {
			return false
		}
		switch m.(type) {
		case *pgproto3.ReadyForQuery:
			return true
		case *pgproto3.ErrorResponse:
			return false
		case *pgproto3.AuthenticationCleartextPassword, *pgproto3.AuthenticationMD5Password,
			*pgproto3.AuthenticationSASL, *pgproto3.AuthenticationSASLContinue:
			if c.back.SetAuthType(c.front.GetAuthType()) != nil {
				return false
			}
			reply, err := c.back.Receive()
			if err != nil {
				return false
			}
			c.front.Send(reply)
			if c.front.Flush() != nil {
				return false
			}
		}
	}
}
