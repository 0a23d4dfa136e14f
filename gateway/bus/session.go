package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"cellgate/internal/fault"
)

const (
	// connectTimeout bounds the connection to one broker, with TLS and login.
	connectTimeout = 10 * time.Second
	// drainLimit bounds the requests under way when the bus stops. It is below the time that
	// a process has to stop.
	drainLimit = 20 * time.Second
	// replyTimeout is how long a reply waits for a missing reply queue: its conductor may be
	// reconnecting.
	replyTimeout = 60 * time.Second
	replyPause   = 250 * time.Millisecond
	// closeTimeout bounds the closing of a connection.
	closeTimeout = 5 * time.Second
)

// session is one connection to a broker.
type session struct {
	b    *Bus
	conn *amqp.Connection
	in   *amqp.Channel
	out  *publisher
	tags []string
	// deliveries of the topic's two queues and of the fanout queue.
	deliveries []<-chan amqp.Delivery
}

// connect logs in to one of the brokers, declares exchanges and queues, and starts consuming.
func (b *Bus) connect(ctx context.Context) (s *session, broker string, err error) {
	broker, err = b.loginAny(ctx, b.transport, func(conn *amqp.Connection) error {
		s = &session{b: b, conn: conn}
		return s.open()
	})
	return s, broker, err
}

// loginAny logs in to one of a transport's brokers, in random order, and gives its address. The error says why each of
// them failed.
func (b *Bus) loginAny(ctx context.Context, t *transport, open func(*amqp.Connection) error) (address string, err error) {
	var errs []error
	for _, i := range rand.Perm(len(t.brokers)) {
		at := t.brokers[i]
		err := b.login(ctx, t, at, open)
		if err == nil {
			return at.address, nil
		}
		if errs = append(errs, fmt.Errorf("%s: %w", at.address, err)); ctx.Err() != nil {
			break
		}
	}
	return "", errors.Join(errs...)
}

// login logs in to a broker and calls open with the connection, all within connectTimeout. After
// an error the connection is closed.
func (b *Bus) login(ctx context.Context, t *transport, at broker, open func(*amqp.Connection) error) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // unblocks reads and writes
	var link net.Conn = conn
	if ssl := t.ssl; ssl != nil && *ssl || ssl == nil && b.cfg.SSL {
		link, err = b.encrypt(ctx, conn, at.host())
		if err != nil {
			_ = conn.Close()
			return fmt.Errorf("TLS: %w", err)
		}
	}
	made, err := amqp.Open(link, amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: at.user, Password: at.password}}, Vhost: t.vhost,
		Heartbeat: b.cfg.Heartbeat, Locale: "en_US",
		Properties: amqp.Table{"product": "cellgate", "connection_name": "cellgate-gateway:" + b.cfg.Host},
	})
	if err != nil {
		_ = conn.Close()
		return err
	}
	if err := open(made); err != nil {
		_ = made.Close()
		return err
	}
	return nil
}

// encrypt makes the TLS handshake with a broker. Without VerifyHost, the chain is verified but not the
// name, which is Nova's default.
func (b *Bus) encrypt(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	c, err := b.cfg.TLS()
	if err != nil {
		return nil, err
	}
	c.ServerName = host
	if !b.cfg.VerifyHost {
		c.InsecureSkipVerify, c.VerifyConnection = true, verifyChain(c.RootCAs)
	}
	secure := tls.Client(conn, c)
	return secure, secure.HandshakeContext(ctx)
}

func (s *session) open() (err error) {
	if s.in, err = s.conn.Channel(); err != nil {
		return err
	}
	if err := declare(s.in, s.b.names, s.b.cfg.Queues); err != nil {
		return err
	}
	if s.out, err = newPublisher(s.conn); err != nil {
		return err
	}
	// Qos applies to each consumer.
	if err := s.in.Qos(s.b.cfg.Prefetch, 0, false); err != nil {
		return err
	}
	for i, queue := range []string{s.b.names.common, s.b.names.own, s.b.names.fanout} {
		tag := fmt.Sprint(i + 1)
		d, err := s.in.Consume(queue, tag, false, false, false, false, nil)
		if err != nil {
			return err
		}
		s.tags, s.deliveries = append(s.tags, tag), append(s.deliveries, d)
	}
	return nil
}

// serve answers requests until the connection is lost, which is the error, or until ctx has
// ended and the requests under way are answered.
func (s *session) serve(ctx context.Context) error {
	lost := s.conn.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := s.in.NotifyCancel(make(chan string, len(s.tags)))
	closed := s.in.NotifyClose(make(chan *amqp.Error, 1))
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var all sync.WaitGroup
	for _, d := range s.deliveries {
		all.Go(func() { s.consume(work, d) })
	}
	var err error
	drain := s.b.draining
	for done := false; !done; {
		select {
		case <-drain:
			drain = nil
			s.stopConsuming()
		case e := <-lost:
			err, done = closeError(e), true
		case e := <-closed:
			err, done = closeError(e), true
		case tag, ok := <-cancelled:
			if !ok { // the channel was closed too, and gives the reason
				cancelled = nil
				continue
			}
			err, done = fmt.Errorf("the broker ended consumer %s: its queue is gone", tag), true
		case <-ctx.Done():
			done = true
		}
	}
	if ctx.Err() != nil && err == nil {
		if drain != nil {
			s.stopConsuming()
		}
		limit := time.AfterFunc(drainLimit, stop)
		all.Wait()
		limit.Stop()
		// This gateway's queue of casts is no longer needed; it would only expire later.
		_, _ = s.in.QueueDelete(s.b.names.fanout, false, false, false)
	}
	stop()
	cerr := s.conn.CloseDeadline(time.Now().Add(closeTimeout)) // gives what is not acknowledged back to the queue
	all.Wait()
	<-s.out.ended
	if err == nil && cerr != nil && !errors.Is(cerr, amqp.ErrClosed) {
		err = cerr
	}
	return err
}

// stopConsuming leaves waiting messages in the queues, for other gateways.
func (s *session) stopConsuming() {
	for _, tag := range s.tags {
		_ = s.in.Cancel(tag, false) // fails with a connection that is lost, which ends the session
	}
}

func closeError(e *amqp.Error) error {
	if e == nil {
		return amqp.ErrClosed
	}
	return e
}

// consume handles the deliveries of a queue; the broker's prefetch bounds how many at once.
// It returns when the last one is done.
func (s *session) consume(ctx context.Context, deliveries <-chan amqp.Delivery) {
	var all sync.WaitGroup
	defer all.Wait()
	for d := range deliveries {
		all.Go(func() { s.handle(ctx, d) })
	}
}

// handle answers a message and acknowledges it. A message that is not answered since ctx
// ended goes back to the queue when the connection is closed.
func (s *session) handle(ctx context.Context, d amqp.Delivery) {
	b, began := s.b, time.Now()
	if d.Redelivered {
		b.tel.Redelivered()
	}
	r, err := decodeRequest(d.Body)
	if err != nil {
		b.tel.Dropped("malformed")
		b.drops.Warn(ctx, "malformed", 1, "dropped a message that is not in the form of oslo.messaging", "queue", d.RoutingKey, "bytes", len(d.Body), "why", err)
		_ = d.Reject(false) // a lost connection delivers it again
		return
	}
	if r.UniqueID != "" && !b.answered.at(r.UniqueID).IsZero() {
		b.tel.Dropped("duplicate")
		_ = d.Ack(false)
		b.on(duplicate)
		return
	}
	result, failed, err := s.call(ctx, r)
	if err != nil {
		return // goes back to the queue
	}
	outcome := "ok"
	if failed != nil {
		outcome = failed.Class
	}
	if r.awaitsReply() {
		if err := s.answer(ctx, r, result, failed); err != nil {
			return // the connection is lost
		}
	} else if failed != nil {
		b.drops.Warn(ctx, "cast", 1, "a cast of the message bus was not understood", "method", r.Method, "version", r.Version, "why", failed.Message)
	}
	b.answered.add(r.UniqueID, began)
	b.on(replied)
	_ = d.Ack(false) // a lost connection delivers it again
	b.tel.Answered(r.Method, outcome, time.Since(began))
}

// call handles a request, and sends a heartbeat every half of its timeout.
func (s *session) call(ctx context.Context, r *request) (any, *failure, error) {
	if r.Timeout > 0 && r.awaitsReply() {
		done := make(chan struct{})
		var beat sync.WaitGroup
		beat.Go(func() { s.beat(ctx, r, done) })
		defer beat.Wait()
		defer close(done)
	}
	return s.b.dispatch(ctx, r)
}

// beat sends heartbeats until done is closed, ctx ends, or a heartbeat fails: then the caller
// gives up by itself.
func (s *session) beat(ctx context.Context, r *request, done <-chan struct{}) {
	tick := time.NewTicker(r.Timeout / 2)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		body, err := signOfLife(r)
		if err != nil || s.out.publish(ctx, "", r.ReplyQueue, body) != nil {
			return
		}
	}
}

// answer sends a reply. It returns once the broker has the reply, or its queue stayed missing
// for replyWait, so that the caller is gone. An error means that the connection was lost and
// is closed, or that ctx ended.
func (s *session) answer(ctx context.Context, r *request, result any, failed *failure) error {
	b := s.b
	body, err := encodeReply(r, result, failed)
	if err != nil {
		b.log.Error("a reply cannot be written", "method", r.Method, "err", err)
		if body, err = encodeReply(r, nil, newFailure(moduleCellgate, string(fault.Internal), "the answer cannot be written")); err != nil {
			return err
		}
	}
	until := time.Now().Add(b.replyWait)
	if time.Since(b.gone.at(r.ReplyQueue)) < b.replyWait {
		until = time.Now()
	}
	for {
		err := s.out.publish(ctx, "", r.ReplyQueue, body)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errUnroutable):
			_ = s.conn.CloseDeadline(time.Now().Add(closeTimeout)) // what is under way goes back to the queue
			return err
		case !time.Now().Before(until):
			b.gone.add(r.ReplyQueue, time.Now())
			b.tel.Dropped("no_caller")
			b.log.Warn("dropped a reply: its queue is not there, so the conductor is gone", "queue", r.ReplyQueue, "request", r.APIRequest)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(replyPause):
		}
	}
}
