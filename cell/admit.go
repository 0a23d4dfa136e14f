package cell

import (
	"context"
	"errors"
	"fmt"

	"cellgate/internal/fault"
	"cellgate/internal/security"
	"cellgate/shard"
)

// admit refuses a host whose row would take more than its caller, or the cell, may have,
// and one that names another host's provider. settle is called when the row is in the table,
// or was not written. A row that is no larger than the one before is always within the limits.
func (c *agentService) admit(ctx context.Context, h *shard.Host) (settle func(), err error) {
	r := c.rows
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range h.Providers {
		if of, known := r.index.byProvider[h.Providers[i].UUID]; known && of != h.UUID {
			return nil, fault.Invalid(fmt.Sprintf("providers[%d].uuid", i), "is a provider of host %s", of)
		}
	}
	next := &comingHost{service: h.ServiceHost, more: loadOf(h)}
	if row := r.hosts[h.UUID]; row != nil {
		next.more = next.more.minus(loadOf(row.host))
	}
	if next.more.hosts <= 0 && next.more.bytes <= 0 {
		return func() {}, nil
	}
	r.index.settle(h.UUID, r.index.coming[h.UUID])
	if id := security.FromContext(ctx); id != nil {
		err = overLimit(r.index.of(id).plus(next.more), c.cfg.MaxAgentHosts, c.cfg.MaxAgentHostsMiB, fmt.Sprintf("credential %q", id.Name), "max_agent_hosts")
	}
	if err == nil {
		err = overLimit(r.index.all.plus(next.more), c.cfg.MaxHosts, c.cfg.MaxHostsMiB, "cell "+c.cfg.Cell, "max_hosts")
	}
	if err != nil {
		return nil, err
	}
	r.index.expect(h.UUID, next)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.index.settle(h.UUID, next)
	}, nil
}

// errHostLimit is in the chain of errors of admit that a limit is the reason of.
var errHostLimit = errors.New("a limit of hosts")

func overLimit(l hostLoad, hosts, mib int, whose, key string) error {
	const remedy = `remove hosts that are no more ("cellgate hosts delete") or raise the limit`
	var over *fault.Error
	switch {
	case l.hosts > hosts:
		over = fault.Invalid("host_uuid", "%s may have %d hosts (cell.%s): %s", whose, hosts, key, remedy)
	case l.bytes > int64(mib)<<20:
		over = fault.Invalid("host_uuid", "the hosts of %s may take %d MiB (cell.%s_mib): %s", whose, mib, key, remedy)
	default:
		return nil
	}
	over.Cause = errHostLimit
	return over
}
