package bus

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errUnroutable: the queue of a message does not exist.
var errUnroutable = errors.New("the reply queue is not there")

// confirmTimeout is how long a broker may take to confirm a message.
const confirmTimeout = 30 * time.Second

// publisher publishes on a channel of its own and waits until the broker confirms each
// message. Safe for concurrent use.
type publisher struct {
	ch   *amqp.Channel
	last atomic.Uint64
	// asked takes questions whether the broker returned a message.
	asked chan question
	// ended is closed when the channel is.
	ended chan struct{}
}

type question struct {
	id     string
	answer chan bool
}

func newPublisher(conn *amqp.Connection) (*publisher, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	p := &publisher{ch: ch, asked: make(chan question), ended: make(chan struct{})}
	go p.collect(ch.NotifyReturn(make(chan amqp.Return)))
	return p, ch.Confirm(false)
}

// collect keeps the ids of returned messages until they are asked for. The broker returns a
// message before it confirms it, and the channel of returns has no buffer. So a question
// after the confirmation gets the right answer.
func (p *publisher) collect(returns <-chan amqp.Return) {
	defer close(p.ended)
	came := map[string]bool{}
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				return
			}
			came[r.MessageId] = true
		case q := <-p.asked:
			q.answer <- came[q.id]
			delete(came, q.id)
		}
	}
}

// publish sends a message to a queue, and returns once the broker has it. It gives
// errUnroutable if the queue does not exist.
func (p *publisher) publish(ctx context.Context, exchange, key string, body []byte) error {
	id := strconv.FormatUint(p.last.Add(1), 36)
	confirmed, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, exchange == "", false, amqp.Publishing{
		ContentType: "application/json", ContentEncoding: "utf-8", DeliveryMode: amqp.Persistent, MessageId: id, Body: body,
	})
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	ok, err := confirmed.WaitContext(wait)
	if err != nil {
		return err
	}
	if exchange == "" {
		q := question{id: id, answer: make(chan bool, 1)}
		select {
		case p.asked <- q:
			if <-q.answer {
				return errUnroutable
			}
		case <-p.ended:
			return amqp.ErrClosed
		}
	}
	if !ok {
		return errors.New("the broker did not take the message")
	}
	return nil
}
