package cell

import (
	"context"
	"time"

	"cellgate/cell/gate"
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
	if err := s.journal.AwaitFresh(ctx); err != nil {
		return nil, err
	}
	g, pin, read := s.rows.GateRow(), gate.StateOf(req.GetPin()), s.gate.IsRead()
	if pin != "" && !req.GetForce() {
		if err := s.cannotServe(pin, read); err != nil {
			return nil, err
		}
	}
	for range gateTries {
		want := gate.Pinned(g, pin, req.GetReason(), orSomebody(req.GetWho()), read)
		switch {
		case want != nil:
		case g == nil:
			return nil, fault.New(fault.NotFound, "cell %s has no gate to let go", s.cfg.Name)
		default:
			return nil, fault.New(fault.NotFound, "the gate of cell %s is not pinned: it is %s by the rules, and nothing was changed", s.cfg.Name, g.State)
		}
		next, moved, err := s.moveGate(ctx, g, want, operator{orSomebody(req.GetWho()), req.GetReason()})
		if err != nil {
			return nil, err
		}
		if g = next; !moved {
			continue
		}
		g, v, err := s.judgeGate(ctx, pin == "", time.Time{})
		if err != nil {
			return nil, err
		}
		return &cellv1.PinGateResponse{Gate: s.gate.Message(g, v)}, nil
	}
	return nil, fault.New(fault.Contended, "others move the gate of cell %s all the time", s.cfg.Name)
}

// cannotServe says why a cell would place nothing with its gate at a state; nil when it would.
func (c *Cell) cannotServe(state shard.GateState, read bool) error {
	why, do := "", ""
	switch {
	case state == shard.GateNative && !c.rows.AnyHostOfAgent() && len(c.agents.Streams.Hosts()) == 0:
		why, do = "no agent reports a host", "start the agents first"
	case state != shard.GateNative && !read:
		why, do = "no gateway reads Nova's tables for it", "set gateway.legacy of the gateways first, and see that their database answers"
	default:
		return nil
	}
	return fault.New(fault.FailedPrecondition, "cell %s cannot serve at %s: %s. It would be unavailable, so nothing was changed: %s; or force it", c.cfg.Name, state, why, do).With("cell", c.cfg.Name)
}

func orSomebody(who string) string {
	if who == "" {
		return "an operator"
	}
	return who
}
