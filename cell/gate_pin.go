package cell

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// PinGate holds the gate where an operator wants it, at once, or lets it move again by
// the rules, at once too. A state that the cell cannot serve is refused unless forced.
func (s *scheduler) PinGate(ctx context.Context, req *cellv1.PinGateRequest) (*cellv1.PinGateResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	if err := s.journal.caughtUp(ctx); err != nil {
		return nil, err
	}
	g, pin, read := s.rows.gateRow(), shardState(req.GetPin()), s.gate.isRead()
	if pin != "" && !req.GetForce() {
		if err := s.cannotServe(pin, read); err != nil {
			return nil, err
		}
	}
	for range gateTries {
		want := pinned(g, pin, req.GetReason(), req.GetWho(), read)
		switch {
		case want != nil:
		case g == nil:
			return nil, fault.New(fault.NotFound, "cell %s has no gate to let go", s.cfg.Name)
		default:
			return nil, fault.New(fault.NotFound, "the gate of cell %s is not pinned: it is %s by the rules, and nothing was changed", s.cfg.Name, g.State)
		}
		next, moved, err := s.moveGate(ctx, g, want, word{orSomebody(req.GetWho()), req.GetReason()})
		if err != nil {
			return nil, err
		}
		if g = next; !moved {
			continue
		}
		g, v, err := s.judged(ctx, pin == "", time.Time{})
		if err != nil {
			return nil, err
		}
		return &cellv1.PinGateResponse{Gate: s.gateMessage(g, v)}, nil
	}
	return nil, fault.New(fault.Contended, "others move the gate of cell %s all the time", s.cfg.Name)
}

// pinned is the row after an operator's word; nil when there is nothing to let go. read: a
// gateway reads Nova's tables for the cell.
func pinned(g *shard.Gate, pin shard.GateState, reason, who string, read bool) *shard.MoveGate {
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
		case g.Pin != "":
			want.ReturnTo = g.ReturnTo
		case want.ReturnTo != "":
			want.ReturnTo = g.State
		}
	}
	if g == nil || g.State != pin {
		want.Reason = fmt.Sprintf("pinned by %s: %s", orSomebody(who), reason)
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
		Reason: strings.TrimSuffix(fmt.Sprintf("let go by %s: %s", orSomebody(who), reason), ": "),
	}
	if g.ReturnTo != "" && !read {
		want.State = g.ReturnTo
	}
	return want
}

// cannotServe says why a cell would place nothing with its gate at a state; nil when it would.
func (c *Cell) cannotServe(state shard.GateState, read bool) error {
	why, do := "", ""
	switch {
	case state == shard.GateNative && !c.rows.anyHostOfAgent() && len(c.agents.sessions.hosts()) == 0:
		why, do = "no agent reports a host", "start the agents first"
	case state != shard.GateNative && !read:
		why, do = "no gateway reads Nova's tables for it", "set gateway.legacy of the gateways first, and see that their database answers"
	default:
		return nil
	}
	return fault.New(fault.FailedPrecondition, "cell %s cannot serve at %s: %s. It would be unavailable, so nothing was changed: %s; or force it", c.cfg.Name, state, why, do).With("cell", c.cfg.Name)
}

// anyHostOfAgent reports whether an agent has registered a host that the shard has.
func (r *rows) anyHostOfAgent() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, row := range r.hosts {
		if row != nil && row.host != nil && !row.host.Imported {
			return true
		}
	}
	return false
}

// isRead reports whether a gateway that was heard lately reads Nova's tables.
func (k *gatekeeper) isRead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	for _, g := range k.gateways {
		if g.unreadable == "" {
			return true
		}
	}
	return false
}

func orSomebody(who string) string {
	if who == "" {
		return "an operator"
	}
	return who
}
