package schedule

import (
	"math"
	"strings"

	"cellgate/internal/python"
)

// availabilityZone is the metadata key of an aggregate that makes it a zone.
const availabilityZone = "availability_zone"

// ZonesOf gives the zones in an aggregate's metadata: one, or several separated by commas, as Nova's
// AvailabilityZoneFilter reads them (nova/scheduler/filters/utils.py, aggregate_metadata_get_by_host). Empty parts
// are left out. zoned: the metadata has the key, perhaps without a zone; as in Nova, hosts of the aggregate are then
// not in the default zone.
func ZonesOf(metadata map[string]string) (zones []string, zoned bool) {
	value, zoned := metadata[availabilityZone]
	for part := range strings.SplitSeq(value, ",") {
		if part = python.Strip(part); part != "" {
			zones = append(zones, part)
		}
	}
	return zones, zoned
}

// write fills a slot's columns from a row.
func (e *Edit) write(at number, r *row) {
	t, owner := e.t, e.t.version
	c, i := e.chunk(at), at%chunkSize
	bit := uint64(1) << i
	h := r.host
	if c.valid&bit == 0 {
		c.valid |= bit
		e.written[int(at/chunkSize)] = true
	}
	c.disabled &^= bit
	if h.Disabled {
		c.disabled |= bit
	}
	c.withheld &^= bit
	if h.Withheld != "" {
		c.withheld |= bit
	}
	c.down &^= bit
	if h.Down {
		c.down |= bit
	}
	c.unreadable &^= bit
	if h.Facts != nil && len(h.Facts.Failed) > 0 {
		c.unreadable |= bit
	}
	c.unfilled &^= bit
	if h.Facts != nil && h.Facts.Unfilled {
		c.unfilled |= bit
	}
	e.share(r, c, bit)
	l := c.ownLabels()
	l.clear(bit)
	for _, trait := range h.Traits {
		l.traits = mark(l.traits, t.names.traits.intern(trait, owner), bit)
	}
	for i := range h.Children {
		child := &h.Children[i]
		for _, trait := range child.Traits {
			l.childTraits = mark(l.childTraits, t.names.childTraits.intern(trait, owner), bit)
		}
		for k := range child.Resources {
			l.childClasses = mark(l.childClasses, t.names.childClasses.intern(child.Resources[k].Class, owner), bit)
		}
	}
	for i := range h.Aggregates {
		a := &h.Aggregates[i]
		l.aggregates = mark(l.aggregates, t.names.aggregates.intern(a.UUID, owner), bit)
		zones, zoned := ZonesOf(a.Metadata)
		if zoned {
			l.zoned |= bit
		}
		for _, zone := range zones {
			l.zones = mark(l.zones, t.names.zones.intern(zone, owner), bit)
			if r.zone == "" || zone < r.zone {
				r.zone = zone
			}
		}
	}
	l.cells = mark(l.cells, t.names.cells.intern(h.Cell, owner), bit)
	c.setRow(i, r)
	c.setHash(i, HostHash(h.UUID))
	c.setMetrics(i, h.Facts)
	for class, l := range c.classes {
		if l != nil {
			c.setLimit(class, i, math.MinInt64, false)
		}
	}
	e.writeUsage(at, r, c)
}

// writeUsage fills the columns that depend on the amounts used and on the view.
func (e *Edit) writeUsage(at number, r *row, c *chunk) {
	i := at % chunkSize
	for k := range r.host.Resources {
		res := &r.host.Resources[k]
		class := e.t.names.classes.intern(res.Class, e.t.version)
		c.setLimit(class, i, most(res, r.used[k]), res.MinUnit > 1 || res.StepSize > 1)
	}
	for col, x := range rawColumns(&r.view) {
		c.setRaw(col, i, x)
	}
	if r.platform.version != r.view.HypervisorVersion {
		r.platform = e.t.names.platform(r.host, r.view.HypervisorVersion, e.t.version)
		c.platforms = c.platforms.put(r.platform, uint64(1)<<i, c.owner)
	}
}

// share interns what other hosts may have too.
func (e *Edit) share(r *row, c *chunk, bit uint64) {
	names, owner := &e.t.names, e.t.version
	r.platform = names.platform(r.host, r.view.HypervisorVersion, owner)
	c.platforms = c.platforms.put(r.platform, bit, c.owner)
	r.set = names.set(r.host.Aggregates, owner)
	c.sets = c.sets.put(r.set, bit, c.owner)
	c.overrides = c.overrides.put(r.set.own, bit, c.owner)
	if f := r.host.Facts; f != nil {
		for key := range f.stats.All() {
			names.stats.intern(key, owner)
		}
	}
}

// clear empties a slot.
func (e *Edit) clear(at number) {
	c, i := e.chunk(at), at%chunkSize
	bit := uint64(1) << i
	e.written[int(at/chunkSize)] = true
	c.valid &^= bit
	c.disabled &^= bit
	c.withheld &^= bit
	c.down &^= bit
	c.unreadable &^= bit
	c.unfilled &^= bit
	c.platforms = c.platforms.put(nil, bit, c.owner)
	c.sets = c.sets.put(nil, bit, c.owner)
	c.overrides = c.overrides.put(nil, bit, c.owner)
	c.ownLabels().clear(bit)
	c.setRow(i, nil)
	c.setHash(i, 0)
	c.setMetrics(i, nil)
	for class, l := range c.classes {
		if l != nil {
			c.setLimit(class, i, math.MinInt64, false)
		}
	}
	for col := range c.columns {
		c.setRaw(col, i, 0)
	}
}
