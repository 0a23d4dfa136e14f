package standin

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// summary keeps that of a version of the table.
type summary struct {
	version uint64
	of      *cellv1.GetSummaryResponse
}

// replicaName stands in a summary where a cell names its replica.
const replicaName = "legacy"

// Summary says what the cell could ever hold, by the rows, and what it holds now; once a
// version. totals.enabled is false for a cell that Nova's cell_mappings disables: the
// stand-in proposes hosts of it when it is asked all the same. Before the first Update it is loading.
// store_time and version are a cell's, and unset.
func (s *Standin) Summary() *cellv1.GetSummaryResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		return &cellv1.GetSummaryResponse{
			Cell: s.cfg.Cell, CellUuid: s.cfg.CellUUID, Replica: replicaName, Loading: true, MachineTime: timestamppb.New(s.cfg.Now()),
			Totals: &cellgatev1.Cell{Cell: s.cfg.Cell, CellUuid: s.cfg.CellUUID, Enabled: true, Available: true},
		}
	}
	table, name := s.versions.Newest()
	if s.summary.of == nil || s.summary.version != table.Version() {
		s.summary.of, s.summary.version = s.summarize(name), table.Version()
	}
	out := proto.CloneOf(s.summary.of)
	out.MachineTime = timestamppb.New(s.cfg.Now())
	return out
}

func (s *Standin) summarize(version string) *cellv1.GetSummaryResponse {
	uuid := s.rows.CellUUID
	if uuid == "" {
		uuid = s.cfg.CellUUID
	}
	totals := &cellgatev1.Cell{
		Cell: s.cfg.Cell, CellUuid: uuid, Enabled: !s.rows.CellDisabled, Available: true, TableVersion: version,
		Hosts: int32(len(s.hosts)), ClaimsPending: int32(len(s.known.claims)),
	}
	out := &cellv1.GetSummaryResponse{Cell: s.cfg.Cell, CellUuid: uuid, Replica: replicaName, Totals: totals}
	in, zones, tenants := map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}
	var sums [3]cellgatev1.ResourceTotals
	var largest [3]int64
	for id, h := range s.hosts {
		switch {
		case h.withheld != nil:
			totals.HostsWithheld++
		case !h.down && !h.row.Disabled:
			totals.HostsUp++
		}
		on := s.known.beside(id)
		for k, i := range inventories(&h.row.View) {
			capacity, used := i.capacity(), i.used+i.of(on)
			t := &sums[k]
			t.ResourceClass = i.class
			t.Capacity += capacity
			t.Used += max(used, 0)
			t.LargestFree = max(t.LargestFree, capacity-used)
			largest[k] = max(largest[k], min(capacity, max(i.total, 1)))
		}
		zoned := false
		for _, a := range h.row.Aggregates {
			in[a.UUID] = struct{}{}
			for _, z := range schedule.ZonesOf(a.Metadata) {
				zones[z], zoned = struct{}{}, true
			}
			for _, t := range schedule.TenantsOf(&a) {
				tenants[t] = struct{}{}
			}
		}
		out.HasUnzonedHosts = out.HasUnzonedHosts || !zoned
	}
	if len(s.hosts) > 0 {
		for k := range sums {
			totals.Resources = append(totals.Resources, proto.CloneOf(&sums[k]))
			out.Largest = append(out.Largest, &cellv1.MaxUnit{ResourceClass: sums[k].GetResourceClass(), Amount: largest[k]})
		}
	}
	slices.SortFunc(totals.Resources, func(a, b *cellgatev1.ResourceTotals) int {
		return strings.Compare(a.GetResourceClass(), b.GetResourceClass())
	})
	out.Aggregates, out.Tenants = slices.Sorted(maps.Keys(in)), slices.Sorted(maps.Keys(tenants))
	out.AvailabilityZones = slices.Sorted(maps.Keys(zones))
	totals.AvailabilityZones = out.AvailabilityZones
	return out
}
