package cell

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"cellgate/cell/agents"
	"cellgate/cell/replica"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func compareHosts(a, b *replica.HostRow) int {
	return cmp.Or(cmp.Compare(a.Host.ServiceHost, b.Host.ServiceHost), cmp.Compare(a.Host.UUID, b.Host.UUID))
}

// ListHosts lists the hosts this replica knows, by service host, then uuid.
func (s *scheduler) ListHosts(_ context.Context, req *cellv1.ListHostsRequest) (*cellv1.ListHostsResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	var r reader
	only := ""
	if req.GetHostUuid() != "" {
		only = r.UUID("host_uuid", req.GetHostUuid())
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	out := &cellv1.ListHostsResponse{}
	size := pageSize(req.GetPageSize())
	var rows []*replica.HostRow
	if only == "" {
		rows = s.rows.HostsInService()
		slices.SortFunc(rows, compareHosts)
	} else if row := s.rows.Host(only); row != nil && row.Host != nil {
		rows = []*replica.HostRow{row}
	}
	for _, row := range rows {
		h := row.Host
		if after := cmp.Or(cmp.Compare(h.ServiceHost, req.GetAfterServiceHost()), cmp.Compare(h.UUID, req.GetAfterHostUuid())); after <= 0 {
			continue
		}
		if !matches(row, req) {
			continue
		}
		if len(out.Hosts) == size {
			out.More = true
			break
		}
		m := s.hostMessage(row, req.GetDefaultAvailabilityZone())
		if only != "" && req.GetWantNamespaces() {
			m.Namespaces = s.namespaceMessages(row)
		}
		out.Hosts = append(out.Hosts, m)
	}
	return out, nil
}

// matches reports whether a host passes the filters of a request.
func matches(row *replica.HostRow, req *cellv1.ListHostsRequest) bool {
	if part := req.GetNameContains(); part != "" &&
		!strings.Contains(strings.ToLower(row.Host.ServiceHost), strings.ToLower(part)) {
		return false
	}
	if zone := req.GetAvailabilityZone(); zone != "" {
		zones := replica.ZonesOf(row.Host)
		if !slices.Contains(zones, zone) && (len(zones) > 0 || zone != req.GetDefaultAvailabilityZone()) {
			return false
		}
	}
	if trait := req.GetTrait(); trait != "" {
		root := replica.RootOf(row.Host)
		return root != nil && slices.Contains(root.Traits, trait)
	}
	return true
}

// hostMessage is a host as people see it; defaultZone is the zone of one that is
// in none.
func (c *Cell) hostMessage(row *replica.HostRow, defaultZone string) *cellgatev1.Host {
	h := row.Host
	seen, up := c.live.LastSeen(h.UUID)
	out := &cellgatev1.Host{
		HostUuid:         h.UUID,
		ServiceHost:      h.ServiceHost,
		Nodename:         h.NodeName,
		Cell:             c.cfg.Name,
		Enabled:          !h.Disabled,
		DisabledReason:   h.DisabledReason,
		Up:               !c.rows.Down(row, !up),
		AgentVersion:     c.agentVersion(h),
		LastSeenAt:       timeOf(seen),
		Generation:       h.Generation,
		Imported:         h.Imported,
		Admin:            adminMessage(row.Admin),
		InstancesUnknown: row.InstancesUnknown(),
		Refused:          agents.RefusedMessage(c.agents.RefusalOf(h.UUID)),
	}
	out.AvailabilityZone = defaultZone
	if zones := replica.ZonesOf(h); len(zones) > 0 {
		out.AvailabilityZone = zones[0]
	}
	if root := replica.RootOf(h); root != nil {
		out.Traits = root.Traits
	}
	if u := row.Usage; u != nil {
		out.Instances = u.Pending + u.Confirmed
		out.Generation = max(out.Generation, u.Generation)
	}
	for _, a := range h.Aggregates {
		out.Aggregates = append(out.Aggregates, &cellgatev1.HostAggregate{Uuid: a.UUID, Name: a.Name, Metadata: a.Metadata})
	}
	for _, p := range h.Providers {
		for _, i := range p.Inventories {
			out.Inventories = append(out.Inventories, &cellgatev1.HostInventory{
				ProviderUuid:    p.UUID,
				ResourceClass:   i.ResourceClass,
				Total:           int32(i.Total),
				Reserved:        int32(i.Reserved),
				MinUnit:         int32(i.MinUnit),
				MaxUnit:         int32(i.MaxUnit),
				StepSize:        int32(i.StepSize),
				AllocationRatio: i.AllocationRatio,
				Used:            int32(row.Usage.Of(p.UUID, i.ResourceClass)),
				Unaccounted:     int32(i.Unaccounted),
			})
		}
	}
	return out
}
