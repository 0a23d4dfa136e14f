package schedule

import (
	"math/bits"
	"slices"
	"strings"
)

// warned is a value of a metadata key, in a set of aggregates, that is no number.
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

// warnings counts the hosts of the table that a warning is about.
func (s *scan) warnings() []Warning {
	var list []Warning
	for i := range s.weighers {
		if w := &s.weighers[i]; w.raised > 0 {
			list = append(list, Warning{Key: w.name, Hosts: w.raised})
		}
	}
	if s.unweighed > 0 {
		list = append(list, Warning{Key: ExpressionWeigher, Hosts: s.unweighed})
	}
	for _, w := range s.warned {
		hosts := 0
		for _, c := range s.t.chunks {
			for _, p := range c.sets.all() {
				if p.of == w.set {
					hosts += bits.OnesCount64(p.mask)
				}
			}
		}
		at := slices.IndexFunc(list, func(x Warning) bool { return x.Key == w.key })
		if at < 0 {
			list = append(list, Warning{Key: w.key})
			at = len(list) - 1
		}
		list[at].Hosts += hosts
	}
	slices.SortFunc(list, func(a, b Warning) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// limitReaders are the filters that read a number of aggregates' metadata, by its key.
var limitReaders = map[string]string{
	maxIOOps:                AggregateIoOpsFilter,
	maxInstances:            AggregateNumInstancesFilter,
	"cpu_allocation_ratio":  AggregateCoreFilter,
	"ram_allocation_ratio":  AggregateRAMFilter,
	"disk_allocation_ratio": AggregateDiskFilter,
}

// ReaderOf names the filter or weigher that a warning with this key is of; "" for a
// key that none has.
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
