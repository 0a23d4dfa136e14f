package schedule

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// Edit collects changes to a table and gives the next version. It belongs to one goroutine. Its cost is proportional
// to the changes, apart from copying one pointer for each chunk.
type Edit struct {
	t *Table // the next version; its number owns all that is written
	// written are the owned chunks, by index; true: hosts were added or removed.
	written map[int]bool
}

// Edit starts the next version; t does not change.
func (t *Table) Edit() *Edit {
	next := *t
	next.version++
	return &Edit{t: &next, written: map[int]bool{}}
}

// Table gives the next version. The Edit must not be used afterwards.
func (e *Edit) Table() *Table {
	t := e.t
	e.t = nil
	for i, all := range e.written {
		t.chunks[i].seal(all)
	}
	return t
}

// chunk gives the chunk of a slot, made owned.
func (e *Edit) chunk(at number) *chunk {
	i := int(at / chunkSize)
	if _, ok := e.written[i]; ok {
		return e.t.chunks[i]
	}
	if len(e.written) == 0 {
		e.t.chunks = slices.Clone(e.t.chunks)
	}
	if i == len(e.t.chunks) {
		e.t.chunks = append(e.t.chunks, newChunk(e.t.version))
	} else {
		e.t.chunks[i] = e.t.chunks[i].own(e.t.version)
	}
	e.written[i] = false
	return e.t.chunks[i]
}

// ownRow gives a slot's row and chunk, both made owned.
func (e *Edit) ownRow(at number) (*row, *chunk) {
	c := e.chunk(at)
	r := c.rows.v[at%chunkSize].own(e.t.version)
	c.setRow(at%chunkSize, r)
	return r, c
}

// PutHost adds a host, or replaces it and keeps its consumers.
func (e *Edit) PutHost(h Host) {
	t, owner := e.t, e.t.version
	at, known := t.slots.get(h.UUID)
	if !known {
		at = e.newSlot()
		t.slots = t.slots.set(h.UUID, at, owner)
		t.n++
	}
	r := &row{owner: owner, host: cloneHost(&h), view: h.View, used: make([]int64, len(h.Resources))}
	for i := range h.Resources {
		r.used[i] = h.Resources[i].Used
	}
	for i := range h.Children {
		used := make([]int64, len(h.Children[i].Resources))
		for k := range used {
			used[k] = h.Children[i].Resources[k].Used
		}
		r.childUsed = append(r.childUsed, used)
	}
	was := ""
	if known {
		old := t.row(at)
		was = old.host.Withheld
		r.consumers = slices.Clip(old.consumers)
		if old.host.ServiceHost != h.ServiceHost || old.host.NodeName != h.NodeName {
			e.index(old.host, at, false)
			e.index(r.host, at, true)
		}
	} else {
		e.index(r.host, at, true)
	}
	e.withhold(was, h.Withheld)
	e.write(at, r)
}

// RemoveHost removes a host, and its consumers from it.
func (e *Edit) RemoveHost(id ID) {
	t, owner := e.t, e.t.version
	at, ok := t.slots.get(id)
	if !ok {
		return
	}
	r := t.row(at)
	for _, instance := range slices.Clone(r.consumers) {
		e.removeFrom(at, instance)
	}
	e.index(r.host, at, false)
	e.withhold(r.host.Withheld, "")
	e.clear(at)
	t.slots = t.slots.del(id, owner)
	t.free = &freeSlot{slot: at, next: t.free}
	t.n--
}

// SetUsage sets the amounts used of each class, 0 for classes that are not named, and the Nova view. It reports false
// if the host does not exist.
func (e *Edit) SetUsage(id ID, used []Amount, v View) bool {
	at, ok := e.t.slots.get(id)
	if !ok {
		return false
	}
	r, c := e.ownRow(at)
	for i := range r.used {
		r.used[i] = 0
		for _, a := range used {
			if a.Class == r.host.Resources[i].Class {
				r.used[i] = a.N
			}
		}
	}
	r.view = v
	e.writeUsage(at, r, c)
	return true
}

// SetChildUsage sets the amounts used of the child providers, 0 for those that are not named. It reports false if the
// host does not exist.
func (e *Edit) SetChildUsage(id ID, used []ProviderAmount) bool {
	at, ok := e.t.slots.get(id)
	if !ok {
		return false
	}
	if len(e.t.row(at).host.Children) == 0 {
		return true
	}
	r, _ := e.ownRow(at)
	for i := range r.childUsed {
		clear(r.childUsed[i])
		for _, a := range used {
			if c := &r.host.Children[i]; c.UUID == a.Provider {
				use(c.Resources, r.childUsed[i], Amount{Class: a.Class, N: a.N})
			}
		}
	}
	return true
}

// SetDown sets whether a host is down. It reports false if the host does not exist.
func (e *Edit) SetDown(id ID, down bool) bool {
	at, ok := e.t.slots.get(id)
	if !ok {
		return false
	}
	c, bit := e.chunk(at), uint64(1)<<(at%chunkSize)
	if (c.down&bit != 0) == down {
		return true
	}
	r, c := e.ownRow(at)
	h := *r.host
	h.Down = down
	r.host = &h
	c.down ^= bit
	return true
}

// Take applies a pick to its host: the resources, Nova view, NUMA cells and PCI devices used, one more instance and
// io operation, and the consumer. The consumer is in the request's group, unless MembersExact says otherwise. Take
// reports false if the host does not exist.
func (e *Edit) Take(t TentativePlacement, q *Request) bool {
	return e.place(t, q, judging{numa: !q.Forced(), pci: !q.Forced()})
}

// Place is Take for a pick made under rules.
func (e *Edit) Place(t TentativePlacement, q *Request, rules *Rules) bool {
	return e.place(t, q, q.judging(rules))
}

// PlaceBuilt is Place for an instance that already runs on its host: it adds no io operation.
func (e *Edit) PlaceBuilt(t TentativePlacement, q *Request, rules *Rules) bool {
	at, ok := e.t.slots.get(t.Host)
	if !ok {
		return false
	}
	r, _ := e.ownRow(at)
	before := r.view.NumIOOps
	e.Place(t, q, rules)
	r, c := e.ownRow(at)
	r.view.NumIOOps = before
	e.writeUsage(at, r, c)
	return true
}

// place is Take for a host that these filters judged. If NUMATopologyFilter did, its limits apply to NUMA cells.
func (e *Edit) place(t TentativePlacement, q *Request, by judging) bool {
	at, ok := e.t.slots.get(t.Host)
	if !ok {
		return false
	}
	e.consume(at, q, by)
	consumer := Consumer{Instance: t.Instance}
	if n := q.Nova; n != nil {
		consumer.Flavor, consumer.Image = n.Flavor.ID, n.Image
	}
	if g := q.Group; g != nil && (!g.MembersExact || slices.Contains(g.Members, t.Instance)) {
		consumer.Group = g.UUID
	}
	return e.AddConsumer(t.Host, consumer)
}

// consume is place without the consumer.
func (e *Edit) consume(at number, q *Request, by judging) {
	r, c := e.ownRow(at)
	consume, guest := q.Consume, &q.nova().Guest
	if a := r.allocation(q, new(treeSearch), by); a != nil {
		consume, guest = a.consumption(r.host.UUID), WithProviders(guest, a.Mappings)
		r.allocate(a)
	} else {
		for _, a := range q.Resources {
			r.use(a)
		}
	}
	r.view.VCPUsUsed += consume.VCPUs
	r.view.FreeRAMMB -= consume.RAMMB
	r.view.FreeDiskMB -= consume.DiskMB
	r.view.NumInstances++
	if r.takeHardware(guest, by.numa) {
		r.view.NumIOOps++
	}
	e.writeUsage(at, r, c)
}

// newSlot gives a slot without a host.
func (e *Edit) newSlot() number {
	if f := e.t.free; f != nil {
		e.t.free = f.next
		return f.slot
	}
	// No slot is free, so all slots below n are taken.
	return number(e.t.n)
}

// index adds a host to the sets of its service host and node, or removes it.
func (e *Edit) index(h *Host, at number, in bool) {
	put := func(m pmap[name, slotWords], k string) pmap[name, slotWords] {
		s, _ := m.get(name(k))
		if s = s.with(at, in); len(s) == 0 {
			return m.del(name(k), e.t.version)
		}
		return m.set(name(k), s, e.t.version)
	}
	e.t.services = put(e.t.services, strings.ToLower(h.ServiceHost))
	e.t.nodes = put(e.t.nodes, h.NodeName)
}

// cloneHost copies what the caller may still write to.
func cloneHost(h *Host) *Host {
	c := *h
	c.Traits = slices.Clone(h.Traits)
	c.Resources = slices.Clone(h.Resources)
	c.Children = slices.Clone(h.Children)
	for i := range c.Children {
		c.Children[i].Traits = slices.Clone(c.Children[i].Traits)
		c.Children[i].Resources = slices.Clone(c.Children[i].Resources)
	}
	c.Aggregates = slices.Clone(h.Aggregates)
	for i := range c.Aggregates {
		c.Aggregates[i].Metadata = maps.Clone(c.Aggregates[i].Metadata)
	}
	return &c
}

// most is the greatest amount that fits within capacity and max_unit.
func most(r *Resource, used int64) int64 {
	free := r.Capacity - used
	if used < 0 && free < r.Capacity {
		free = math.MaxInt64
	}
	if used > 0 && free > r.Capacity {
		free = math.MinInt64
	}
	return min(free, r.MaxUnit)
}
