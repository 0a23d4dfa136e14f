package schedule

import (
	"maps"
	"math"
	"slices"
	"strings"

	"cellgate/internal/python"
)

// aggregateSet is the set of aggregates that some hosts are in. Filters that read only metadata judge each set once.
type aggregateSet struct {
	id int
	// raw has the distinct values of each metadata key, unchanged. split has them split at commas, trimmed and
	// sorted.
	raw   map[string][]string
	split map[string][]string
	// numbers are the values of keys that must be numbers: see least.
	numbers map[string]number64
	// own are the weight multipliers that the set overrides.
	own *overrides
	// tenants are the projects that the aggregates are reserved for: see TenantsOf.
	tenants []string
	// needs are the traits that the aggregates' metadata requires.
	needs []string
}

// number64 is the least of a key's values; not ok if any of them is not a number.
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

// The suffixes of metadata keys whose values must be numbers.
const (
	multiplierKey = "_weight_multiplier"
	ratioKey      = "_allocation_ratio"
)

// tenantKey is the prefix of metadata keys that name tenants.
const tenantKey = "filter_tenant_id"

// TenantsOf gives the projects that an aggregate is reserved for, in no order. If any key of its metadata begins with
// filter_tenant_id, these are all values of the metadata, unchanged. Nova finds them in the same way
// (request_filter.py, require_tenant_aggregate): by a value of any key, then for such a key.
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

// least is the least of a key's values, or otherwise if the key has none. If any value is not a number, it gives
// otherwise and false: Nova then uses its option (nova/scheduler/filters/utils.py, validate_num_values).
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

// leastOf is the least of values; false if any is not a number. Here NaN, infinities and numbers beyond maxMultiplier
// do not count as numbers.
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

// leastInt is least for integers.
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
