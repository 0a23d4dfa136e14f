package schedule

import (
	"maps"
	"math"
	"slices"

	"cellgate/internal/python"
)

// NoBounds are the bounds of no hosts: Min > Max.
func NoBounds() Bounds { return Bounds{Min: math.Inf(1), Max: math.Inf(-1)} }

// Union gives the bounds of the hosts of both.
func (b Bounds) Union(o Bounds) Bounds { return Bounds{Min: min(b.Min, o.Min), Max: max(b.Max, o.Max)} }

// weigher is a weigher of a query on a table.
type weigher struct {
	// multiplier is the rules' multiplier; sign is -1 if Nova's code negates it.
	multiplier float64
	sign       float64
	index      int
	// override is the metadata key of aggregates that overrides the multiplier.
	override string
	// zeroMin: raw weights are clamped to at least 0, and normalized from 0 on, whatever the least is (minval in
	// Nova).
	zeroMin bool
	// stored is the index of the chunk's column of raw weights; if it is below 0, fill makes the column.
	stored   int
	fill     func(at int, c *chunk) *column
	name     string
	raises   func(*scan, *weigher, *row) *python.Exception
	mayRaise func(*scan, *chunk, uint64) uint64
	// raisesUnfilled and raised: see unweighable.
	raisesUnfilled bool
	raised         int
	// own are the bounds of the hosts that passed so far.
	own Bounds
	// min and span are of the bounds to rank by, see rankBy.
	min, span float64
}

// weigherKind are the properties of a weigher by name.
type weigherKind struct {
	// override is the name of the multiplier's metadata key and Nova option.
	override string
	zeroMin  bool
	negated  bool
	// notNegative: Nova's option does not allow values below 0.
	notNegative bool
	stored      int // a column; below 0: fill
	fill        func(*scan, *weigher) func(int, *chunk) *column
	// raises gives the exception that Nova raises for a host; nil: it never raises.
	raises func(*scan, *weigher, *row) *python.Exception
	// raisesUnfilled: only for hosts whose compute has not reported.
	raisesUnfilled bool
	// mayRaise gives the hosts for which raises may give an exception; nil: all.
	mayRaise func(*scan, *chunk, uint64) uint64
}

// weighers are all weighers by name.
var weighers = map[string]weigherKind{
	RAMWeigher: {override: "ram_weight_multiplier", stored: ramColumn, zeroMin: true},
	CPUWeigher: {
		override: "cpu_weight_multiplier", stored: cpuColumn, zeroMin: true,
		raises: (*scan).noRatio, raisesUnfilled: true,
	},
	DiskWeigher:              {override: "disk_weight_multiplier", stored: diskColumn, zeroMin: true},
	IoOpsWeigher:             {override: "io_ops_weight_multiplier", stored: ioOpsColumn, zeroMin: true},
	NumInstancesWeigher:      {override: "num_instances_weight_multiplier", stored: instancesColumn},
	PCIWeigher:               {override: "pci_weight_multiplier", stored: pciColumn, notNegative: true},
	HypervisorVersionWeigher: {override: "hypervisor_version_weight_multiplier", stored: versionColumn},
	BuildFailureWeigher:      {override: "build_failure_weight_multiplier", stored: failuresColumn, negated: true},
	CrossCellWeigher: {
		override: "cross_cell_move_weight_multiplier", stored: -1,
		fill: func(s *scan, _ *weigher) func(int, *chunk) *column { return s.crossCell() },
	},
	SoftAffinityWeigher: {
		override: "soft_affinity_weight_multiplier", stored: -1, notNegative: true,
		fill: func(s *scan, _ *weigher) func(int, *chunk) *column { return s.softAffinity(SoftAffinity, 1) },
	},
	SoftAntiAffinityWeigher: {
		override: "soft_anti_affinity_weight_multiplier", stored: -1, notNegative: true,
		fill: func(s *scan, _ *weigher) func(int, *chunk) *column { return s.softAffinity(SoftAntiAffinity, -1) },
	},
	MetricsWeigher:         {override: "metrics_weight_multiplier", stored: -1, fill: (*scan).metrics, raises: (*scan).unmeasured, mayRaise: (*scan).mayLack},
	ImagePropertiesWeigher: {override: "image_props_weight_multiplier", stored: -1, fill: (*scan).imageProperties},
}

// Weighers lists the names of all weighers, sorted.
func Weighers() []string { return slices.Sorted(maps.Keys(weighers)) }

// MultiplierOption is the name of a weigher's multiplier, both as Nova's option and as a metadata key of aggregates.
func MultiplierOption(weigher string) string { return weighers[weigher].override }

func weigherNotNegative(weigher string) bool { return weighers[weigher].notNegative }

func (k *weigherKind) sign() float64 {
	if k.negated {
		return -1
	}
	return 1
}

// setWeigher sets up a weigher; false if the name is unknown.
func (s *scan) setWeigher(i int, named Weigher) bool {
	w := &s.weighers[i]
	if s.expressionWeigher(i, named) {
		return true
	}
	k, ok := weighers[named.Name]
	if !ok {
		return false
	}
	*w = weigher{
		multiplier: named.Multiplier, sign: k.sign(), index: i, override: k.override,
		zeroMin: k.zeroMin, stored: k.stored, own: NoBounds(),
		name: named.Name, raises: k.raises, raisesUnfilled: k.raisesUnfilled, mayRaise: k.mayRaise,
	}
	if k.fill != nil {
		w.fill = k.fill(s, w)
	}
	return true
}

// in gives the raw weights of a chunk, valid until the next call.
func (w *weigher) in(at int, c *chunk) *column {
	if w.stored >= 0 {
		return c.columns[w.stored]
	}
	return w.fill(at, c)
}

// widen extends every weigher's bounds by hosts that passed. The bounds of most chunks' columns show that they cannot
// extend them.
func (s *scan) widen(at int, c *chunk, m uint64) {
	for i := range s.weighers {
		w := &s.weighers[i]
		col := w.in(at, c)
		low := col.lo < w.own.Min && !w.zeroMin
		if !low && col.hi <= w.own.Max {
			continue
		}
		w.own = w.own.Union(col.boundsOf(m, c.valid))
	}
	s.unweighable(c, m)
	s.classesOf(c, m)
}

// classesOf marks the multiplier classes of hosts that passed.
func (s *scan) classesOf(c *chunk, m uint64) {
	if !s.varied {
		return
	}
	for i := range c.overrides.all() {
		p := &c.overrides.v[i]
		if p.mask&m == 0 {
			continue
		}
		s.classes[s.classOf(p.of)].passed = true
		if p.of.bad {
			s.warnOverrides(c, p.mask&m)
		}
	}
}

// warnOverrides records multipliers of hosts that are not numbers.
func (s *scan) warnOverrides(c *chunk, m uint64) {
	for i := range c.sets.all() {
		p := &c.sets.v[i]
		if p.mask&m == 0 {
			continue
		}
		for _, at := range s.overridden {
			key := s.weighers[at].override
			if o := p.of.own.find(key); o != nil && !o.ok {
				s.warn(key, p.of)
			}
		}
	}
}

// bounds gives the bounds of all hosts that passed.
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
