package gate

import (
	"fmt"
	"strings"

	"cellgate/shard"
)

// Pinned is the row after an operator's pin; nil when there is none to remove. read: a
// gateway reads Nova's tables for the cell.
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

// unpinned is the row without its pin; nil for none. While a gateway reads Nova's tables the
// rules go on from the state that the gate is in. Without one they would leave it there for
// good, so it goes back to where the pin found it.
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
