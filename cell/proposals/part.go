package proposals

import (
	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Version is a table and, unless it has all of the shard's hosts, which it has.
type Version struct {
	Table *schedule.Table
	Part  *Part
}

// Rank asks the version, and remembers nothing.
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

// Part is what a table has of the shard's hosts: those that the shard found.
type Part struct {
	// Hosts the shard has; More: it would have found others, too.
	Hosts int
	More  bool
}

// ShardFilter stands in the reject counts for what a shard judged by itself: the
// host's state, amounts, traits, aggregates and zones.
const ShardFilter = "ShardFilter"

// complete makes an answer from the part one about all hosts of the shard, which it is
// unless there were more: that none of some passes says nothing.
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
