package bus

import (
	"context"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// idlePause is the wait before asking again for a transport_url that is not known, or is the API's own bus.
	idlePause = 2 * time.Second
	// castPrefetch bounds the casts that wait in memory.
	castPrefetch = 64
)

// listenForCasts consumes the casts of a cell's computes to schedulers on the cell's own bus, until ctx ends. Without
// them the gateway still reads the cell's tables at the usual interval, so an error here does not make the gateway
// unready.
func (b *Bus) listenForCasts(ctx context.Context, cell string) {
	b.retry(ctx, func() (listened bool, err error) {
		t, err := b.cellTransport(cell)
		if t == nil {
			return false, err
		}
		var conn *amqp.Connection
		var deliveries <-chan amqp.Delivery
		broker, err := b.loginAny(ctx, t, func(c *amqp.Connection) (err error) {
			conn = c
			deliveries, err = b.consumeCasts(c)
			return err
		})
		if err != nil {
			return false, err
		}
		b.log.Info("the message bus of a cell is connected", "cell", cell, "broker", broker, "vhost", t.vhost)
		b.changed(cell) // casts before the connection are lost
		return true, b.listen(ctx, cell, conn, deliveries)
	}, "the message bus of a cell is not connected; changes of its tables are found by the regular reads alone (gateway.legacy)", "cell", cell)
}

// cellTransport gives a cell's own bus. It is nil while cell_mappings has not been read. It is also nil for a cell on
// the API's bus, whose casts reach Bus itself.
func (b *Bus) cellTransport(cell string) (*transport, error) {
	text := b.url(cell)
	if text == "" {
		return nil, nil //nolint:nilnil // not known yet, and nothing wrong
	}
	text, err := fillTransportURL(text, b.cfg.TransportURL)
	if err != nil {
		return nil, fmt.Errorf("transport_url of cell_mappings: %w", err)
	}
	t, err := parseTransportURL(text)
	if err != nil {
		return nil, fmt.Errorf("transport_url of cell_mappings: %w", err)
	}
	if t.sameBus(b.transport) {
		return nil, nil //nolint:nilnil // the API's bus
	}
	return t, nil
}

// consumeCasts declares a queue, which expires after the connection, and consumes it. Messages are
// acknowledged on delivery: a lost cast only delays the next read of the tables.
func (b *Bus) consumeCasts(conn *amqp.Connection) (<-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	queue := fanoutName()
	if err := declareFanout(ch, queue, b.cfg.Queues); err != nil {
		return nil, err
	}
	if err := ch.Qos(castPrefetch, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", true, false, false, false, nil)
}

// listen starts a read of the cell's tables after each cast. After it ends, the queue of casts expires.
func (b *Bus) listen(ctx context.Context, cell string, conn *amqp.Connection, deliveries <-chan amqp.Delivery) error {
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
				b.tel.Dropped("malformed")
				continue
			}
			if slices.Contains(casts, r.Method) {
				b.changed(cell)
				b.tel.Answered(r.Method, "ok", time.Since(began))
			}
		}
	}
}
