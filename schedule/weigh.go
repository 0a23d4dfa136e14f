package schedule

import (
	"math"
	"math/bits"
)

// NoBounds are the bounds over no hosts.
func NoBounds() Bounds { return Bounds{Min: math.Inf(1), Max: math.Inf(-1)} }

// weigher is a weigher of a query on its table.
type weigher struct {
	// factor is the multiplier, negated where Nova's code does.
	factor float64
	// zeroMin: raw weights are clamped to 0 and normalised from 0, whatever
	// the least is (minval in Nova).
	zeroMin bool
	// stored is the chunk's column of raw weights; below 0 fill makes it.
	stored int
	fill   func(at int, c *chunk) *column
	// own are the bounds of what passed so far.
	own Bounds
	// What rank works with, see rankBy.
	min, span        float64
	slope, intercept float64
}

// setWeigher makes a weigher; false when there is none of the name.
func (s *scan) setWeigher(w *weigher, named Weigher) bool {
	*w = weigher{factor: named.Multiplier, stored: -1, own: NoBounds()}
	switch named.Name {
	case RAMWeigher:
		w.stored, w.zeroMin = ramColumn, true
	case CPUWeigher:
		w.stored, w.zeroMin = cpuColumn, true
	case DiskWeigher:
		w.stored, w.zeroMin = diskColumn, true
	case IoOpsWeigher:
		w.stored, w.zeroMin = ioOpsColumn, true
	case NumInstancesWeigher:
		w.stored = instancesColumn
	case PCIWeigher:
		w.stored = pciColumn
	case HypervisorVersionWeigher:
		w.stored = versionColumn
	case BuildFailureWeigher:
		w.stored = failuresColumn
		w.factor = -w.factor
	case CrossCellWeigher:
		w.fill = s.crossCell()
	case SoftAffinityWeigher:
		w.fill = s.softAffinity(SoftAffinity, 1)
	case SoftAntiAffinityWeigher:
		w.fill = s.softAffinity(SoftAntiAffinity, -1)
	default:
		return false
	}
	return true
}

// in gives the raw weights of a chunk. They hold until the next call.
func (w *weigher) in(at int, c *chunk) *column {
	if w.stored >= 0 {
		return c.columns[w.stored]
	}
	return w.fill(at, c)
}

// widen takes hosts that passed into every weigher's bounds. Most chunks cannot
// widen them, by what their columns know of themselves.
func (s *scan) widen(at int, c *chunk, m uint64) {
	for i := range s.weighers {
		w := &s.weighers[i]
		col := w.in(at, c)
		low := col.lo < w.own.Min && !w.zeroMin
		if !low && col.hi <= w.own.Max {
			continue
		}
		if m == c.valid {
			w.own.Min, w.own.Max = min(w.own.Min, col.lo), max(w.own.Max, col.hi)
			continue
		}
		for k := m; k != 0; k &= k - 1 {
			x := col.v[bits.TrailingZeros64(k)]
			if x < w.own.Min {
				w.own.Min = x
			}
			if x > w.own.Max {
				w.own.Max = x
			}
		}
	}
}

// bounds gives the bounds of all that passed.
func (s *scan) bounds() []Bounds {
	list := make([]Bounds, len(s.weighers))
	for i := range s.weighers {
		w := &s.weighers[i]
		list[i] = w.own
		if w.zeroMin && w.own.Max >= w.own.Min {
			list[i].Min = 0
		}
	}
	return list
}
