package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// transportPause is the wait before asking again for a transport_url that is not known, or
	// is the API's own bus.
	transportPause = 2 * time.Second
	// castPrefetch bounds the casts that wait in memory.
	castPrefetch = 64
)

// castListener consumes the casts of a cell's computes to schedulers on the cell's own bus.
// Without them the gateway still reads the cell's tables at the usual interval, so an error
// here does not make the gateway unready.
type castListener struct {
	b    *Bus
	cell string
}

// run listens until ctx ends.
func (l *castListener) run(ctx context.Context) {
	b, pause, lastLogged := l.b, l.b.cfg.RetryFrom, ""
	for ctx.Err() == nil {
		wait := transportPause
		if t, err := l.transport(); t != nil || err != nil {
			listened := false
			if err == nil {
				listened, err = l.listenAny(ctx, t)
			}
			if ctx.Err() != nil {
				return
			}
			if listened {
				pause, lastLogged = b.cfg.RetryFrom, ""
			}
			if text := fmt.Sprint(err); text != lastLogged {
				lastLogged = text
				b.log.Warn("the message bus of a cell is not connected; changes of its tables are found by the regular reads alone (gateway.legacy)", "cell", l.cell, "err", err)
			}
			wait, pause = time.Duration((0.5+rand.Float64()/2)*float64(pause)), min(2*pause, b.cfg.RetryMost)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// transport gives the cell's own bus. It is nil while cell_mappings has not been read. It is also nil for a cell on
// the API's bus, whose casts reach Bus itself.
func (l *castListener) transport() (*transport, error) {
	text := l.b.url(l.cell)
	if text == "" {
		return nil, nil //nolint:nilnil // not known yet, and nothing wrong
	}
	text, err := fillTransportURL(text, l.b.cfg.TransportURL)
	if err != nil {
		return nil, fmt.Errorf("transport_url of cell_mappings: %w", err)
	}
	t, err := parseTransportURL(text)
	if err != nil {
		return nil, fmt.Errorf("transport_url of cell_mappings: %w", err)
	}
	if t.sameBus(l.b.transport) {
		return nil, nil //nolint:nilnil // the API's bus
	}
	return t, nil
}

// listenAny listens at one of the brokers until that connection is lost; the error says why.
func (l *castListener) listenAny(ctx context.Context, t *transport) (listened bool, err error) {
	var errs []error
	for _, i := range rand.Perm(len(t.brokers)) {
		at := t.brokers[i]
		var conn *amqp.Connection
		var deliveries <-chan amqp.Delivery
		err := l.b.login(ctx, t, at, func(c *amqp.Connection) (err error) {
			conn = c
			deliveries, err = l.consume(c)
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at.address, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		l.b.log.Info("the message bus of a cell is connected", "cell", l.cell, "broker", at.address, "vhost", t.vhost)
		l.b.changed(l.cell) // casts before the connection are lost
		return true, l.listen(ctx, conn, deliveries)
	}
	return false, errors.Join(errs...)
}

// consume declares a queue, which expires after the connection, and consumes it. Messages are
// acknowledged on delivery: a lost cast only delays the next read of the tables.
func (l *castListener) consume(conn *amqp.Connection) (<-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	queue := fanoutName()
	if err := declareFanout(ch, queue, l.b.cfg.Queues); err != nil {
		return nil, err
	}
	if err := ch.Qos(castPrefetch, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", true, false, false, false, nil)
}

// listen starts a read of the cell's tables after each cast. After it ends, the queue of casts expires.
func (l *castListener) listen(ctx context.Context, conn *amqp.Connection, deliveries <-chan amqp.Delivery) error {
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	for {
		select {
		case <-ctx.Done():
			_ = conn.CloseDeadline(time.Now().Add(closeTimeout)) // nothing is under way
			return ctx.Err()
		case d, ok := <-deliveries:
			if !ok {
				_ = conn.CloseDeadline(time.Now().Add(closeTimeout)) // the connection may outlive its channel
				return closeError(<-lost)
			}
			began := time.Now()
			r, err := decodeRequest(d.Body)
			if err != nil {
				l.b.tel.Dropped("malformed")
				continue
			}
			if slices.Contains(casts, r.Method) {
				l.b.changed(l.cell)
				l.b.tel.Answered(r.Method, "ok", time.Since(began))
			}
		}
	}
}
