package bus

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"cellgate/internal/fault"
	"cellgate/internal/rabbittest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// novas is a notification that a real nova-scheduler 26.2.2 sends for a request, recorded by testdata/notifications.py.
type novas struct {
	Name          string
	Request       json.RawMessage
	Exchange, Key string
	Message       map[string]any
}

func novasNotifications(t *testing.T) (all []novas) {
	t.Helper()
	f, err := os.Open("testdata/notifications.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n novas
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	if len(all) < 7 {
		t.Fatalf("%d notifications", len(all))
	}
	return all
}

// sameNotification compares a notification with Nova's. Of ids and times it compares only the forms.
func sameNotification(t *testing.T, name string, got, want map[string]any) {
	t.Helper()
	for _, varies := range []string{"message_id", "_unique_id", "timestamp", "_context_timestamp"} {
		g, _ := got[varies].(string)
		w, _ := want[varies].(string)
		digits := strings.NewReplacer("1", "0", "2", "0", "3", "0", "4", "0", "5", "0", "6", "0", "7", "0", "8", "0", "9", "0",
			"a", "0", "b", "0", "c", "0", "d", "0", "e", "0", "f", "0")
		if digits.Replace(g) != digits.Replace(w) {
			t.Errorf("%s: %s is %q; Nova's is %q", name, varies, g, w)
		}
		delete(got, varies)
		delete(want, varies)
	}
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s:\n%s\nNova's:\n%s", name, g, w)
	}
}

func TestNotification_RequestsOfNova_AreThoseOfNovaScheduler(t *testing.T) {
	for _, n := range novasNotifications(t) {
		r := recorded{Message: n.Request}.request(t)
		a, failed := readArguments(r)
		if failed != nil {
			t.Fatalf("%s: %v", n.Name, failed)
		}
		text, err := json.Marshal(notification(r, a.spec, "scheduler.test", "start", time.Now().UTC()))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		sameNotification(t, n.Name, got, n.Message)
	}
}

// notified consumes a topic's queue of notifications.
func notified(t *testing.T, s *rabbittest.Server, topic string) <-chan amqp.Delivery {
	t.Helper()
	ch, err := s.Open(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := declareTopics(ch, "nova", []string{topic + ".info"}, Queues{}); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(topic+".info", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}

func withNotifications(t *testing.T, n Notifications) func(*Bus) {
	return func(b *Bus) {
		var err error
		if b.notifier, err = newNotifier(b, n); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun_NotificationsConfigured_EachTopicGetsStartAndEnd(t *testing.T) {
	s, boot := rabbittest.Start(t), recordings(t)["boot"]
	g := &gateway{answer: hosts("a")}
	p := newProxy(t, s.Addr(), nil)
	b := run(t, g, s.URL(), withNotifications(t, Notifications{TransportURL: p.url(), Topics: []string{"start_and_end", "audit"}}))
	await(t, "the connection", signal(b.first))
	topics := []<-chan amqp.Delivery{notified(t, s, "start_and_end"), notified(t, s, "audit")}
	// If the connection is cut before the broker acknowledges a notification, it may come twice.
	before := map[<-chan amqp.Delivery]any{}
	next := func(topic <-chan amqp.Delivery) (amqp.Delivery, map[string]any) {
		for {
			d := await(t, "a notification", topic)
			var e envelope
			var got map[string]any
			if err := json.Unmarshal(d.Body, &e); err != nil || json.Unmarshal([]byte(*e.Message), &got) != nil {
				t.Fatalf("%s: %v", d.Body, err)
			}
			if id := got["message_id"]; id != before[topic] {
				before[topic] = id
				return d, got
			}
		}
	}
	c := newConductor(t, s)
	for _, id := range []string{"n1", "n2"} {
		c.send(b.Bus, boot, map[string]any{"_msg_id": id, "_unique_id": id})
		if r := c.reply(); r.ID != id || r.Failure != nil {
			t.Fatalf("%+v", r)
		}
		for _, phase := range []string{"start", "end"} {
			for _, topic := range topics {
				d, got := next(topic)
				want := novasNotifications(t)[0]
				want.Message["event_type"] = "scheduler.select_destinations." + phase
				sameNotification(t, id+" "+phase, got, want.Message)
				if d.Exchange != want.Exchange || d.DeliveryMode != 2 || d.ContentType != "application/json" || d.ContentEncoding != "utf-8" {
					t.Errorf("exchange %q, mode %d, %s, %s", d.Exchange, d.DeliveryMode, d.ContentType, d.ContentEncoding)
				}
			}
		}
		p.cut(false) // the second request's notifications come over another connection
	}
}

func TestRun_NoHost_NotifiesTheStartOnly(t *testing.T) {
	s, boot := rabbittest.Start(t), recordings(t)["boot"]
	g := &gateway{answer: func(context.Context, *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		return nil, fault.New(fault.NoValidHost, "no host")
	}}
	b := run(t, g, s.URL(), withNotifications(t, Notifications{Topics: []string{"bare"}, Bare: true}))
	await(t, "the connection", signal(b.first))
	deliveries := notified(t, s, "bare")
	c := newConductor(t, s)
	for _, id := range []string{"b1", "b2"} {
		c.send(b.Bus, boot, map[string]any{"_msg_id": id, "_unique_id": id})
		if r := c.reply(); r.Failure == nil || !strings.Contains(*r.Failure, "NoValidHost") {
			t.Fatalf("%+v", r)
		}
	}
	for range 2 {
		var got struct {
			Event string `json:"event_type"`
		}
		d := await(t, "a notification", deliveries)
		if err := json.Unmarshal(d.Body, &got); err != nil || got.Event != "scheduler.select_destinations.start" {
			t.Errorf("%s: %v", d.Body, err)
		}
	}
}

func TestRun_BrokerOfNotificationsIsAway_RequestsAreAnswered(t *testing.T) {
	s, boot := rabbittest.Start(t), recordings(t)["boot"]
	p := newProxy(t, s.Addr(), nil)
	p.cut(true)
	b := run(t, &gateway{answer: hosts("a")}, s.URL(), func(b *Bus) {
		withNotifications(t, Notifications{TransportURL: p.url(), Topics: []string{"away"}})(b)
		b.notifier.waiting = make(chan []byte, 1) // one notification fills it, at the latest one of the second request
	})
	await(t, "the connection", signal(b.first))
	c := newConductor(t, s)
	for _, id := range []string{"m1", "m2"} {
		c.send(b.Bus, boot, map[string]any{"_msg_id": id, "_unique_id": id})
		if r := c.reply(); r.ID != id || r.Failure != nil {
			t.Errorf("%+v", r)
		}
	}
	deliveries := notified(t, s, "away")
	p.mu.Lock()
	p.shut = false
	p.mu.Unlock()
	if d := await(t, "the notification that waited", deliveries); !strings.Contains(string(d.Body), "select_destinations.start") {
		t.Errorf("%s", d.Body)
	}
	if log := b.log.String(); !strings.Contains(log, "dropped a notification") {
		t.Errorf("the log: %s", log)
	}
}
