package importer

import (
	"context"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// listPage is how many hosts or claims one call asks for.
const listPage = 1000

// askForGone asks the shard for its hosts, once for each Importer. Hosts without a row are
// gone since a time when no gateway imported; others may go before they are first sent.
func (m *Importer) askForGone(ctx context.Context, c Cell) error {
	if m.asked {
		return nil
	}
	err := eachHost(ctx, c, func(in *cellgatev1.Host) {
		id, err := schedule.ParseID(in.GetHostUuid())
		if err != nil {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.hosts[id] == nil {
			m.hosts[id] = &host{shape: shapeOfHost(in), at: place{in.GetServiceHost(), in.GetNodename()}}
		}
	})
	m.asked = err == nil
	return err
}

// agents reports whether an agent reports a host of the cell; false for nil.
func agents(in *cellgatev1.Host) bool { return in != nil && !in.GetImported() }

// shapeOfHost gives the shape of a host that an earlier import wrote.
func shapeOfHost(in *cellgatev1.Host) *agentv1.FullState {
	root := &agentv1.Provider{Uuid: in.GetHostUuid(), Name: in.GetNodename()}
	for _, i := range in.GetInventories() {
		if i.GetProviderUuid() == in.GetHostUuid() {
			root.Inventories = append(root.Inventories, &agentv1.Inventory{
				ResourceClass: i.GetResourceClass(), Total: i.GetTotal(), Reserved: i.GetReserved(), MinUnit: i.GetMinUnit(), MaxUnit: i.GetMaxUnit(),
				StepSize: i.GetStepSize(), AllocationRatio: i.GetAllocationRatio(), Unaccounted: i.GetUnaccounted(),
			})
		}
	}
	return &agentv1.FullState{Cell: in.GetCell(), HostUuid: in.GetHostUuid(), ServiceHost: in.GetServiceHost(), Nodename: in.GetNodename(), Providers: []*agentv1.Provider{root}}
}

func eachHost(ctx context.Context, c Cell, do func(*cellgatev1.Host)) error {
	in := &cellv1.ListHostsRequest{PageSize: listPage}
	for {
		out, err := c.ListHosts(ctx, in)
		if err != nil {
			return err
		}
		for _, h := range out.GetHosts() {
			do(h)
			in.AfterServiceHost, in.AfterHostUuid = h.GetServiceHost(), h.GetHostUuid()
		}
		if !out.GetMore() || len(out.GetHosts()) == 0 {
			return nil
		}
	}
}
