package gate

import (
	"fmt"
	"strings"

	"cellgate/shard"
)

// Pinned is the row after an operator pins the gate, or unpins it if pin is ""; nil if there is no pin
// to remove.
func Pinned(g *shard.Gate, pin shard.GateState, reason, who string) *shard.MoveGate {
	if pin == "" {
		if g == nil || g.Pin == "" {
			return nil
		}
		return &shard.MoveGate{
			Revision: g.Revision, Falls: g.Falls, State: g.State,
			Reason: strings.TrimSuffix(fmt.Sprintf("let go by %s: %s", who, reason), ": "),
		}
	}
	want := &shard.MoveGate{State: pin, Pin: pin, PinReason: reason}
	if g != nil {
		want.Revision, want.Falls, want.Reason = g.Revision, g.Falls, g.Reason
	}
	if g == nil || g.State != pin {
		want.Reason = fmt.Sprintf("pinned by %s: %s", who, reason)
	}
	return want
}
