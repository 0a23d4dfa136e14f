package gate

import (
	"fmt"
	"strings"

	"cellgate/shard"
)

// Pinned is the row after an operator pins the gate, or unpins it if pin is ""; nil if there is no pin
// to remove. read: a gateway reads Nova's tables for the cell.
func Pinned(g *shard.Gate, pin shard.GateState, reason, who string, read bool) *shard.MoveGate {
	if pin == "" {
		return unpinned(g, reason, who, read)
	}
	want := &shard.MoveGate{State: pin, Pin: pin, PinReason: reason}
	if !read && pin != shard.GateNative {
		want.ReturnTo = shard.GateNative // without a gate
	}
	if g != nil {
		want.Revision, want.Falls, want.Reason = g.Revision, g.Falls, g.Reason
		switch {
		case g.Pin != "" && g.ReturnTo != "":
			want.ReturnTo = g.ReturnTo
		case want.ReturnTo != "":
			want.ReturnTo = g.State
		}
	}
	if g == nil || g.State != pin {
		want.Reason = fmt.Sprintf("pinned by %s: %s", who, reason)
	}
	return want
}

// unpinned is the row without its pin; nil if there is none. If a gateway reads Nova's tables, the
// rules go on from the current state. Without such a gateway they would leave the gate there for good,
// so it returns to the state before the pin.
func unpinned(g *shard.Gate, reason, who string, read bool) *shard.MoveGate {
	if g == nil || g.Pin == "" {
		return nil
	}
	want := &shard.MoveGate{
		Revision: g.Revision, Falls: g.Falls, State: g.State,
		Reason: strings.TrimSuffix(fmt.Sprintf("let go by %s: %s", who, reason), ": "),
	}
	if g.ReturnTo != "" && !read {
		want.State = g.ReturnTo
	}
	return want
}
