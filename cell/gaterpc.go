package cell

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/cell/gate"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// ReportLegacy processes a gateway's report of Nova's tables and answers with the resulting gate. It
// moves the gate, unless the gateway only asks. Any replica may be called.
func (s *scheduler) ReportLegacy(ctx context.Context, req *cellv1.ReportLegacyRequest) (*cellv1.ReportLegacyResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	if err := s.placing(); err != nil {
		return nil, err
	}
	if err := s.journal.AwaitFresh(ctx); err != nil {
		return nil, err
	}
	out := &cellv1.ReportLegacyResponse{}
	move := !req.GetLook()
	if move {
		report := gate.ReportOf(req)
		out.SendServices = !s.gate.AddReport(report, req.GetRevision(), req.GetUnchanged())
		move = !out.SendServices
	}
	var imported time.Time
	if age := req.GetImportedAge(); age != nil && req.GetImporter() && s.gate.IsImporter(req.GetGateway()) {
		now, err := s.store.Now(ctx)
		if err != nil {
			return nil, replica.StoreFault(err)
		}
		imported = now.Add(-max(0, age.AsDuration()))
	}
	g, v, err := s.judgeGate(ctx, move, imported)
	if err != nil {
		return nil, err
	}
	out.Gate = s.gate.Message(g, v)
	if req.GetImporter() && s.mayImport(req, g) {
		out.ImportFor = durationpb.New(gate.ImportLease)
	}
	return out, nil
}

// FindUnclaimed returns the instances, among those given, that have no live claim here. The answer
// holds at a moment of store time that is not earlier than At: the table may be MaxBehind behind other
// replicas.
func (s *scheduler) FindUnclaimed(ctx context.Context, req *cellv1.FindUnclaimedRequest) (*cellv1.FindUnclaimedResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	instances, err := uuidsIn("instances", req.GetInstances())
	if err != nil {
		return nil, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, replica.StoreFault(err)
	}
	if err := s.journal.AwaitFresh(ctx); err != nil {
		return nil, err
	}
	out := &cellv1.FindUnclaimedResponse{At: timestamppb.New(now.Add(-replica.MaxBehind))}
	for _, id := range instances {
		if len(s.rows.ClaimsOfInstance(id.String())) == 0 {
			out.Unclaimed = append(out.Unclaimed, id[:]...)
		}
	}
	return out, nil
}

// PinGate pins the gate to a state, or unpins it so that the rules move it again; both take effect at
// once. A state that the cell cannot serve is refused unless forced.
func (s *scheduler) PinGate(ctx context.Context, req *cellv1.PinGateRequest) (*cellv1.PinGateResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	if err := s.journal.AwaitFresh(ctx); err != nil {
		return nil, err
	}
	g, pin := s.rows.GateRow(), gate.StateOf(req.GetPin())
	if pin != "" && !req.GetForce() {
		if err := s.cannotServe(pin); err != nil {
			return nil, err
		}
	}
	for range gateTries {
		want := gate.Pinned(g, pin, req.GetReason(), orSomebody(req.GetWho()))
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

// cannotServe says why a cell would place nothing in a state of the gate; nil if it would place
// instances.
func (c *Cell) cannotServe(state shard.GateState) error {
	why, do := "", ""
	switch {
	case state == shard.GateNative && !slices.ContainsFunc(c.rows.HostsInService(), func(row *replica.HostRow) bool { return !row.Host.Imported }) && len(c.agents.Streams.Hosts()) == 0:
		why, do = "no agent reports a host", "start the agents first"
	case state != shard.GateNative && !c.gate.IsRead():
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
