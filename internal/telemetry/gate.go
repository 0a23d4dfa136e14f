package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gate is what a gateway tells of the gate of one cell under upgrade.
type Gate struct {
	state   prometheus.Gauge
	moves   lazily
	reads   map[bool]prometheus.Counter
	seconds prometheus.Observer
}

// GateStates are the names of a gate's states, by the number that the metric has; 0 is
// one that is not known.
func GateStates() []string { return []string{other, "legacy", "shadow", "native"} }

// Gate makes the handle of the cell's gate, whose state is not known.
func (l *Link) Gate() *Gate {
	if l == nil {
		return nil
	}
	p := l.p
	g := &Gate{
		state:   p.gauge(gatewayGate, l.cell),
		reads:   map[bool]prometheus.Counter{true: p.counter(gatewayLegacyReads, l.cell, "read"), false: p.counter(gatewayLegacyReads, l.cell, "failed")},
		seconds: p.histogram(gatewayLegacySeconds, l.cell),
	}
	g.moves.of = func(to string) prometheus.Counter { return p.counter(gatewayGateMoves, l.cell, to) }
	return g
}

// Is notes the state of the gate; Moved that it went there from another.
func (g *Gate) Is(state string) {
	if g == nil {
		return
	}
	for i, s := range GateStates() {
		if s == state {
			g.state.Set(float64(i))
		}
	}
}

// Moved counts a move of the gate.
func (g *Gate) Moved(to string) {
	if g != nil {
		g.moves.at(inList(labelGate, to)).Inc()
	}
}

// Read counts and times a read of the legacy database.
func (g *Gate) Read(took time.Duration, err error) {
	if g == nil {
		return
	}
	g.reads[err == nil].Inc()
	g.seconds.Observe(took.Seconds())
}

// LegacyReading is what is read of a cell's legacy rows when they are asked for.
type LegacyReading struct {
	Cell string
	Age  time.Duration
}

// WatchLegacy has the legacy rows read when asked for: read calls each for every cell
// that has rows.
func (g *Gateway) WatchLegacy(read func(each func(LegacyReading))) {
	if g == nil {
		return
	}
	g.p.readings.add(func(emit Emit) {
		read(func(r LegacyReading) {
			emit(gatewayLegacyAge, r.Age.Seconds(), r.Cell)
		})
	})
}
