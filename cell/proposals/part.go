package proposals

import (
	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Version is a table, and for a table of only some of the shard's hosts, which part of them it has.
type Version struct {
	Table *schedule.Table
	Part  *Part
}

// Rank queries the version without caching anything.
func (at Version) Rank(q *schedule.Query) (*schedule.Proposal, error) {
	found, err := at.Table.Propose(q)
	if err != nil {
		return nil, QueryFailure(err)
	}
	if at.Part == nil {
		return found, nil
	}
	return found, at.Part.complete(found)
}

// Part describes a table that has only the hosts that a shard's search found.
type Part struct {
	// Hosts is the number of hosts in the shard. More: the search was cut off before it found all
	// hosts.
	Hosts int
	More  bool
}

// ShardFilter stands in the reject counts for the checks that the shard makes itself: the host's state,
// amounts, traits, aggregates and zones.
const ShardFilter = "ShardFilter"

// complete turns an answer from a part into an answer about all hosts of the shard. It fails if the
// search was cut off and no found host passes: then others may pass.
func (p *Part) complete(found *schedule.Proposal) error {
	switch {
	case p.More && found.Passed == 0:
		return fault.New(fault.CellUnavailable, "the cell's replica is loading its shard, and none passes of the %d hosts that it could look at", found.Hosts)
	case !p.More && p.Hosts > found.Hosts:
		found.Rejects = append([]schedule.Reject{{Filter: ShardFilter, Hosts: p.Hosts - found.Hosts}}, found.Rejects...)
		found.Hosts = p.Hosts
	}
	return nil
}
