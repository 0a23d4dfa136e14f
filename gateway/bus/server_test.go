package bus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"cellgate/internal/rabbittest"
	"cellgate/internal/testwait"
	"cellgate/internal/throttle"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// await gives the next value of a channel.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatalf("%s: the channel is closed", what)
		}
		return v
	case <-time.After(testwait.Limit):
		t.Fatalf("%s: nothing for %v", what, testwait.Limit)
	}
	panic("not reached")
}

// running is a bus that runs; its topic is the test's own.
type running struct {
	*Bus
	stop func()
	log  *lines
}

// run runs a bus against a broker until the test ends. All buses of a test have one topic.
func run(t *testing.T, g *gateway, url string, change func(*Bus)) *running {
	t.Helper()
	b := newBus(t, g, func(c *Config) { c.TransportURL = url })
	name := fmt.Sprintf("%s_%p", t.Name(), t) // another one when the test runs again
	b.names.common, b.names.own = "scheduler_"+name, "scheduler_"+name+".test"
	log := &lines{}
	b.log = slog.New(slog.NewTextHandler(log, nil))
	b.drops = throttle.New(b.log, time.Now, time.Minute)
	if change != nil {
		change(b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	r := &running{Bus: b, log: log, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(r.stop)
	return r
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// conductor calls as Nova's does.
type conductor struct {
	t       *testing.T
	ch      *amqp.Channel
	queue   string
	replies <-chan amqp.Delivery
}

func newConductor(t *testing.T, s *rabbittest.Server) *conductor {
	t.Helper()
	ch, err := s.Open(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	replies, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &conductor{t: t, ch: ch, queue: q.Name, replies: replies}
}

// send publishes a recorded message to the topic; replies come to this conductor.
func (c *conductor) send(b *Bus, m recorded, fields map[string]any) {
	c.t.Helper()
	all := map[string]any{"_reply_q": c.queue}
	for name, v := range fields {
		all[name] = v
	}
	c.publish(b.names.exchange, b.names.common, m.with(c.t, all).body(c.t))
}

func (c *conductor) publish(exchange, key string, body []byte) {
	c.t.Helper()
	err := c.ch.PublishWithContext(c.t.Context(), exchange, key, false, false, amqp.Publishing{ContentType: "application/json", ContentEncoding: "utf-8", DeliveryMode: 2, Body: body})
	if err != nil {
		c.t.Fatal(err)
	}
}

// reply gives the next reply.
func (c *conductor) reply() (r struct {
	Result  json.RawMessage
	Failure *string
	Ending  bool
	ID      string `json:"_msg_id"`
},
) {
	c.t.Helper()
	d := await(c.t, "a reply", c.replies)
	if d.ContentType != "application/json" || d.ContentEncoding != "utf-8" || d.DeliveryMode != 2 || d.Exchange != "" {
		c.t.Errorf("a reply with %s, %s, mode %d, exchange %q", d.ContentType, d.ContentEncoding, d.DeliveryMode, d.Exchange)
	}
	var e envelope
	if err := json.Unmarshal(d.Body, &e); err != nil || *e.Version != "2.0" {
		c.t.Fatalf("%s: %v", d.Body, err)
	}
	if err := json.Unmarshal([]byte(*e.Message), &r); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// waiting gives how many messages are in the topic's queue, once nobody consumes it.
func (c *conductor) waiting(b *Bus) int {
	c.t.Helper()
	q, err := c.ch.QueueDeclare(b.names.common, false, false, false, false, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return q.Messages
}

// proxy is on the way to a broker, so that tests can cut connections.
type proxy struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
	shut  bool
	all   sync.WaitGroup
}

func newProxy(t *testing.T, to string, secure *tls.Config) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	p := &proxy{Listener: l, to: to}
	p.all.Go(func() {
		for {
			in, err := p.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.join(in) })
		}
	})
	t.Cleanup(func() { _ = p.Close(); p.cut(true); p.all.Wait() })
	return p
}

func (p *proxy) join(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	p.mu.Lock()
	shut := p.shut
	p.conns = append(p.conns, in, out)
	p.mu.Unlock()
	if shut {
		return
	}
	p.all.Go(func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	})
	_, _ = io.Copy(in, out)
}

// cut ends the present connections; with forGood it ends future ones, too.
func (p *proxy) cut(forGood bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = p.shut || forGood
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) url() string { return "rabbit://guest:guest@" + p.Addr().String() + "//" }

func TestRun_RecordedMessages_AreAnsweredAndAcknowledged(t *testing.T) {
	s, all := rabbittest.Start(t), recordings(t)
	b := run(t, &gateway{answer: hosts("a", "b")}, s.URL(), nil)
	await(t, "the connection", signal(b.first))
	c := newConductor(t, s)
	for _, name := range []string{"sync_instance_info", "update_instance_info", "delete_instance_info", "update_aggregates", "delete_aggregate"} {
		c.publish(topic+"_fanout", "", all[name].body(t))
	}
	for _, body := range []string{"not JSON", `{"oslo.version": "9.0", "oslo.message": "{}"}`, ""} {
		c.publish("nova", b.names.common, []byte(body))
	}
	c.send(b.Bus, all["boot"], map[string]any{"_msg_id": "m1", "_unique_id": "u1"})
	if r := c.reply(); r.ID != "m1" || !r.Ending || r.Failure != nil || !strings.Contains(string(r.Result), `"service_host":"a"`) {
		t.Errorf("%+v", r)
	}
	c.send(b.Bus, all["boot"], map[string]any{"_msg_id": "m2", "_unique_id": "u2", "method": "nothing"})
	if r := c.reply(); r.ID != "m2" || r.Failure == nil || !strings.Contains(*r.Failure, "NoSuchMethod") {
		t.Errorf("%+v", r)
	}
	// Nova's ping is directed at one server, here at this gateway.
	c.publish("nova", b.names.own, all["boot"].with(t, map[string]any{
		"method": "ping", "namespace": "baseapi", "version": "1.0", "args": map[string]any{"arg": 1}, "_msg_id": "m3", "_unique_id": "u3", "_reply_q": c.queue,
	}).body(t))
	if r := c.reply(); r.ID != "m3" || string(r.Result) != `{"arg":1,"service":"scheduler"}` {
		t.Errorf("%+v", r)
	}
	if got := b.Check(); !got.OK || got.Why != "" {
		t.Errorf("%+v", got)
	}
	b.stop()
	if n := c.waiting(b.Bus); n != 0 {
		t.Errorf("%d messages are not acknowledged", n)
	}
	if log := b.log.String(); strings.Count(log, "dropped a message") != 1 {
		t.Errorf("the log: %s", log)
	}
}

// signal turns a channel that is closed into one that sends a value, for await.
func signal(closed <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() {
		<-closed
		out <- true
	}()
	return out
}

// The bus declares queues and exchanges as nova-scheduler does, according to the recording of its connection,
// so that both can use one broker.
func TestDeclare_DefaultOptions_AreThoseOfNovaScheduler(t *testing.T) {
	s := rabbittest.Start(t)
	b := run(t, &gateway{answer: hosts("a")}, s.URL(), nil)
	await(t, "the connection", signal(b.first))
	ch, err := s.Open(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	_, common := ch.QueueDeclare(b.names.common, false, false, false, false, nil)
	_, own := ch.QueueDeclare(b.names.own, false, false, false, false, nil)
	_, fanout := ch.QueueDeclare(b.names.fanout, false, false, false, false, amqp.Table{"x-expires": int32(1800000)})
	for what, err := range map[string]error{
		"exchange nova":             ch.ExchangeDeclare("nova", "topic", false, false, false, false, nil),
		"exchange scheduler_fanout": ch.ExchangeDeclare("scheduler_fanout", "fanout", false, true, false, false, nil),
		"queue scheduler":           common, "queue scheduler.HOST": own, "queue scheduler_fanout": fanout,
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDeclare_QueueIsThereOtherwise_NamesTheArgument(t *testing.T) {
	s := rabbittest.Start(t)
	for i, tt := range []struct {
		there func(ch *amqp.Channel, queue string) error
		ours  Queues
		want  string
	}{
		{func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, nil)
			return err
		}, Queues{}, "'durable'"},
		{func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, false, true, false, false, nil)
			return err
		}, Queues{}, "'auto_delete'"},
		{func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		}, Queues{Durable: true}, "'x-queue-type'"},
	} {
		ch, err := s.Open(t).Channel()
		if err != nil {
			t.Fatal(err)
		}
		n := names{exchange: fmt.Sprint("otherwise_exchange_", i), common: fmt.Sprint("otherwise_", i), own: "otherwise.own", fanout: fmt.Sprint("otherwise_fanout_", i)}
		if err := tt.there(ch, n.common); err != nil {
			t.Fatal(err)
		}
		tt.ours.TransientTTL = time.Minute
		err = declare(ch, n, tt.ours)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), n.common) {
			t.Errorf("%s: %v", tt.want, err)
		}
	}
}

func TestRun_QuorumQueue_Answers(t *testing.T) {
	s := rabbittest.Start(t)
	b := run(t, &gateway{answer: hosts("a")}, s.URL(), func(b *Bus) {
		b.cfg.Queues = Queues{Quorum: true, DeliveryLimit: 3, TransientTTL: time.Minute}
		b.names.exchange = "nova_durable"
	})
	await(t, "the connection", signal(b.first))
	c := newConductor(t, s)
	c.send(b.Bus, recordings(t)["boot"], nil)
	if r := c.reply(); r.Failure != nil || !r.Ending {
		t.Errorf("%+v", r)
	}
}

// The broker has the reply but not the acknowledgement. It delivers the message again, and
// the bus recognizes the message.
func TestRun_ConnectionCutBetweenReplyAndAck_AnswersOnce(t *testing.T) {
	s := rabbittest.Start(t)
	p := newProxy(t, s.Addr(), nil)
	g := &gateway{answer: hosts("a")}
	events := make(chan event, 100)
	var once sync.Once
	b := run(t, g, p.url(), func(b *Bus) {
		b.on = func(e event) {
			if e == replied {
				once.Do(func() { p.cut(false) })
			}
			events <- e
		}
	})
	until := func(want event) {
		for await(t, string(want), events) != want {
		}
	}
	until(connected)
	c := newConductor(t, s)
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m1", "_unique_id": "u1"})
	until(replied)
	until(duplicate)
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m2", "_unique_id": "u2"})
	until(replied)
	if one, two := c.reply(), c.reply(); one.ID != "m1" || two.ID != "m2" {
		t.Errorf("replies to %s and %s", one.ID, two.ID)
	}
	b.stop()
	if n := c.waiting(b.Bus); n != 0 {
		t.Errorf("%d messages are not acknowledged", n)
	}
	if asked := g.requests(); len(asked) != 2 {
		t.Errorf("the gateway was asked %d times", len(asked))
	}
}

// A gateway that dies with a request loses nothing: another one answers it, under the
// same request id.
func TestRun_ConsumerDies_AnotherAnswersTheSameRequest(t *testing.T) {
	s := rabbittest.Start(t)
	p := newProxy(t, s.Addr(), nil)
	asked := make(chan bool, 10)
	dying := &gateway{answer: func(ctx context.Context, _ *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		asked <- true
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	one := run(t, dying, p.url(), nil)
	await(t, "the connection", signal(one.first))
	c := newConductor(t, s)
	c.send(one.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m1"})
	await(t, "the request", asked)
	other := &gateway{answer: hosts("b")}
	two := run(t, other, s.URL(), nil)
	await(t, "the other connection", signal(two.first))
	p.cut(true)
	if r := c.reply(); r.ID != "m1" || r.Failure != nil || !strings.Contains(string(r.Result), `"service_host":"b"`) {
		t.Errorf("%+v", r)
	}
	if a, b := dying.requests()[0], other.requests()[0]; a.GetRequestId() != b.GetRequestId() {
		t.Errorf("request ids %s and %s", a.GetRequestId(), b.GetRequestId())
	}
}

func TestRun_RequestTakesLong_SendsHeartbeats(t *testing.T) {
	s := rabbittest.Start(t)
	alive := make(chan bool)
	g := &gateway{answer: func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		<-alive
		return hosts("a")(ctx, req)
	}}
	b := run(t, g, s.URL(), nil)
	await(t, "the connection", signal(b.first))
	c := newConductor(t, s)
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m1", "_timeout": 2})
	if r := c.reply(); r.ID != "m1" || r.Ending || r.Failure != nil || string(r.Result) != "null" {
		t.Errorf("%+v", r)
	}
	close(alive)
	for {
		r := c.reply()
		if r.Ending {
			break
		}
	}
}

func TestRun_ReplyQueueIsGone_MessageIsNotDeliveredForEver(t *testing.T) {
	s := rabbittest.Start(t)
	b := run(t, &gateway{answer: hosts("a")}, s.URL(), func(b *Bus) { b.replyWait = 0 })
	await(t, "the connection", signal(b.first))
	c := newConductor(t, s)
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_reply_q": "reply_of_nobody", "_unique_id": "u1"})
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m2", "_unique_id": "u2"})
	if r := c.reply(); r.ID != "m2" {
		t.Errorf("%+v", r)
	}
	b.stop()
	if n := c.waiting(b.Bus); n != 0 {
		t.Errorf("%d messages are not acknowledged", n)
	}
}

// A gateway that stops takes no more messages, and answers those that it has.
func TestRun_StoppedWithARequest_AnswersIt(t *testing.T) {
	s := rabbittest.Start(t)
	asked, alive := make(chan bool, 10), make(chan bool)
	g := &gateway{answer: func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		asked <- true
		<-alive
		return hosts("a")(ctx, req)
	}}
	b := run(t, g, s.URL(), func(b *Bus) { b.cfg.Prefetch = 1 })
	await(t, "the connection", signal(b.first))
	c := newConductor(t, s)
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m1", "_unique_id": "u1"})
	await(t, "the request", asked)
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m2", "_unique_id": "u2"})
	b.Drain()
	stopped := make(chan bool, 1)
	go func() { b.stop(); stopped <- true }()
	close(alive)
	if r := c.reply(); r.ID != "m1" {
		t.Errorf("%+v", r)
	}
	await(t, "the end", stopped)
}

func TestRun_TLS_VerifiesTheBroker(t *testing.T) {
	s := rabbittest.Start(t)
	known := httptest.NewTLSServer(nil)
	defer known.Close()
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	p := newProxy(t, s.Addr(), &tls.Config{Certificates: known.TLS.Certificates})
	for name, tt := range map[string]struct {
		roots  *x509.CertPool
		verify bool
		want   string
	}{
		"chain and name": {roots, true, ""}, "chain": {roots, false, ""}, "nothing": {nil, false, ""},
		"another CA": {x509.NewCertPool(), false, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(t, &gateway{answer: hosts("a")}, func(c *Config) {
				c.TransportURL, c.VerifyHost = p.url()+"?ssl=1", tt.verify
				c.TLS = func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: tt.roots}, nil }
			})
			b.names.common, b.names.own = "scheduler_tls", "scheduler_tls.test"
			session, _, err := b.connect(t.Context())
			if err == nil {
				err = session.conn.Close()
				<-session.out.ended
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRun_WrongPassword_SaysSoAndIsNotReady(t *testing.T) {
	s := rabbittest.Start(t)
	b := newBus(t, &gateway{answer: hosts("a")}, func(c *Config) { c.TransportURL = "rabbit://guest:secret@" + s.Addr() })
	_, err := b.serve(t.Context())
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Fatal(err)
	}
	b.setState("", err)
	if got := b.Check(); got.OK || !strings.Contains(got.Why, "not connected") {
		t.Errorf("%+v", got)
	}
}

// This test is the last of the file, because other tests of the package have no broker meanwhile.
func TestRun_BrokerRestarts_ConsumesAgain(t *testing.T) {
	s := rabbittest.Start(t)
	events := make(chan event, 100)
	b := run(t, &gateway{answer: hosts("a")}, strings.Replace(s.URL(), "127.0.0.1", "127.0.0.1:1,guest:guest@127.0.0.1", 1), func(b *Bus) {
		b.on = func(e event) { events <- e }
	})
	await(t, "the connection", events)
	s.Kill(t)
	s.Run(t)
	await(t, "the new connection", events)
	c := newConductor(t, s)
	c.send(b.Bus, recordings(t)["boot"], map[string]any{"_msg_id": "m1"})
	if r := c.reply(); r.ID != "m1" || !r.Ending {
		t.Errorf("%+v", r)
	}
}
