package cell

import (
	"context"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// summaryCache keeps the summary of one version of the table.
type summaryCache struct {
	mu      sync.Mutex
	version uint64
	summary *cellv1.GetSummaryResponse
}

// GetSummary says what the cell could ever hold and what it holds now, computed
// once a version of the table; and the gate without what it waits for, the time, and the
// version of the binary. While the table is loaded it says only that, and whether it
// awaits verdicts. It
// fails while the shard does: gateways take it for whether the cell can be used.
func (s *scheduler) GetSummary(ctx context.Context, _ *cellv1.GetSummaryRequest) (*cellv1.GetSummaryResponse, error) {
	if err := s.placing(); err != nil {
		return nil, err
	}
	out := &cellv1.GetSummaryResponse{
		Cell: s.cfg.Name, CellUuid: s.uuid, Replica: s.cfg.Replica, Loading: true,
		Totals: &cellgatev1.Cell{Cell: s.cfg.Name, CellUuid: s.uuid, Enabled: true, Available: true},
	}
	if !s.loading() {
		out = proto.CloneOf(s.newestSummary())
		if g := s.rows.gateRow(); g != nil {
			out.Totals.Gate = s.gateMessage(g, verdict{})
		}
	}
	// A store that gives no time is told of by the health service.
	if t, err := s.store.Now(ctx); err == nil {
		out.StoreTime = timestamppb.New(t)
	}
	out.AwaitsVerdicts = s.verify.awaits()
	out.MachineTime, out.Version = timestamppb.New(s.now()), s.cfg.Version
	return out, nil
}

func (c *Cell) newestSummary() *cellv1.GetSummaryResponse {
	c.summary.mu.Lock()
	defer c.summary.mu.Unlock()
	table, name := c.versions.Newest()
	if c.summary.summary == nil || c.summary.version != table.Version() {
		c.summary.summary, c.summary.version = c.summarize(name), table.Version()
	}
	return c.summary.summary
}

// classTotals is one resource class over all hosts.
type classTotals struct {
	capacity, used, free, largest int64
	// atRoot: some host's root provider has it.
	atRoot bool
}

func (c *Cell) summarize(version string) *cellv1.GetSummaryResponse {
	totals := &cellgatev1.Cell{Cell: c.cfg.Name, CellUuid: c.uuid, Enabled: true, Available: true, TableVersion: version}
	out := &cellv1.GetSummaryResponse{Cell: c.cfg.Name, CellUuid: c.uuid, Replica: c.cfg.Replica, Totals: totals}
	classes := map[string]*classTotals{}
	traits, aggregates, zones, tenants := map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}
	childTraits, childClasses := map[string]struct{}{}, map[string]struct{}{}
	all, _ := c.rows.all()
	for _, row := range all {
		h := row.host
		totals.Hosts++
		if h.Imported {
			totals.HostsImported++
		}
		switch _, up := c.live.lastSeen(h.UUID); {
		case h.Imported:
		case row.admin.Intended():
			totals.HostsWithheld++
		case row.admin.Withheld(): // its nova-compute is down
		case up && !h.Disabled:
			totals.HostsUp++
		}
		if row.usage != nil {
			totals.ClaimsPending += row.usage.Pending
			totals.ClaimsConfirmed += row.usage.Confirmed
		}
		addClasses(classes, row)
		if root := rootOf(h); root != nil {
			for _, t := range root.Traits {
				traits[t] = struct{}{}
			}
			for _, p := range h.Providers[1:] {
				for _, t := range p.Traits {
					childTraits[t] = struct{}{}
				}
				for _, i := range p.Inventories {
					childClasses[i.ResourceClass] = struct{}{}
				}
			}
		}
		for _, a := range h.Aggregates {
			aggregates[a.UUID] = struct{}{}
			for _, t := range schedule.TenantsOf(&schedule.Aggregate{Metadata: a.Metadata}) {
				tenants[t] = struct{}{}
			}
		}
		named := zonesOf(h)
		for _, z := range named {
			zones[z] = struct{}{}
		}
		out.HasUnzonedHosts = out.HasUnzonedHosts || len(named) == 0
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		t := classes[class]
		totals.Resources = append(totals.Resources, &cellgatev1.ResourceTotals{
			ResourceClass: class, Capacity: t.capacity, Used: t.used, LargestFree: t.free,
		})
		if t.atRoot {
			out.Largest = append(out.Largest, &cellv1.MaxUnit{ResourceClass: class, Amount: t.largest})
		}
	}
	out.Traits = slices.Sorted(maps.Keys(traits))
	out.ChildTraits = slices.Sorted(maps.Keys(childTraits))
	out.ChildClasses = slices.Sorted(maps.Keys(childClasses))
	out.Aggregates = slices.Sorted(maps.Keys(aggregates))
	out.Tenants = slices.Sorted(maps.Keys(tenants))
	out.AvailabilityZones = slices.Sorted(maps.Keys(zones))
	totals.AvailabilityZones = out.AvailabilityZones
	return out
}

// addClasses adds a host's inventories: all providers count for people, the
// root's amounts for routing.
func addClasses(classes map[string]*classTotals, row *hostRow) {
	for n, p := range row.host.Providers {
		for _, i := range p.Inventories {
			t := classes[i.ResourceClass]
			if t == nil {
				t = &classTotals{}
				classes[i.ResourceClass] = t
			}
			used := row.usage.Of(p.UUID, i.ResourceClass)
			t.capacity += i.Capacity()
			t.used += used
			t.free = max(t.free, i.Capacity()-used)
			if n == 0 {
				t.atRoot = true
				t.largest = max(t.largest, min(i.Capacity(), i.MaxUnit))
			}
		}
	}
}
