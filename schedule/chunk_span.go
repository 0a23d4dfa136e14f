package schedule

import (
	"math"
	"math/bits"
)

// span sets lo and hi from the hosts in m; lo > hi if m is empty.
func (l *limits) span(m uint64) {
	l.lo, l.hi = math.MaxInt64, math.MinInt64
	for ; m != 0; m &= m - 1 {
		x := l.v[bits.TrailingZeros64(m)]
		l.lo, l.hi = min(l.lo, x), max(l.hi, x)
	}
}

// span sets lo and hi from the hosts in m; lo > hi if m is empty.
func (c *column) span(m uint64) {
	b := c.extremes(m)
	c.lo, c.hi = b.Min, b.Max
}

// boundsOf gives the bounds of the hosts m. lo and hi must be those of the hosts in all.
func (c *column) boundsOf(m, all uint64) Bounds {
	if m == all || c.lo == c.hi {
		return Bounds{Min: c.lo, Max: c.hi}
	}
	return c.extremes(m)
}

func (c *column) extremes(m uint64) Bounds {
	b := NoBounds()
	for ; m != 0; m &= m - 1 {
		x := c.v[bits.TrailingZeros64(m)]
		if x < b.Min {
			b.Min = x
		}
		if x > b.Max {
			b.Max = x
		}
	}
	return b
}

// atLeast gives the slots whose limit is n or more. The four runs are independent, so that a processor executes them
// in parallel.
func (l *limits) atLeast(n int64) uint64 {
	var a, b, c, d uint64
	for i := 15; i >= 0; i-- {
		a = a<<1 | bit(l.v[i] >= n)
		b = b<<1 | bit(l.v[i+16] >= n)
		c = c<<1 | bit(l.v[i+32] >= n)
		d = d<<1 | bit(l.v[i+48] >= n)
	}
	return a | b<<16 | c<<32 | d<<48
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// has gives the word of an id, 0 when the slice is too short for it or the id
// is unknown (below 0).
func has(words []uint64, id int) uint64 {
	if id < 0 || id >= len(words) {
		return 0
	}
	return words[id]
}

// mark sets a bit in the word of an id.
func mark(words []uint64, id int, bit uint64) []uint64 {
	words = grow(words, id)
	words[id] |= bit
	return words
}

// grow makes s long enough for index i.
func grow[T any](s []T, i int) []T {
	for len(s) <= i {
		var zero T
		s = append(s, zero)
	}
	return s
}

// clear takes a host out of every set.
func (l *labels) clear(bit uint64) {
	for _, words := range [][]uint64{l.traits, l.aggregates, l.zones, l.cells, l.childTraits, l.childClasses} {
		for i := range words {
			words[i] &^= bit
		}
	}
	l.zoned &^= bit
}
