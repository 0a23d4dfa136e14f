package cell

import (
	"context"
	"time"

	"cellgate/cell/gate"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// gateTries is how often a move of the gate is tried if other replicas move it first.
const gateTries = 4

// mayImport reports whether a gateway should import, in any state of the gate.
func (c *Cell) mayImport(req *cellv1.ReportLegacyRequest, g *shard.Gate) bool {
	return g != nil && c.gate.LendImport(req.GetGateway(), req.GetImportedAge())
}

// judgeGate judges the gate and, with move, moves it. It returns the gate afterwards and the matching
// judgement. imported is a moment of store time at which all of Nova's tables were in the shard; zero
// for none.
func (c *Cell) judgeGate(ctx context.Context, move bool, imported time.Time) (*shard.Gate, gate.Judgement, error) {
	select {
	case c.gate.Judging <- struct{}{}:
		defer func() { <-c.gate.Judging }()
	case <-ctx.Done():
		return nil, gate.Judgement{}, ctx.Err()
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, gate.Judgement{}, replica.StoreFault(err)
	}
	g := c.rows.GateRow()
	for range gateTries {
		v := c.gate.Rules.Judge(g, c.gate.Evidence(now, c.registrationsUnder(g)))
		if g == nil || imported.Sub(g.RowsAt) >= replica.RowsEvery {
			v.Want.RowsAt = imported
		}
		c.gate.NoteJudgement(v)
		if !move || gate.IsAsWanted(g, &v.Want) {
			return g, v, nil
		}
		next, moved, err := c.moveGate(ctx, g, &v.Want, operator{})
		if err != nil {
			return nil, v, err
		}
		if g = next; moved {
			// The judgement was of the state before the move.
			v = c.gate.Rules.Judge(g, c.gate.Evidence(now, c.registrationsUnder(g)))
			c.gate.NoteJudgement(v)
			return g, v, nil
		}
	}
	return nil, gate.Judgement{}, fault.New(fault.Contended, "others move the gate of cell %s all the time", c.cfg.Name)
}

// operator identifies the operator who moves the gate; zero if the rules move it.
type operator struct{ who, why string }

// moveGate writes the gate. It logs every move, and each pin or unpin by an operator. If another
// replica wrote first, moved is false, and next is the row that the other one wrote.
func (c *Cell) moveGate(ctx context.Context, old *shard.Gate, want *shard.MoveGate, by operator) (next *shard.Gate, moved bool, err error) {
	if old != nil && old.RowsAt.After(want.RowsAt) {
		want.RowsAt = old.RowsAt
	}
	out, err := c.queue.DoOne(ctx, shard.Op{MoveGate: want}, true)
	if err != nil {
		return nil, false, err
	}
	if r := out.Refusal; r != nil {
		if r.Kind == fault.StaleGeneration {
			c.table.Writer.PublishGate(out.Gate)
			return out.Gate, false, nil
		}
		return nil, false, fault.New(r.Kind, "%s", r.Message)
	}
	from, pin := "none", shard.GateState("")
	if old != nil {
		from, pin = string(old.State), old.Pin
	}
	switch g := out.Gate; {
	case string(g.State) != from:
		c.tel.GateMoved(string(g.State))
		c.log.Warn("audit: the gate moved", "from", from, "to", g.State, "epoch", g.Epoch, "reason", g.Reason, "who", by.who)
	case g.Pin == "" && pin != "":
		c.log.Warn("audit: the gate was let go", "state", g.State, "pinned", pin, "epoch", g.Epoch, "reason", by.why, "who", by.who)
	case by != operator{}:
		c.log.Warn("audit: the gate was pinned", "state", g.State, "epoch", g.Epoch, "reason", by.why, "who", by.who)
	}
	return out.Gate, true, nil
}

// registrationsUnder returns a function that says what this replica knows of a compute node under a
// gate. While Nova's tables report the hosts, agents' states are only on their streams to this replica.
func (c *Cell) registrationsUnder(g *shard.Gate) func(uuid string) gate.Registration {
	return func(uuid string) gate.Registration {
		row := c.rows.HostInService(uuid)
		if row != nil && !row.Imported {
			return gate.Registration{Agent: true, AgentVersion: row.AgentVersion, Lacks: c.gate.Rules.Lacking(row)}
		}
		held, rep := c.agents.HeldState(uuid)
		if held == nil {
			return gate.Registration{}
		}
		r := gate.Registration{Agent: true, AgentVersion: held.AgentVersion, Lacks: c.gate.Rules.Lacking(held)}
		if row != nil && g != nil && g.State == shard.GateShadow {
			r.Differs = c.gate.Comparisons.Differences(g.Epoch, gate.HostComparison{Row: row, Usage: c.rows.Host(uuid).Usage, Reported: held, There: c.agents.InstanceDifference(uuid, rep), Now: c.now()})
		}
		return r
	}
}

// agentVersion is the version of the agent that reports a host, 0 for none. For an imported host, it is
// the agent that reports the host to this replica.
func (c *Cell) agentVersion(h *shard.Host) int32 {
	if !h.Imported {
		return h.AgentVersion
	}
	if held, _ := c.agents.HeldState(h.UUID); held != nil {
		return held.AgentVersion
	}
	return 0
}
