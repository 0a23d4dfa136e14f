package schedule

import (
	"maps"
	"math"
	"slices"
	"strings"

	"cellgate/internal/python"
)

// aggregateSet is the aggregates that some hosts are in. Filters that read only
// metadata are asked once a set.
type aggregateSet struct {
	id int
	// raw has the distinct values of a metadata key as they stand; split has
	// them split at commas, without space around, sorted.
	raw   map[string][]string
	split map[string][]string
	// numbers are those of the keys that are to have some: see least.
	numbers map[string]number64
	// own are the multipliers that it overrides.
	own *overrides
	// tenants may use one of the aggregates: see TenantsOf.
	tenants []string
	// needs are the traits that the aggregates' metadata requires.
	needs []string
}

// number64 is the least of a key's values; not ok when any is no number.
type number64 struct {
	least float64
	ok    bool
}

// aggregateKey interns a host's set of aggregates by their content.
func aggregateKey(in []Aggregate) name {
	var b strings.Builder
	order := make([]int, len(in))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(in[a].UUID, in[b].UUID) })
	var keys []string
	for _, i := range order {
		b.WriteString(in[i].UUID)
		keys = keys[:0]
		for k := range in[i].Metadata {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			b.WriteByte(1)
			b.WriteString(k)
			b.WriteByte(2)
			b.WriteString(in[i].Metadata[k])
		}
		b.WriteByte(0)
	}
	return name(b.String())
}

func newAggregateSet(id int, in []Aggregate) *aggregateSet {
	a := &aggregateSet{id: id, raw: map[string][]string{}, split: map[string][]string{}, numbers: map[string]number64{}}
	for i := range in {
		a.tenants = append(a.tenants, TenantsOf(&in[i])...)
		for k, v := range in[i].Metadata {
			if trait, ok := strings.CutPrefix(k, "trait:"); ok && v == "required" {
				a.needs = append(a.needs, trait)
			}
			if slices.Contains(a.raw[k], v) {
				continue
			}
			a.raw[k] = append(a.raw[k], v)
			for part := range strings.SplitSeq(v, ",") {
				a.split[k] = append(a.split[k], python.Strip(part))
			}
		}
	}
	for k, parts := range a.split {
		slices.Sort(parts)
		a.split[k] = slices.Compact(parts)
	}
	for k, values := range a.raw {
		if strings.HasSuffix(k, multiplierKey) || strings.HasSuffix(k, ratioKey) {
			least, ok := leastOf(values)
			a.numbers[k] = number64{least, ok}
		}
	}
	return a
}

// The ends of keys of metadata that are to have numbers.
const (
	multiplierKey = "_weight_multiplier"
	ratioKey      = "_allocation_ratio"
)

// tenantKey begins the keys of metadata that name tenants.
const tenantKey = "filter_tenant_id"

// TenantsOf gives the projects that an aggregate is named for, in no order: when
// any key of its metadata begins with filter_tenant_id, all its values, as they
// stand. Nova finds them in the same way (request_filter.py,
// require_tenant_aggregate): by a value of any key, then for such a key.
func TenantsOf(a *Aggregate) []string {
	named := false
	for k := range a.Metadata {
		named = named || strings.HasPrefix(k, tenantKey)
	}
	if !named {
		return nil
	}
	return slices.Collect(maps.Values(a.Metadata))
}

// least is the least of the values of a key that are to be numbers, or otherwise
// when there is none. It reports false, and gives otherwise, when any of them is
// no number: Nova then goes by its option (nova/scheduler/filters/utils.py,
// validate_num_values).
func (a *aggregateSet) least(key string, otherwise float64) (float64, bool) {
	switch n, there := a.numbers[key]; {
	case !there:
		return otherwise, true
	case !n.ok:
		return otherwise, false
	default:
		return n.least, true
	}
}

// leastOf is the least of values; false when any is no number. One that is not finite
// counts as none here.
func leastOf(values []string) (least float64, ok bool) {
	least = math.Inf(1)
	for _, v := range values {
		f, ok := python.Float(v)
		if !ok || math.IsNaN(f) || math.Abs(f) > maxMultiplier {
			return 0, false
		}
		least = min(least, f)
	}
	return least, true
}

// leastInt is least of integers.
func (a *aggregateSet) leastInt(key string, otherwise int64) (int64, bool) {
	values := a.raw[key]
	if len(values) == 0 {
		return otherwise, true
	}
	least := int64(math.MaxInt64)
	for _, v := range values {
		n, ok := python.Int(v)
		if !ok {
			return otherwise, false
		}
		least = min(least, n)
	}
	return least, true
}
