package agents

import (
	"context"
	"fmt"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/security"
	"cellgate/shard"
)

// maxNames bounds the size of the names that a cell's hosts have, in bytes. A summary has each up to three times, and
// gateways accept no answer above 16 MiB.
const maxNames = 4 << 20

// admit refuses a host whose row would exceed the limits of its caller or of the cell, one that
// brings too many names, and one that names another host's provider. The caller calls settle when the
// row is in the table or was not written. A row that is no larger than the row before it, and has no
// new names, is always within the limits.
func (s *Service) admit(ctx context.Context, h *shard.Host) (settle func(), err error) {
	if i, of := s.rows.ForeignProvider(h); i >= 0 {
		return nil, fault.Invalid(fmt.Sprintf("providers[%d].uuid", i), "is a provider of host %s", of)
	}
	id := security.FromContext(ctx)
	var hosts []string
	if id != nil {
		hosts = id.Hosts
	}
	return s.rows.Reserve(h, hosts, func(caller, all replica.HostLoad, names int64) (err error) {
		if id != nil {
			err = overLimit(caller, s.cfg.MaxAgentHosts, s.cfg.MaxAgentHostsMiB, fmt.Sprintf("credential %q", id.Name), "max_agent_hosts")
		}
		if err == nil {
			err = overLimit(all, s.cfg.MaxHosts, s.cfg.MaxHostsMiB, "cell "+s.cfg.Cell, "max_hosts")
		}
		if err == nil && names > maxNames {
			err = fault.Invalid("providers", "the traits, resource classes and aggregates of all hosts of the cell may have names of %d MiB together: use the names of other hosts", maxNames>>20)
		}
		return err
	})
}

func overLimit(l replica.HostLoad, hosts, mib int, whose, key string) error {
	const remedy = `remove hosts that are no more ("cellgate hosts delete") or raise the limit`
	switch {
	case l.Hosts > hosts:
		return fault.Invalid("host_uuid", "%s may have %d hosts (cell.%s): %s", whose, hosts, key, remedy)
	case l.Bytes > int64(mib)<<20:
		return fault.Invalid("host_uuid", "the hosts of %s may take %d MiB (cell.%s_mib): %s", whose, mib, key, remedy)
	}
	return nil
}

// CheckCell refuses an agent that does not name this cell: its hosts would be in
// two cells, and each would claim their capacity.
func (c *Service) CheckCell(named string) error {
	switch named {
	case c.cfg.Cell:
		return nil
	case "":
		return fault.Invalid("cell", "the agent names no cell; this is cell %q", c.cfg.Cell)
	}
	return fault.Invalid("cell", "the agent is of cell %q; this is cell %q", named, c.cfg.Cell)
}
