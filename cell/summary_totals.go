package cell

import (
	"maps"
	"slices"
	"sync"

	"cellgate/cell/liveness"
	"cellgate/cell/replica"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// totals are the sums over all hosts of a cell: what they have and hold. Only hosts that changed are
// counted again: gateways ask about once a second, and more often while the cell is slow.
type totals struct {
	mu sync.Mutex
	// newest is the message of a version of the table; nil before the first.
	newest  *cellv1.GetSummaryResponse
	version uint64

	hosts map[string]*countedHost
	// sum has the additive fields; message fills in the lists.
	sum     cellgatev1.Cell
	unzoned int
	classes map[string]*classTotals
	// The number of hosts that have each name.
	traits, aggregates, zones, tenants, childTraits, childClasses counts
	// aggregateNames are the names that hosts give aggregates, by uuid.
	aggregateNames map[string]string
}

func newTotals() *totals {
	return &totals{
		hosts: map[string]*countedHost{}, classes: map[string]*classTotals{},
		traits: counts{}, aggregates: counts{}, zones: counts{}, tenants: counts{}, childTraits: counts{}, childClasses: counts{},
		aggregateNames: map[string]string{},
	}
}

// counts has how often each name was counted.
type counts map[string]int

func (c counts) add(name string, by int) {
	if c[name] += by; c[name] == 0 {
		delete(c, name)
	}
}

// countedHost is a host's contribution to the counts.
type countedHost struct {
	row         *replica.HostRow
	up          bool
	inventories []countedInventory
}

// countedInventory is a resource class of one of a host's providers.
type countedInventory struct {
	class                *classTotals
	atRoot               bool
	capacity, used, most int64
}

// classTotals is one resource class over all hosts.
type classTotals struct {
	capacity, used int64
	// inventories counts the inventories of the class, roots those of root providers.
	inventories, roots int
}

// recount replaces the contributions of the hosts that have another row, came, went down or up, or are gone.
func (s *totals) recount(rows *replica.Rows, live *liveness.Tracker) {
	inService := map[string]struct{}{}
	for _, row := range rows.HostsInService() {
		uuid := row.Host.UUID
		inService[uuid] = struct{}{}
		_, seen := live.LastSeen(uuid)
		up := !rows.Conditions(row, !seen).Down()
		was := s.hosts[uuid]
		if was != nil && was.row == row && was.up == up {
			continue
		}
		if was != nil {
			s.remove(was)
		}
		next := &countedHost{row: row, up: up}
		s.inventory(next)
		s.count(next, 1)
		s.label(row.Host, 1)
		s.hosts[uuid] = next
	}
	for uuid, was := range s.hosts {
		if _, is := inService[uuid]; !is {
			s.remove(was)
		}
	}
}

// remove removes a host's contribution.
func (s *totals) remove(h *countedHost) {
	s.count(h, -1)
	s.label(h.row.Host, -1)
	delete(s.hosts, h.row.Host.UUID)
}

// inventory fills in the host's inventories, class by class.
func (s *totals) inventory(h *countedHost) {
	for n, p := range h.row.Host.Providers {
		for _, i := range p.Inventories {
			class := s.classes[i.ResourceClass]
			if class == nil {
				class = &classTotals{}
				s.classes[i.ResourceClass] = class
			}
			h.inventories = append(h.inventories, countedInventory{
				class: class, atRoot: n == 0, capacity: i.Capacity(), used: h.row.Usage.Of(p.UUID, i.ResourceClass) + i.Unaccounted, most: min(i.Capacity(), i.MaxUnit),
			})
		}
	}
}

// count adds the host's contribution (by is 1) or removes it (by is -1).
func (s *totals) count(h *countedHost, by int32) {
	host, t := h.row.Host, &s.sum
	t.Hosts += by
	if host.Imported {
		t.HostsImported += by
	}
	switch withholding := h.row.Admin.Withholding(); {
	case withholding.Intended():
		t.HostsWithheld += by
	case len(withholding) > 0: // the host's nova-compute is down
	case host.Disabled:
		t.HostsDisabled += by
	case h.up:
		t.HostsUp += by
	}
	if u := h.row.Usage; u != nil {
		t.ClaimsPending += by * u.Pending
		t.ClaimsConfirmed += by * u.Confirmed
	}
	for _, i := range h.inventories {
		i.class.capacity += int64(by) * i.capacity
		i.class.used += int64(by) * i.used
		i.class.inventories += int(by)
		if i.atRoot {
			i.class.roots += int(by)
		}
	}
}

// label counts the names that the host has.
func (s *totals) label(h *shard.Host, by int) {
	for n, p := range h.Providers {
		traits := s.childTraits
		if n == 0 {
			traits = s.traits
		}
		for _, t := range p.Traits {
			traits.add(t, by)
		}
		if n > 0 {
			for _, i := range p.Inventories {
				s.childClasses.add(i.ResourceClass, by)
			}
		}
	}
	for _, a := range h.Aggregates {
		if s.aggregates.add(a.UUID, by); by > 0 {
			s.aggregateNames[a.UUID] = a.Name
		} else if s.aggregates[a.UUID] == 0 {
			delete(s.aggregateNames, a.UUID)
		}
		for _, t := range schedule.TenantsOf(&schedule.Aggregate{Metadata: a.Metadata}) {
			s.tenants.add(t, by)
		}
	}
	named := replica.ZonesOf(h)
	for _, z := range named {
		s.zones.add(z, by)
	}
	if len(named) == 0 {
		s.unzoned += by
	}
}

// message builds the totals without the cell's names.
func (s *totals) message() *cellv1.GetSummaryResponse {
	t := &cellgatev1.Cell{
		Hosts: s.sum.Hosts, HostsUp: s.sum.HostsUp, HostsImported: s.sum.HostsImported, HostsWithheld: s.sum.HostsWithheld, HostsDisabled: s.sum.HostsDisabled,
		ClaimsPending: s.sum.ClaimsPending, ClaimsConfirmed: s.sum.ClaimsConfirmed,
	}
	out := &cellv1.GetSummaryResponse{Totals: t, HasUnzonedHosts: s.unzoned > 0}
	// Maxima cannot be kept as sums.
	free, largest := map[*classTotals]int64{}, map[*classTotals]int64{}
	for _, h := range s.hosts {
		for i := range h.inventories {
			of := &h.inventories[i]
			free[of.class] = max(free[of.class], of.capacity-of.used)
			if of.atRoot {
				largest[of.class] = max(largest[of.class], of.most)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.classes)) {
		class := s.classes[name]
		if class.inventories == 0 {
			delete(s.classes, name)
			continue
		}
		t.Resources = append(t.Resources, &cellgatev1.ResourceTotals{
			ResourceClass: name, Capacity: class.capacity, Used: class.used, LargestFree: free[class],
		})
		if class.roots > 0 {
			out.Largest = append(out.Largest, &cellv1.MaxUnit{ResourceClass: name, Amount: largest[class]})
		}
	}
	out.Traits = slices.Sorted(maps.Keys(s.traits))
	out.ChildTraits = slices.Sorted(maps.Keys(s.childTraits))
	out.ChildClasses = slices.Sorted(maps.Keys(s.childClasses))
	out.Aggregates = slices.Sorted(maps.Keys(s.aggregates))
	for _, uuid := range out.Aggregates {
		out.AggregateNames = append(out.AggregateNames, s.aggregateNames[uuid])
	}
	out.Tenants = slices.Sorted(maps.Keys(s.tenants))
	out.AvailabilityZones = slices.Sorted(maps.Keys(s.zones))
	t.AvailabilityZones = out.AvailabilityZones
	return out
}
