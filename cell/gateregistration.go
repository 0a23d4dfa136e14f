package cell

import (
	"cellgate/shard"
)

// registrationsUnder says what is known of compute nodes under a gate. While Nova's tables
// speak for the hosts, what agents report is on their streams to this replica alone.
func (c *Cell) registrationsUnder(g *shard.Gate) func(uuid string) registration {
	return func(uuid string) registration {
		row := c.rows.registered(uuid)
		if row != nil && !row.Imported {
			return registration{agent: true, agentVersion: row.AgentVersion, lacks: c.gate.rules.lacking(row)}
		}
		said, rep := c.agents.heldState(uuid)
		if said == nil {
			return registration{}
		}
		r := registration{agent: true, agentVersion: said.AgentVersion, lacks: c.gate.rules.lacking(said)}
		if row != nil && g != nil && g.State == shard.GateShadow {
			r.differs = c.gate.comparisons.of(g.Epoch, hostComparison{row: row, usage: c.rows.host(uuid).usage, said: said, there: c.agents.instanceDifference(uuid, rep), now: c.now()})
		}
		return r
	}
}

// agentVersion is that of the agent that speaks for a host, or of one that is heard here while
// Nova's tables do; 0 for none.
func (c *Cell) agentVersion(h *shard.Host) int32 {
	if !h.Imported {
		return h.AgentVersion
	}
	if said, _ := c.agents.heldState(h.UUID); said != nil {
		return said.AgentVersion
	}
	return 0
}
