package gateway

import (
	"context"
	"sync"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// resyncHosts makes the agents of a cell's hosts start over, at every replica: each
// has streams of its own. Replicas whose breaker is open are asked too.
func (g *Gateway) resyncHosts(ctx context.Context, req *cellgatev1.ResyncHostsRequest) (*cellgatev1.ResyncHostsResponse, error) {
	c := g.cells.Named(req.GetCell())
	switch {
	case c == nil:
		return nil, fault.New(fault.NotFound, "%s", g.cells.NoCell(req.GetCell()))
	case g.gates[c].Only():
		return nil, fault.Invalid("cell", "cell %s has no scheduler but one in the gateway (legacy_only): no agent reports to it", c.Name())
	}
	resp := &cellgatev1.ResyncHostsResponse{Replicas: make([]*cellgatev1.ResyncedReplica, len(c.Replicas))}
	errs := make([]error, len(c.Replicas))
	var asked sync.WaitGroup
	for i, r := range c.Replicas {
		asked.Go(func() { resp.Replicas[i], errs[i] = r.ResyncHosts(ctx, req, whoAsks(ctx)) })
	}
	asked.Wait()
	hosts, err := 0, ctx.Err()
	for i, r := range resp.GetReplicas() {
		hosts = max(hosts, int(r.GetHosts()))
		if errs[i] != nil && err == nil {
			err = errs[i]
		}
	}
	switch {
	case hosts > 0:
		err = nil // what a replica failed with stands in its row
	case err == nil && req.GetHostUuid() != "":
		err = fault.New(fault.NotFound, "no agent of host %s reports to cell %s", req.GetHostUuid(), c.Name())
	}
	g.audit(ctx, "an operator made hosts start over", err, "cell", req.GetCell(), "host_uuid", req.GetHostUuid(), "reason", req.GetReason(), "hosts", hosts)
	if err != nil {
		return nil, err
	}
	return resp, nil
}
