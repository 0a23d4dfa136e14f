package telemetry

import (
	"slices"
	"time"
)

// Bus is a gateway's telemetry of Nova's message bus.
type Bus struct {
	*part
	methods []string
}

// Bus makes the handle of the process's message bus. methods are the methods that it serves.
func (p *Process) Bus(methods []string) Bus {
	b := Bus{p.newPart(), methods}
	b.show(gatewayBusRedelivered, gatewayBusReconnects)
	return b
}

// Answered counts and times an answered request; outcome is OK, or the class of the exception.
func (b Bus) Answered(method, outcome string, took time.Duration) {
	if !slices.Contains(b.methods, method) {
		method = other
	}
	b.add(gatewayBusRequests, 1, method, inList(labelException, outcome))
	b.observe(gatewayBusSeconds, took.Seconds(), method)
}

// Dropped counts a dropped message, or one whose reply was dropped.
func (b Bus) Dropped(why string) { b.add(gatewayBusDropped, 1, inList(labelDropped, why)) }

// Redelivered counts a message that was delivered before.
func (b Bus) Redelivered() { b.add(gatewayBusRedelivered, 1) }

// Reconnected counts a connection after the first.
func (b Bus) Reconnected() { b.add(gatewayBusReconnects, 1) }

// Watch reads, at each scrape, whether the bus is connected.
func (b Bus) Watch(connected func() bool) {
	b.watch(func(emit Emit) {
		value := 0.0
		if connected() {
			value = 1
		}
		emit(gatewayBusConnected, value)
	})
}
