package telemetry

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bus is what a gateway tells of Nova's message bus.
type Bus struct {
	p                        *Process
	methods                  []string
	redelivered, reconnected prometheus.Counter
}

// Bus makes the handle of the process's message bus. methods are those that are served.
func (p *Process) Bus(methods []string) *Bus {
	if p == nil {
		return nil
	}
	return &Bus{p: p, methods: methods, redelivered: p.counter(gatewayBusRedelivered), reconnected: p.counter(gatewayBusReconnects)}
}

// Answered counts a request that was answered with OK, or with an exception of a class.
func (b *Bus) Answered(method, outcome string, took time.Duration) {
	if b == nil {
		return
	}
	if !slices.Contains(b.methods, method) {
		method = other
	}
	b.p.counter(gatewayBusRequests, method, inList(labelException, outcome)).Inc()
	b.p.histogram(gatewayBusSeconds, method).Observe(took.Seconds())
}

// Dropped counts a message that was dropped, or whose reply was.
func (b *Bus) Dropped(why string) {
	if b != nil {
		b.p.counter(gatewayBusDropped, inList(labelDropped, why)).Inc()
	}
}

// Redelivered counts a message that was delivered before.
func (b *Bus) Redelivered() {
	if b != nil {
		b.redelivered.Inc()
	}
}

// Reconnected counts a connection after the first.
func (b *Bus) Reconnected() {
	if b != nil {
		b.reconnected.Inc()
	}
}

// Watch has read whether the bus is connected.
func (b *Bus) Watch(connected func() bool) {
	if b == nil {
		return
	}
	b.p.readings.add(func(emit Emit) {
		value := 0.0
		if connected() {
			value = 1
		}
		emit(gatewayBusConnected, value)
	})
}
