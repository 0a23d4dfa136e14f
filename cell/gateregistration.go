package cell

import (
	"cellgate/cell/gate"
	"cellgate/shard"
)

// registrationsUnder says what is known of compute nodes under a gate. While Nova's tables
// speak for the hosts, what agents report is on their streams to this replica alone.
func (c *Cell) registrationsUnder(g *shard.Gate) func(uuid string) gate.Registration {
	return func(uuid string) gate.Registration {
		row := c.rows.HostInService(uuid)
		if row != nil && !row.Imported {
			return gate.Registration{Agent: true, AgentVersion: row.AgentVersion, Lacks: c.gate.Rules.Lacking(row)}
		}
		said, rep := c.agents.HeldState(uuid)
		if said == nil {
			return gate.Registration{}
		}
		r := gate.Registration{Agent: true, AgentVersion: said.AgentVersion, Lacks: c.gate.Rules.Lacking(said)}
		if row != nil && g != nil && g.State == shard.GateShadow {
			r.Differs = c.gate.Comparisons.Differences(g.Epoch, gate.HostComparison{Row: row, Usage: c.rows.Host(uuid).Usage, Said: said, There: c.agents.InstanceDifference(uuid, rep), Now: c.now()})
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
	if said, _ := c.agents.HeldState(h.UUID); said != nil {
		return said.AgentVersion
	}
	return 0
}
