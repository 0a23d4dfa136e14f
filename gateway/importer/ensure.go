package importer

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Ensure sends one host of x now, with the instances that the rows have on it at this
// moment, whatever was sent before: for a claim on a host that the shard does not have.
// It does not wait for a Step. A host that x does not have, or that cannot be imported,
// is NOT_FOUND; what the cell refuses has the kind that the cell gives it.
func (m *Importer) Ensure(ctx context.Context, x *legacy.Snapshot, hostUUID string, c Caller) (*cellv1.ImportOutcome, error) {
	id, err := schedule.ParseID(hostUUID)
	if err != nil {
		return nil, fault.Invalid("host_uuid", "%v", err)
	}
	row, alone := find(x, id)
	if row == nil {
		return nil, fault.New(fault.NotFound, "compute_nodes has no host %s", hostUUID)
	}
	m.mu.Lock()
	witness := m.data.witness
	m.mu.Unlock()
	rows, err := m.rowsOf(x).InstancesOn(ctx, row.ServiceHost, witness)
	if err != nil {
		return nil, err
	}
	on := onHost(rows.Instances, row, alone)
	state, why := m.stateOf(row, servicesOf(x)[row.ServiceID], on, false)
	if why != nil {
		return nil, fault.New(fault.NotFound, "host %s cannot be imported: %s", row.ServiceHost, why.Detail)
	}
	sum, err := digestOf(state)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "host %s cannot be imported", row.ServiceHost)
	}
	h := m.ensuring(row, on, shapeOf(state))
	m.mu.Lock()
	m.data.read(rows)
	state.Version = m.nextVersion(x)
	m.mu.Unlock()
	out, err := c.ImportHosts(ctx, &cellv1.ImportHostsRequest{Hosts: []*cellv1.ImportedHost{{State: state}}, InstancesAt: timestamppb.New(wholeTo(rows))})
	if err != nil {
		return nil, err
	}
	if len(out.GetOutcomes()) != 1 {
		return nil, fault.New(fault.Internal, "the cell answered %d hosts of 1", len(out.GetOutcomes()))
	}
	o := out.GetOutcomes()[0]
	var r Report
	// Without inputs: the next step compares what it has with this.
	m.answered(work{host: h, state: state, sum: sum}, o, &r)
	if f := o.GetFailure(); f != nil && !newerThere(f) {
		return o, fault.New(fault.Kind(f.GetReason()), "host %s: %s", row.ServiceHost, f.GetMessage())
	}
	return o, nil
}

// find gives a host, and whether no other has its service host.
func find(x *legacy.Snapshot, id schedule.ID) (row *legacy.Host, alone bool) {
	for i := range x.Hosts {
		if x.Hosts[i].UUID == id {
			row = &x.Hosts[i]
		}
	}
	if row == nil {
		return nil, false
	}
	nodes := 0
	for i := range x.Hosts {
		if x.Hosts[i].ServiceHost == row.ServiceHost {
			nodes++
		}
	}
	return row, nodes == 1
}

// onHost are the instances of rows that are on a host.
func onHost(rows []legacy.Instance, h *legacy.Host, alone bool) (on []*instance) {
	for i := range rows {
		in, _ := held(&rows[i])
		if in != nil && in.at.host == h.ServiceHost && (in.at.node == h.NodeName || in.at.node == "" && alone) {
			on = append(on, in)
		}
	}
	return on
}

// ensuring notes that instances count from now on, and gives what is known of their
// host.
func (m *Importer) ensuring(row *legacy.Host, on []*instance, shape *agentv1.FullState) *host {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range on {
		if k := m.known.by[i.uuid]; k != nil && k.at == i.at {
			k.first = 0
		} else {
			m.known.early[i.uuid] = struct{}{}
		}
	}
	h := m.hosts[row.UUID]
	if h == nil {
		h = &host{}
		m.hosts[row.UUID] = h
	}
	h.at, h.shape = place{row.ServiceHost, row.NodeName}, shape
	return h
}
