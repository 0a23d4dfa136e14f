package shard

import (
	"fmt"
	"time"

	"cellgate/internal/fault"
)

// GateState says where the candidates of a cell come from.
type GateState string

// The states. In LEGACY and SHADOW the rows of hosts come from Nova's own tables (Host.Imported). In NATIVE they come
// from agents, for hosts that have one. A cell without a gate is NATIVE.
const (
	GateLegacy GateState = "LEGACY"
	GateShadow GateState = "SHADOW"
	GateNative GateState = "NATIVE"
)

// Gate is the state of a cell's upgrade; a shard has at most one. The cell decides when it moves, and uses its times
// and counts; the store only keeps them.
type Gate struct {
	State GateState
	// Epoch counts the moves from one state to another, from 1.
	Epoch int64
	// Revision counts the writes of the row, from 1; the higher one is newer.
	Revision int64
	// Since is when State was entered, in store time.
	Since  time.Time
	Reason string
	// Pin is the state in which an operator holds the gate; empty for no pin.
	Pin       GateState
	PinReason string
	// HeldSince is since when the conditions of the next state have held without a break; zero when they do not hold.
	// HeldUntil is when that was last written.
	HeldSince, HeldUntil time.Time
	// Falls is how often the gate has recently fallen back.
	Falls int32
	// RowsAt is a moment of store time at which the shard had all of Nova's rows of hosts. Zero: not known.
	RowsAt time.Time
}

// Native reports whether agents speak for their hosts: the gate is NATIVE, or there is none.
func (g *Gate) Native() bool { return g == nil || g.State == GateNative }

// MoveGate writes the gate, or creates it. Another State is a move, with the next epoch. If the row's revision is not
// Revision (0: no row exists; -1 matches none), it is refused, STALE_GENERATION, and Outcome.Gate is the stored row.
// An equal gate is not written.
type MoveGate struct {
	Revision int64
	// State must be set.
	State                GateState
	Reason               string
	Pin                  GateState
	PinReason            string
	HeldSince, HeldUntil time.Time
	Falls                int32
	RowsAt               time.Time
}

// moveGate is the compare-and-swap of the gate's row.
func (t *transaction) moveGate(m *MoveGate) Outcome {
	old := t.view.Gate
	revision := int64(0)
	if old != nil {
		revision = old.Revision
	}
	if m.Revision != revision {
		o := refused(fault.StaleGeneration, "the gate is of revision %d, not %d", revision, m.Revision)
		o.Gate = old
		return o
	}
	g := &Gate{
		State: m.State, Epoch: 1, Revision: revision + 1, Since: t.now, Reason: m.Reason, Pin: m.Pin, PinReason: m.PinReason,
		HeldSince: m.HeldSince.Round(0).UTC(), HeldUntil: m.HeldUntil.Round(0).UTC(), Falls: m.Falls, RowsAt: m.RowsAt.Round(0).UTC(),
	}
	if old != nil {
		g.Epoch, g.Since = old.Epoch, old.Since
		if old.State != m.State {
			g.Epoch, g.Since = old.Epoch+1, t.now
		}
		same := *g
		same.Revision = old.Revision
		if same.HeldSince.Equal(old.HeldSince) && same.HeldUntil.Equal(old.HeldUntil) && same.RowsAt.Equal(old.RowsAt) {
			same.HeldSince, same.HeldUntil, same.RowsAt = old.HeldSince, old.HeldUntil, old.RowsAt
			if same == *old {
				return Outcome{Gate: old}
			}
		}
	}
	t.view.Gate = g
	t.touch(gateRow, "")
	return Outcome{Gate: g}
}

func (s GateState) known() bool { return s == GateLegacy || s == GateShadow || s == GateNative }

func (m *MoveGate) problem() string {
	switch {
	case !m.State.known():
		return fmt.Sprintf("state: is %q, must be LEGACY, SHADOW or NATIVE", m.State)
	case m.Pin != "" && !m.Pin.known():
		return fmt.Sprintf("pin: is %q, must be empty, LEGACY, SHADOW or NATIVE", m.Pin)
	case m.Falls < 0:
		return "falls: must not be negative"
	}
	return textProblem("reason or pin_reason", m.Reason, m.PinReason)
}
