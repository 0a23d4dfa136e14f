package schedule

import (
	"math/bits"
	"slices"
	"strings"
)

// warned is a metadata key and a set of aggregates in which its value is not a number.
type warned struct {
	key string
	set *aggregateSet
}

func (s *scan) warn(key string, set *aggregateSet) {
	w := warned{key, set}
	if !slices.Contains(s.warned, w) {
		s.warned = append(s.warned, w)
	}
}

// warnings gives the warnings, each with the number of the table's hosts that it is about.
func (s *scan) warnings() []Warning {
	var list []Warning
	of := func(key string) *Warning {
		at := slices.IndexFunc(list, func(x Warning) bool { return x.Key == key })
		if at < 0 {
			list = append(list, Warning{Key: key})
			at = len(list) - 1
		}
		return &list[at]
	}
	for i := range s.weighers {
		if w := &s.weighers[i]; w.raised > 0 {
			// A weigher that is named twice counted the same hosts twice.
			x := of(w.name)
			x.Hosts = w.raised
			s.explainWarning(x)
		}
	}
	for _, w := range s.asked {
		if w.lacking > 0 {
			x := of(w.weigher)
			x.Hosts, x.Example = w.lacking, w.example
		}
	}
	for _, w := range s.warned {
		x := of(w.key)
		for _, c := range s.t.chunks {
			for _, p := range c.sets.all() {
				if p.of != w.set || p.mask == 0 {
					continue
				}
				x.Hosts += bits.OnesCount64(p.mask)
				if x.Example == "" {
					x.Example = c.rows.v[bits.TrailingZeros64(p.mask)].host.ServiceHost
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Warning) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// limitReaders are the filters that read a number from aggregates' metadata, by its key.
var limitReaders = map[string]string{
	maxIOOps:                AggregateIoOpsFilter,
	maxInstances:            AggregateNumInstancesFilter,
	"cpu_allocation_ratio":  AggregateCoreFilter,
	"ram_allocation_ratio":  AggregateRAMFilter,
	"disk_allocation_ratio": AggregateDiskFilter,
}

// ReaderOf names the filter or weigher that a warning with this key is about; "" for an unknown key.
func ReaderOf(key string) string {
	if _, ok := weighers[key]; ok {
		return key
	}
	if filter, ok := limitReaders[key]; ok {
		return filter
	}
	for name, k := range weighers {
		if k.override == key {
			return name
		}
	}
	return ""
}
