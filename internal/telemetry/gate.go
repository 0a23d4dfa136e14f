package telemetry

import (
	"slices"
	"time"
)

// Gate is what a gateway tells of the gate of one cell under upgrade.
type Gate struct{ part }

// GateStates are the names of a gate's states, by the number that the metric has; 0 is
// one that is not known.
func GateStates() []string { return []string{other, "legacy", "shadow", "native"} }

// Gate makes the handle of the cell's gate, whose state is not known.
func (l *Link) Gate() *Gate {
	if l == nil {
		return nil
	}
	g := &Gate{part{p: l.p, labels: l.labels}}
	g.show(gatewayGate, gatewayLegacyReads, gatewayLegacySeconds)
	return g
}

func (g *Gate) series() *part {
	if g == nil {
		return nil
	}
	return &g.part
}

// Is notes the state of the gate; Moved that it went there from another.
func (g *Gate) Is(state string) {
	if i := slices.Index(GateStates(), state); i >= 0 {
		g.series().set(gatewayGate, float64(i))
	}
}

// Moved counts a move of the gate.
func (g *Gate) Moved(to string) { g.series().add(gatewayGateMoves, 1, inList(labelGate, to)) }

// Read counts and times a read of the legacy database.
func (g *Gate) Read(took time.Duration, err error) {
	g.series().add(gatewayLegacyReads, 1, either(err == nil, "read", "failed"))
	g.series().observe(gatewayLegacySeconds, took.Seconds())
}

// LegacyReading is what is read of a cell's legacy rows when they are asked for.
type LegacyReading struct {
	Cell string
	Age  time.Duration
}

// WatchLegacy has the legacy rows read when asked for: read calls each for every cell
// that has rows.
func (g *Gateway) WatchLegacy(read func(each func(LegacyReading))) {
	g.series().watch(func(emit Emit) {
		read(func(r LegacyReading) { emit(gatewayLegacyAge, r.Age.Seconds(), r.Cell) })
	})
}
