package schedule

// catalog numbers the names that a table has seen, in one series for each kind, so that chunks can index plain slices
// by them. It only grows along a lineage, until Table.Emptied begins another one. Like everything in a table it is never
// changed in place.
type catalog struct {
	traits     series
	aggregates series // by uuid
	zones      series
	cells      series // by uuid
	classes    series
	// childTraits and childClasses are those that child providers have had.
	childTraits  series
	childClasses series
	// stats and metadata are the keys seen in hosts' stats and in aggregates' metadata.
	stats    series
	metadata series
	// platforms and sets of aggregates, by their content.
	platforms pmap[name, *platform]
	sets      pmap[name, *aggregateSet]
	// overrides of multipliers that sets have, by their content.
	overrides pmap[name, *overrides]
	// contents is the size of the contents of platforms and sets, in bytes.
	contents int
}

// nameSize is the size of a name in a series, in bytes, with the longest text.
const nameSize = 300

// size is about how many bytes the catalog takes.
func (c *catalog) size() int {
	names := 0
	for _, s := range [...]*series{&c.traits, &c.aggregates, &c.zones, &c.cells, &c.classes, &c.childTraits, &c.childClasses, &c.stats, &c.metadata} {
		names += s.ids.n
	}
	return c.contents + nameSize*names
}

// series numbers names 0, 1, 2 … in the order in which they were first seen.
type series struct{ ids pmap[name, int] }

// id of a name, or -1 when no host of the lineage had it.
func (s *series) id(n string) int {
	if id, ok := s.ids.get(name(n)); ok {
		return id
	}
	return -1
}

// intern gives a name's id, a new one if need be.
func (s *series) intern(n string, owner uint64) int {
	if id, ok := s.ids.get(name(n)); ok {
		return id
	}
	id := s.ids.n
	s.ids = s.ids.set(name(n), id, owner)
	return id
}

// platform gives a host's platform; equal hosts share one.
func (c *catalog) platform(h *Host, version int64, owner uint64) *platform {
	key := platformKey(h, version)
	if p, ok := c.platforms.get(key); ok {
		return p
	}
	p := &platform{id: c.platforms.n, facts: h.Facts, version: version}
	c.platforms = c.platforms.set(key, p, owner)
	c.contents += len(key)
	return p
}

// set gives the set for these aggregates; hosts in the same aggregates share one.
func (c *catalog) set(in []Aggregate, owner uint64) *aggregateSet {
	key := aggregateKey(in)
	if a, ok := c.sets.get(key); ok {
		return a
	}
	a := newAggregateSet(c.sets.n, in)
	a.own = c.overridesOf(a, owner)
	c.sets = c.sets.set(key, a, owner)
	c.contents += len(key)
	for k := range a.raw {
		c.metadata.intern(k, owner)
	}
	return a
}
