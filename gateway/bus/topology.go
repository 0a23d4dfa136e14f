package bus

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// topic is Nova's topic of schedulers.
const topic = "scheduler"

// Queues are the options of [oslo_messaging_rabbit] for the declaration of exchanges and
// queues. They must equal those of Nova's services.
type Queues struct {
	// Durable is amqp_durable_queues, AutoDelete amqp_auto_delete.
	Durable, AutoDelete bool
	// Quorum is rabbit_quorum_queue. There is none for rabbit_ha_queues: RabbitMQ ignores x-ha-policy since 3.0.
	Quorum bool
	// DeliveryLimit is rabbit_quorum_delivery_limit, MaxMemoryLength and MaxMemoryBytes
	// rabbit_quroum_max_memory_length and _bytes; 0 for none.
	DeliveryLimit, MaxMemoryLength, MaxMemoryBytes int
	// TransientTTL is rabbit_transient_queues_ttl.
	TransientTTL time.Duration
}

// arguments gives the arguments of the topic's queues.
func (q Queues) arguments() amqp.Table {
	args := amqp.Table{}
	if q.Quorum {
		args["x-queue-type"] = "quorum"
		for name, n := range map[string]int{
			"x-delivery-limit": q.DeliveryLimit, "x-max-in-memory-length": q.MaxMemoryLength, "x-max-in-memory-bytes": q.MaxMemoryBytes,
		} {
			if n > 0 {
				args[name] = int64(n)
			}
		}
	}
	return args
}

// names are one gateway's queues, and their exchange.
type names struct {
	exchange, common, own, fanout string
}

// declare declares the exchanges, queues and bindings as nova-scheduler does. A declaration
// must repeat the options of an existing exchange or queue; the first one to declare creates
// it. The broker's error names the argument that differs.
func declare(ch *amqp.Channel, n names, q Queues) error {
	if err := declareTopics(ch, n.exchange, []string{n.common, n.own}, q); err != nil {
		return err
	}
	return declareFanout(ch, n.fanout, q)
}

// declareTopics makes an exchange and queues that are bound to it by their names.
func declareTopics(ch *amqp.Channel, exchange string, queues []string, q Queues) error {
	durable := q.Durable || q.Quorum
	if err := ch.ExchangeDeclare(exchange, "topic", durable, q.AutoDelete, false, false, nil); err != nil {
		return err
	}
	for _, queue := range queues {
		if _, err := ch.QueueDeclare(queue, durable, q.AutoDelete, false, false, q.arguments()); err != nil {
			return err
		}
		if err := ch.QueueBind(queue, queue, exchange, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// declareFanout makes a queue of casts to all schedulers.
func declareFanout(ch *amqp.Channel, queue string, q Queues) error {
	if err := ch.ExchangeDeclare(topic+"_fanout", "fanout", false, true, false, false, nil); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(queue, false, false, false, false, amqp.Table{"x-expires": q.TransientTTL.Milliseconds()}); err != nil {
		return err
	}
	return ch.QueueBind(queue, topic, topic+"_fanout", false, nil)
}
