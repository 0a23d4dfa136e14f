package schedule

import (
	"iter"
	"math/bits"
	"slices"
)

// Table is the hosts of a cell with their consumers. It never changes: an Edit gives the next version, which shares
// all unchanged parts. Any number of goroutines may read any versions while another edits.
type Table struct {
	version uint64
	n       int
	// chunks of 64 slots; slot s is bit s%64 of chunk s/64.
	chunks []*chunk
	free   *freeSlot
	names  catalog
	// slots by host.
	slots pmap[ID, number]
	// consumers by instance; groups counts them by group and slot.
	consumers pmap[ID, place]
	groups    pmap[ID, pmap[number, int]]
	// Slots by service host in lower case, and by node name.
	services pmap[name, slotWords]
	nodes    pmap[name, slotWords]
	// withheld are the reasons for which operators keep instances from hosts.
	withheld *reasons
}

// place is a place of a consumer. group is zero if it has none there.
type place struct {
	slot  number
	group ID
	// next is another host that the consumer is on at the same time; nearly always nil. Places are never changed,
	// only replaced.
	next *place
	// details is nil when neither the flavor nor the image is known.
	details *details
}

// details are an instance's flavor and image.
type details struct {
	flavor string
	image  *Image
}

func (t *details) equal(o *details) bool {
	if t == nil || o == nil {
		return t == o
	}
	if t.image == nil || o.image == nil {
		return t.flavor == o.flavor && t.image == o.image
	}
	return t.flavor == o.flavor && t.image.ID == o.image.ID && slices.Equal(t.image.Properties, o.image.Properties)
}

// freeSlot is the slot of a removed host.
type freeSlot struct {
	slot number
	next *freeSlot
}

// NewTable gives an empty table, version 1.
func NewTable() *Table { return &Table{version: 1} }

// NamesSize is about how many bytes the names take that hosts have had since the table was empty: traits, classes,
// aggregates, and what hosts share. Names that no host has any more count, too.
func (t *Table) NamesSize() int { return t.names.size() }

// Emptied is the table without its hosts and names, of the same version.
func (t *Table) Emptied() *Table { return &Table{version: t.version} }

// Len is the number of hosts.
func (t *Table) Len() int { return t.n }

// Version increases by one with each Edit of the lineage.
func (t *Table) Version() uint64 { return t.version }

// Host gives a host's whole row. Its Traits and Aggregates belong to the table: read only.
func (t *Table) Host(id ID) (Host, bool) {
	at, ok := t.slots.get(id)
	if !ok {
		return Host{}, false
	}
	return t.row(at).whole(), true
}

// Consumer gives the host that an instance is on; if it is on several, the first that it was put on.
func (t *Table) Consumer(instance ID) (host ID, c Consumer, ok bool) {
	p, ok := t.consumers.get(instance)
	if !ok {
		return ID{}, Consumer{}, false
	}
	c = Consumer{Instance: instance, Group: p.group}
	if p.details != nil {
		c.Flavor, c.Image = p.details.flavor, p.details.image
	}
	return t.row(p.slot).host.UUID, c, true
}

// All yields every host's row, in an unspecified order that is the same each time. As with Host, slices are read
// only.
func (t *Table) All() iter.Seq[Host] {
	return func(yield func(Host) bool) {
		for _, c := range t.chunks {
			for m := c.valid; m != 0; m &= m - 1 {
				if !yield(c.rows.v[bits.TrailingZeros64(m)].whole()) {
					return
				}
			}
		}
	}
}

// Places gives every host that an instance is on, in the order in which it was put there.
func (t *Table) Places(instance ID) []Place {
	p, ok := t.consumers.get(instance)
	if !ok {
		return nil
	}
	var all []Place
	for at := &p; at != nil; at = at.next {
		all = append(all, Place{Host: t.row(at.slot).host.UUID, Group: at.group})
	}
	return all
}

func (t *Table) row(at number) *row { return t.chunks[at/chunkSize].rows.v[at%chunkSize] }

// row is what a host has beyond the columns that are scanned.
type row struct {
	owner uint64
	// host is the host as it was put. Its amounts used and View are out of date: used, parallel to host.Resources,
	// and view are current.
	host *Host
	used []int64
	// childUsed is the same for host.Children.
	childUsed [][]int64
	view      View
	// zone is the host's first zone by name; empty for none.
	zone      string
	consumers []ID
	platform  *platform
	set       *aggregateSet
}

func (r *row) whole() Host {
	h := *r.host
	h.View = r.view
	h.Resources = slices.Clone(h.Resources)
	for i := range h.Resources {
		h.Resources[i].Used = r.used[i]
	}
	h.Children = slices.Clone(h.Children)
	for i := range h.Children {
		c := &h.Children[i]
		c.Resources = slices.Clone(c.Resources)
		for k := range c.Resources {
			c.Resources[k].Used = r.childUsed[i][k]
		}
	}
	return h
}

// own gives a row that the owner may write.
func (r *row) own(owner uint64) *row {
	if r.owner == owner {
		return r
	}
	c := *r
	c.owner = owner
	c.used = slices.Clone(r.used)
	c.childUsed = slices.Clone(r.childUsed)
	for i := range c.childUsed {
		c.childUsed[i] = slices.Clone(c.childUsed[i])
	}
	c.consumers = slices.Clip(r.consumers)
	return &c
}
