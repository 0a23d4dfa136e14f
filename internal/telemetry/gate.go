package telemetry

import (
	"slices"
	"time"
)

// Gate is a gateway's telemetry of the gate of one cell under upgrade.
type Gate struct{ *part }

// GateStates are the names of a gate's states, indexed by the metric's value; 0 stands for an unknown
// state.
func GateStates() []string { return []string{other, "legacy", "shadow", "native"} }

// Gate makes the handle of the cell's gate, in the unknown state.
func (l Link) Gate() Gate {
	g := Gate{l.below()}
	g.show(gatewayGate, gatewayLegacyReads, gatewayLegacySeconds)
	return g
}

// Is sets the state of the gate; Moved counts a move to a state.
func (g Gate) Is(state string) {
	if i := slices.Index(GateStates(), state); i >= 0 {
		g.set(gatewayGate, float64(i))
	}
}

// Moved counts a move of the gate.
func (g Gate) Moved(to string) { g.add(gatewayGateMoves, 1, inList(labelGate, to)) }

// Read counts and times a read of the legacy database.
func (g Gate) Read(took time.Duration, err error) {
	g.add(gatewayLegacyReads, 1, either(err == nil, "read", "failed"))
	g.observe(gatewayLegacySeconds, took.Seconds())
}

// LegacyReading has the values of a cell's legacy rows that are read at each scrape.
type LegacyReading struct {
	Cell string
	Age  time.Duration
}

// WatchLegacy reads the legacy rows at each scrape: read calls each for every cell that has such rows.
func (g Gateway) WatchLegacy(read func(each func(LegacyReading))) {
	g.watch(func(emit Emit) {
		read(func(r LegacyReading) { emit(gatewayLegacyAge, r.Age.Seconds(), r.Cell) })
	})
}
