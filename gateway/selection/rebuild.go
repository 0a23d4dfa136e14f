package selection

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// toRebuild turns a rebuild into a request for the instance's own host: the host that the
// request names, else its claim's. Only the filters run that Nova runs on a rebuild.
// Resources, traits, aggregates and the group are not checked, since Nova does not ask
// Placement.
func (s *selection) toRebuild(ctx context.Context) error {
	if !s.rebuilds() {
		return nil
	}
	only := schedule.NovaRequest{}
	if s.request.Nova != nil {
		only = *s.request.Nova
	}
	only.Rebuild = true
	r := &schedule.Request{
		IgnoreHosts: s.request.IgnoreHosts, ForceHosts: s.request.ForceHosts, ForceNodes: s.request.ForceNodes,
		Destination: s.request.Destination, CheckForced: true, Nova: &only,
	}
	named := len(r.ForceHosts) > 0 || len(r.ForceNodes) > 0 || r.Destination != nil && (r.Destination.Host != "" || r.Destination.Node != "")
	if !named {
		d, err := s.ownHost(ctx)
		if err != nil {
			return err
		}
		r.Destination = d
	}
	s.request, s.originalRequest, s.alternates = r, r, 0
	return nil
}

// ownHost finds the instance's host by its claims. A pending move does not count, since the
// instance is still at its source.
func (s *selection) ownHost(ctx context.Context) (*schedule.Destination, error) {
	bounded, cancel := context.WithTimeout(ctx, cellclient.StepBudget(ctx, s.svc.Cells.ProposeBudget))
	defer cancel()
	instance := s.instances[0].String()
	replies := s.svc.Claims.Find(bounded, s.svc.Cells.All, instance)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var at *cellclient.Cell
	var best *cellgatev1.Claim
	for i, r := range replies {
		s.cells[i].answered = r.Err == nil
		for _, c := range r.Got {
			if best == nil || claims.CompareClaims(c, best) < 0 {
				at, best = r.Cell, c
			}
		}
	}
	if best == nil {
		err := cellclient.NotFound(replies, "live claim of consumer "+instance)
		if fault.KindOf(err) == fault.NotFound {
			return nil, fault.Invalid(s.form()+".force_hosts",
				"names no host, and instance %s has no claim that would say which one it is on: name its host here or in requested_destination", instance)
		}
		return nil, err
	}
	d := &schedule.Destination{Host: best.GetServiceHost(), Cell: at.UUID()}
	// A cell that did not answer the search has used up its time: this call has its own.
	hosts, err := cellclient.Call(ctx, at, cellclient.StepBudget(ctx, s.svc.Cells.ProposeBudget), &cellv1.ListHostsRequest{HostUuid: best.GetHostUuid(), PageSize: 1},
		cellv1.CellSchedulerClient.ListHosts)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Wrap(fault.CellUnavailable, err, "instance %s is in cell %s, which does not answer: %s", instance, at.Name(), cellclient.ReasonOf(err)).
			With("cells", at.Name())
	}
	if len(hosts.GetHosts()) > 0 {
		d.Node = hosts.GetHosts()[0].GetNodename()
	}
	return d, nil
}
