package schedule

import (
	"math"
	"slices"
)

// chunkSize is how many hosts a chunk holds: one bit each in a word.
const chunkSize = 64

// chunk is 64 slots in columns. A chunk and each of its columns carry the edit that made them (owner). That edit may
// write them in place; any other edit copies them first. So a claim on a host copies only the few columns that it
// changes.
type chunk struct {
	owner    uint64
	valid    uint64 // slots with a host
	disabled uint64
	withheld uint64
	down     uint64
	// unreadable hosts have facts that cannot be read.
	unreadable uint64
	// unfilled hosts have not been reported by their compute yet.
	unfilled  uint64
	labels    *labels
	platforms *parts[platform]
	sets      *parts[aggregateSet]
	overrides *parts[overrides]
	// classes are the limits by the catalog's id of the class. The slice may be shorter than the catalog; nil: no
	// host here has the class.
	classes []*limits
	columns [columnCount]*column
	metrics *measured
	hashes  *hashes
	rows    *rows
}

// labels are the sets of hosts that have a trait, aggregate, zone or cell, by its id in the catalog. A slice may be
// shorter than the catalog.
type labels struct {
	owner      uint64
	traits     []uint64
	aggregates []uint64
	zones      []uint64
	cells      []uint64
	zoned      uint64 // hosts in any zone
	// The traits and classes of child providers: a host is in the set if any of its children has one.
	childTraits  []uint64
	childClasses []uint64
}

// limits has, for each host, the greatest amount of a class that fits: the lesser of what is free and max_unit. It is
// MinInt64 if the host does not have the class.
type limits struct {
	owner uint64
	// odd marks hosts whose min_unit or step_size is above 1: there an amount below the limit may not fit.
	odd uint64
	// lo and hi are the least and greatest of v over hosts, kept by seal.
	lo, hi int64
	v      [chunkSize]int64
}

// column is one weigher's raw weight of each host, not below the weigher's minimum.
type column struct {
	owner uint64
	// lo and hi are the least and greatest of v over hosts, kept by seal.
	lo, hi float64
	v      [chunkSize]float64
}

// hashes are HostHash of the hosts.
type hashes struct {
	owner uint64
	v     [chunkSize]uint64
}

type rows struct {
	owner uint64
	v     [chunkSize]*row
}

func newChunk(owner uint64) *chunk {
	c := &chunk{
		owner: owner, labels: &labels{owner: owner},
		hashes: &hashes{owner: owner}, rows: &rows{owner: owner}, metrics: noMetrics,
	}
	for i := range c.columns {
		c.columns[i] = &column{owner: owner}
	}
	return c
}

func (c *chunk) own(owner uint64) *chunk {
	if c.owner == owner {
		return c
	}
	n := *c
	n.owner = owner
	n.classes = slices.Clone(c.classes)
	return &n
}

// The set functions write one slot. They copy the column first unless the chunk's owner made it. The chunk itself
// must be owned.

func (c *chunk) setRow(i number, r *row) {
	if c.rows.owner != c.owner {
		n := *c.rows
		n.owner = c.owner
		c.rows = &n
	}
	c.rows.v[i] = r
}

func (c *chunk) setHash(i number, h uint64) {
	if c.hashes.v[i] == h {
		return
	}
	if c.hashes.owner != c.owner {
		n := *c.hashes
		n.owner = c.owner
		c.hashes = &n
	}
	c.hashes.v[i] = h
}

func (c *chunk) setRaw(col int, i number, x float64) {
	if c.columns[col].v[i] == x {
		return
	}
	c.ownColumn(col).v[i] = x
}

func (c *chunk) ownColumn(col int) *column {
	if c.columns[col].owner != c.owner {
		n := *c.columns[col]
		n.owner = c.owner
		c.columns[col] = &n
	}
	return c.columns[col]
}

func (c *chunk) setLimit(class int, i number, most int64, odd bool) {
	c.classes = grow(c.classes, class)
	if c.classes[class] == nil {
		l := &limits{owner: c.owner}
		for j := range l.v {
			l.v[j] = math.MinInt64
		}
		c.classes[class] = l
	}
	if l := c.classes[class]; l.v[i] == most && (l.odd>>i&1 != 0) == odd {
		return
	}
	l := c.ownLimits(class)
	l.v[i] = most
	l.odd = l.odd&^(1<<i) | bit(odd)<<i
}

func (c *chunk) ownLimits(class int) *limits {
	if c.classes[class].owner != c.owner {
		n := *c.classes[class]
		n.owner = c.owner
		c.classes[class] = &n
	}
	return c.classes[class]
}

func (c *chunk) ownLabels() *labels {
	if c.labels.owner != c.owner {
		n := *c.labels
		n.owner = c.owner
		n.traits = slices.Clone(n.traits)
		n.aggregates = slices.Clone(n.aggregates)
		n.zones = slices.Clone(n.zones)
		n.cells = slices.Clone(n.cells)
		n.childTraits = slices.Clone(n.childTraits)
		n.childClasses = slices.Clone(n.childClasses)
		c.labels = &n
	}
	return c.labels
}

// seal updates lo and hi of the columns that the owner wrote; of every column if hosts were added or removed (all).
func (c *chunk) seal(all bool) {
	for i, l := range c.classes {
		if l != nil && (all || l.owner == c.owner) {
			c.ownLimits(i).span(c.valid)
		}
	}
	for i, col := range c.columns {
		if all || col.owner == c.owner {
			c.ownColumn(i).span(c.valid)
		}
	}
}
