package cell

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/agents"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/suggest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
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
	if name := req.GetSimilarTo(); name != "" {
		return &cellv1.ListHostsResponse{Similar: s.similarHost(name)}, nil
	}
	out := &cellv1.ListHostsResponse{}
	size, bytes := pageSize(req.GetPageSize()), 0
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
			s.showHardware(m, row)
		}
		if bytes += proto.Size(m); bytes > rpc.MaxMessageBytes && len(out.Hosts) > 0 {
			out.More = true // gateways take no larger page, and refuse a message four times as large
			break
		}
		out.Hosts = append(out.Hosts, m)
	}
	return out, nil
}

// similarHost returns the service host with the most similar name, without case. If none is similar, it
// returns the first one whose name contains the text, or "".
func (c *Cell) similarHost(name string) string {
	names := map[string]string{}
	for _, row := range c.rows.HostsInService() {
		names[strings.ToLower(row.Host.ServiceHost)] = row.Host.ServiceHost
	}
	name = strings.ToLower(name)
	sorted := slices.Sorted(maps.Keys(names)) // sorted, so that equally similar names always give the same answer
	like := suggest.Nearest(name, sorted, 3)
	if i := slices.IndexFunc(sorted, func(s string) bool { return strings.Contains(s, name) }); like == "" && i >= 0 {
		like = sorted[i]
	}
	return names[like]
}

// matches reports whether a host passes the filters of a request.
func matches(row *replica.HostRow, req *cellv1.ListHostsRequest) bool {
	if names := req.GetNames(); len(names) > 0 && !slices.Contains(names, row.Host.ServiceHost) && !slices.Contains(names, row.Host.NodeName) {
		return false
	}
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

// hostMessage converts a host for the API. defaultZone is the zone of a host that is in no zone.
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
		Up:               !c.rows.Conditions(row, !up).Down(),
		AgentVersion:     c.agentVersion(h),
		LastSeenAt:       timeOf(seen),
		Generation:       h.Generation,
		Imported:         h.Imported,
		PlacementTree:    h.PlacementTree,
		Admin:            adminMessage(row.Admin),
		InstancesUnknown: row.InstancesUnknown(),
		Refused:          agents.RefusedMessage(c.agents.RefusalOf(h.UUID)),
	}
	if g := c.rows.GateRow(); h.Imported && g != nil {
		out.ImportedAt = timeOf(g.RowsAt)
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

// RemoveHost removes a host on which there are no claims, through the lane. It refuses a host whose
// agent still reports to this replica: the agent's next state would bring the host back.
func (s *scheduler) RemoveHost(ctx context.Context, req *cellv1.RemoveHostRequest) (*cellv1.RemoveHostResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	var r reader
	remove := &shard.RemoveHost{HostUUID: r.UUID("host_uuid", req.GetHostUuid()), Reason: req.GetReason()}
	if err := r.Err(); err != nil {
		return nil, err
	}
	service := s.rows.ServiceHost(remove.HostUUID)
	if s.agents.Streams.HasStream(remove.HostUUID) {
		return nil, fault.New(fault.FailedPrecondition, "the agent of host %s still reports to replica %s: stop it first", service, s.cfg.Replica)
	}
	if _, err := s.commit(ctx, shard.Op{RemoveHost: remove}); err != nil {
		return nil, err
	}
	s.log.Info("audit: a host was removed", "host", service, "host_uuid", remove.HostUUID, "reason", req.GetReason(), "who", orSomebody(req.GetBy()))
	return &cellv1.RemoveHostResponse{}, nil
}

// resyncEach is the average time between the states of hosts that are asked together: the replica
// accepts 1,000 a second beside its other work.
const resyncEach = time.Millisecond

// ResyncHosts makes the hosts with a stream to this replica start over: their agents send the whole
// state as a new version, and their earlier states no longer count.
func (s *scheduler) ResyncHosts(_ context.Context, req *cellv1.ResyncHostsRequest) (*cellv1.ResyncHostsResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	var r reader
	hosts := s.agents.Streams.Hosts()
	if req.GetHostUuid() != "" {
		hosts = []string{r.UUID("host_uuid", req.GetHostUuid())}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	within := time.Duration(len(hosts)-1) * resyncEach
	asked := 0
	for _, host := range hosts {
		if s.agents.Streams.StartOver(host, req.GetReason(), max(within, 0), s.rows.HostInService(host)) {
			asked++
		}
	}
	s.log.Info("audit: hosts were asked to start over", "asked", asked, "host_uuid", strings.ToLower(req.GetHostUuid()), "reason", req.GetReason(), "who", req.GetWho())
	return &cellv1.ResyncHostsResponse{Hosts: int32(asked), Within: durationpb.New(max(within, 0))}, nil
}
