package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAggregatesOfTenantsAndTraits compares with Nova's rules (request_filter.py), aggregate by
// aggregate. An aggregate is a tenant's if any key has the project as value and any key begins with
// filter_tenant_id. If a key trait:T of an aggregate has the value required, requests that do not
// require T avoid its hosts.
func TestAggregatesOfTenantsAndTraits(t *testing.T) {
	aggregate := rapid.Custom(func(t *rapid.T) Aggregate {
		return Aggregate{
			UUID: fmt.Sprintf("a0000000-0000-4000-8000-%012d", rapid.IntRange(0, 1<<30).Draw(t, "uuid")),
			Metadata: rapid.MapOfN(
				rapid.SampledFrom([]string{"filter_tenant_id", "filter_tenant_id7", "owner", "trait:X", "trait:Y", "traits:X"}),
				rapid.SampledFrom([]string{"p", "q", "p,q", "required", "forbidden", ""}), 0, 4).Draw(t, "metadata"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOfN(rapid.SliceOfN(aggregate, 0, 3), 1, 70).Draw(t, "hosts")
		r := &Request{Tenant: rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "tenant")}
		if rapid.Bool().Draw(t, "isolating") {
			r.Isolated = &Isolation{Traits: rapid.SliceOfDistinct(rapid.SampledFrom([]string{"X", "Y"}), rapid.ID).Draw(t, "traits")}
		}
		e, want := NewTable().Edit(), 0
		for i, in := range hosts {
			h := Host{ServiceHost: fmt.Sprint("h", i), NodeName: fmt.Sprint("h", i), Aggregates: in}
			h.UUID[0], h.UUID[1] = 1, byte(i)
			e.PutHost(h)
			if tenantAllows(r, in) && traitsAllow(r, in) {
				want++
			}
		}
		p, err := e.Table().Propose(&Query{Request: r, Rules: &Rules{Filters: []string{AggregateFilter}}, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if p.Passed != want {
			t.Errorf("%d of %d pass, want %d", p.Passed, len(hosts), want)
		}
	})
}

func tenantAllows(r *Request, in []Aggregate) bool {
	return r.Tenant == "" || slices.ContainsFunc(in, func(a Aggregate) bool {
		value, key := false, false
		for k, v := range a.Metadata {
			value, key = value || v == r.Tenant, key || strings.HasPrefix(k, "filter_tenant_id")
		}
		return value && key
	})
}

func traitsAllow(r *Request, in []Aggregate) bool {
	if r.Isolated == nil {
		return true
	}
	for _, a := range in {
		for k, v := range a.Metadata {
			name, ok := strings.CutPrefix(k, "trait:")
			if ok && v == "required" && !slices.Contains(r.Isolated.Traits, name) {
				return false
			}
		}
	}
	return true
}
