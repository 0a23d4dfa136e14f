package telemetry

import (
	"slices"
	"time"
)

// Gate is a gateway's telemetry of the gate of one cell under upgrade.
type Gate struct{ part }

// GateStates are the names of a gate's states, indexed by the metric's value; 0 stands for an unknown
// state.
func GateStates() []string { return []string{other, "legacy", "shadow", "native"} }

// Gate makes the handle of the cell's gate, in the unknown state.
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

// Is sets the state of the gate; Moved counts a move to a state.
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

// LegacyReading has the values of a cell's legacy rows that are read at each scrape.
type LegacyReading struct {
	Cell string
	Age  time.Duration
}

// WatchLegacy reads the legacy rows at each scrape: read calls each for every cell that has such rows.
func (g *Gateway) WatchLegacy(read func(each func(LegacyReading))) {
	g.series().watch(func(emit Emit) {
		read(func(r LegacyReading) { emit(gatewayLegacyAge, r.Age.Seconds(), r.Cell) })
	})
}
