package schedule

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// overrides are the multipliers in the metadata of a set of aggregates. Sets with equal overrides share one object,
// so their hosts are of one class in every query, whatever their aggregates.
type overrides struct {
	id  int
	own []override
	// bad: some value is not a number.
	bad bool
}

// override is one multiplier, by its key; see aggregateSet.least.
type override struct {
	key string
	number64
}

// find gives the override of a key; nil when there is none.
func (o *overrides) find(key string) *override {
	for i := range o.own {
		if o.own[i].key == key {
			return &o.own[i]
		}
	}
	return nil
}

// overridesOf gives a set's overrides; equal ones are shared.
func (c *catalog) overridesOf(a *aggregateSet, owner uint64) *overrides {
	o := &overrides{}
	for k, n := range a.numbers {
		if strings.HasSuffix(k, multiplierKey) {
			o.own = append(o.own, override{k, n})
			o.bad = o.bad || !n.ok
		}
	}
	slices.SortFunc(o.own, func(a, b override) int { return strings.Compare(a.key, b.key) })
	var content []byte
	for i := range o.own {
		content = append(append(content, o.own[i].key...), 0)
		if o.own[i].ok {
			content = append(content, 1)
		}
		// All bits: -0 and 0 differ when weights are compared bit by bit.
		content = append(binary.BigEndian.AppendUint64(content, math.Float64bits(o.own[i].least)), 0)
	}
	if known, ok := c.overrides.get(name(content)); ok {
		return known
	}
	o.id = c.overrides.n
	c.overrides = c.overrides.set(name(content), o, owner)
	return o
}
