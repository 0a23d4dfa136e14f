package gateway

import (
	"context"
	"sync"

	"cellgate/internal/fault"
	"cellgate/internal/security"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// resyncHosts makes the agents of a cell's hosts start over, at every replica: each
// has streams of its own. Replicas whose breaker is open are asked too.
func (g *Gateway) resyncHosts(ctx context.Context, req *cellgatev1.ResyncHostsRequest) (*cellgatev1.ResyncHostsResponse, error) {
	c := g.cellNamed(req.GetCell())
	switch {
	case c == nil:
		return nil, fault.New(fault.NotFound, "there is no cell %q", req.GetCell())
	case c.gate != nil && c.gate.cfg.Only:
		return nil, fault.Invalid("cell", "cell %s has no scheduler but one in the gateway (legacy_only): no agent reports to it", c.cfg.Name)
	}
	resp := &cellgatev1.ResyncHostsResponse{Replicas: make([]*cellgatev1.ResyncedReplica, len(c.replicas))}
	errs := make([]error, len(c.replicas))
	var asked sync.WaitGroup
	for i, r := range c.replicas {
		asked.Go(func() { resp.Replicas[i], errs[i] = r.resyncHosts(ctx, req) })
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
		err = fault.New(fault.NotFound, "no agent of host %s reports to cell %s", req.GetHostUuid(), c.cfg.Name)
	}
	g.tellResync(ctx, req, hosts, err)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func (r *replica) resyncHosts(ctx context.Context, req *cellgatev1.ResyncHostsRequest) (*cellgatev1.ResyncedReplica, error) {
	row := &cellgatev1.ResyncedReplica{Replica: r.addr}
	ctx, cancel := context.WithTimeout(ctx, r.cell.claimBudget)
	defer cancel()
	err := r.strange()
	var got *cellv1.ResyncHostsResponse
	if err == nil {
		got, err = r.client.ResyncHosts(ctx, &cellv1.ResyncHostsRequest{HostUuid: req.GetHostUuid(), Reason: req.GetReason(), Who: whoAsks(ctx)})
	}
	if err != nil {
		row.Error = reasonOf(err)
		return row, err
	}
	row.Hosts, row.Within = got.GetHosts(), got.GetWithin()
	return row, nil
}

// whoAsks names the caller for a cell's audit log.
func whoAsks(ctx context.Context) string {
	if id := security.FromContext(ctx); id != nil {
		return id.Name
	}
	return "an operator"
}

// tellResync logs that somebody made hosts start over, for the audit.
func (g *Gateway) tellResync(ctx context.Context, req *cellgatev1.ResyncHostsRequest, hosts int, err error) {
	told := []any{"cell", req.GetCell(), "host_uuid", req.GetHostUuid(), "reason", req.GetReason()}
	if who := security.FromContext(ctx); who != nil {
		told = append(told, "role", string(who.Role), "name", who.Name, "from", security.AddressOf(ctx))
	}
	outcome := "OK"
	if err != nil {
		outcome = string(fault.KindOf(err))
	}
	g.log.InfoContext(ctx, "an operator made hosts start over", append(told, "outcome", outcome, "hosts", hosts)...)
}
