package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// notificationsWaiting bounds the notifications that wait for their broker; more are dropped.
const notificationsWaiting = 1000

// Notifications says where scheduler.select_destinations.start and .end are sent: Nova's
// [oslo_messaging_notifications]. They have the unversioned format.
type Notifications struct {
	// TransportURL is the transport_url of their broker; empty: that of the RPC.
	TransportURL string
	// Topics each get every notification: in the queue TOPIC.info.
	Topics []string
	// Bare messages have no envelope: the driver messaging, not messagingv2.
	Bare bool
}

// notifier sends notifications on a connection of its own, one after the other. No request waits
// for it. A nil notifier sends nothing.
type notifier struct {
	b         *Bus
	bare      bool
	transport *transport
	queues    []string
	waiting   chan []byte

	// conn and out are nil without a connection; only deliver uses them.
	conn *amqp.Connection
	out  *publisher
}

func newNotifier(b *Bus, cfg Notifications) (*notifier, error) {
	n := &notifier{b: b, bare: cfg.Bare, transport: b.transport, waiting: make(chan []byte, notificationsWaiting)}
	for _, t := range cfg.Topics {
		n.queues = append(n.queues, t+".info")
	}
	if cfg.TransportURL == "" {
		return n, nil
	}
	var err error
	if n.transport, err = parseTransportURL(cfg.TransportURL); err != nil {
		return nil, fmt.Errorf("notification_url: %w", err)
	}
	return n, nil
}

// notify queues a notification about a request.
func (n *notifier) notify(r *request, a *arguments, phase string) {
	if n == nil {
		return
	}
	now := time.Now()
	message := notification(r, a.spec, "scheduler."+n.b.cfg.Host, phase, now.UTC())
	body, err := seal(message)
	if n.bare {
		body, err = json.Marshal(message)
	}
	if err == nil {
		select {
		case n.waiting <- body:
			return
		default:
			err = fmt.Errorf("%d wait for their broker", notificationsWaiting)
		}
	}
	n.b.tel.Dropped("notification")
	n.b.drops.Warn(context.Background(), "notification", 1, "dropped a notification of select_destinations", "request", r.APIRequest, "err", err)
}

// notification gives the message that nova-scheduler would send.
func notification(r *request, spec map[string]any, publisher, phase string, now time.Time) map[string]any {
	id := uuid.NewString()
	out := map[string]any{
		"message_id": id, "publisher_id": publisher, "event_type": "scheduler.select_destinations." + phase, "priority": "INFO",
		"payload":   map[string]any{"request_spec": legacySpecOf(spec)},
		"timestamp": now.Format("2006-01-02 15:04:05.000000"), "_unique_id": strings.ReplaceAll(id, "-", ""),
	}
	// oslo.messaging sends only those fields of the caller's context that are not secret.
	for name, standard := range map[string]any{
		"user": nil, "project_id": nil, "system_scope": nil, "project": nil, "domain": nil, "user_domain": nil, "project_domain": nil,
		"is_admin": nil, "request_id": nil, "global_request_id": nil, "roles": nil, "user_identity": nil, "user_id": nil, "user_name": nil,
		"project_name": nil,
	} {
		out[contextPrefix+name] = standard
		if raw, ok := r.Context[name]; ok {
			out[contextPrefix+name] = raw
		}
	}
	for name, value := range map[string]any{
		"auth_token": nil, "read_only": false, "show_deleted": false, "resource_uuid": nil, "is_admin_project": true, "read_deleted": "no",
		"remote_address": nil, "quota_class": nil, "service_catalog": []any{}, "timestamp": now.Format("2006-01-02T15:04:05.000000"),
	} {
		out[contextPrefix+name] = value
	}
	return out
}

// start sends queued notifications until stop is called. stop sends the rest within
// closeTimeout; notify must not be called afterwards.
func (n *notifier) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer n.disconnect()
		for body := range n.waiting {
			n.deliver(ctx, body)
		}
	}()
	return func() {
		close(n.waiting)
		limit := time.AfterFunc(closeTimeout, cancel)
		defer limit.Stop()
		<-done
		cancel()
	}
}

// deliver publishes a notification to every topic. It retries until a broker has it, or ctx
// ends.
func (n *notifier) deliver(ctx context.Context, body []byte) {
	left, lastLogged := n.queues, ""
	for pause := n.b.cfg.RetryFrom; len(left) > 0; {
		err := n.connect(ctx)
		if err == nil {
			if err = n.out.publish(ctx, n.b.cfg.Exchange, left[0], body); err == nil {
				left = left[1:]
				continue
			}
			n.disconnect()
		}
		if ctx.Err() != nil {
			n.b.tel.Dropped("notification")
			return
		}
		if text := fmt.Sprint(err); text != lastLogged {
			lastLogged = text
			n.b.log.Warn("the broker of notifications is not connected; up to 1,000 of them wait", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration((0.5 + rand.Float64()/2) * float64(pause))):
		}
		pause = min(2*pause, n.b.cfg.RetryMost)
	}
}

// connect connects to one of the brokers, unless one is already connected, and declares the queues.
func (n *notifier) connect(ctx context.Context) error {
	if n.conn != nil {
		return nil
	}
	_, err := n.b.loginAny(ctx, n.transport, func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err == nil {
			err = declareTopics(ch, n.b.cfg.Exchange, n.queues, n.b.cfg.Queues)
		}
		if err != nil {
			return err
		}
		out, err := newPublisher(conn)
		if err == nil {
			n.conn, n.out = conn, out
		}
		return err
	})
	return err
}

func (n *notifier) disconnect() {
	if n.conn == nil {
		return
	}
	_ = n.conn.CloseDeadline(time.Now().Add(closeTimeout)) // the broker has what was confirmed
	<-n.out.ended
	n.conn, n.out = nil, nil
}
