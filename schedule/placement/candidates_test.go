package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func inventory(class string, total, used int64) Inventory {
	return Inventory{Class: class, Total: total, MinUnit: 1, MaxUnit: total, StepSize: 1, AllocationRatio: 1, Used: used}
}

func tree(t testing.TB, providers ...Provider) *Tree {
	t.Helper()
	out, err := NewTree(providers)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// smallFleet has a host with two network devices, a host without disk, and a storage that both share.
func smallFleet(t testing.TB) []*Tree {
	return []*Tree{
		tree(t, Provider{UUID: "h1", Aggregates: []string{"agg"}, Inventories: []Inventory{inventory("VCPU", 4, 0), inventory("DISK_GB", 10, 0)}},
			Provider{UUID: "pf1", Parent: "h1", Traits: []string{"CUSTOM_RED"}, Inventories: []Inventory{inventory("SRIOV_NET_VF", 2, 0)}},
			Provider{UUID: "pf2", Parent: "h1", Traits: []string{"CUSTOM_BLUE"}, Inventories: []Inventory{inventory("SRIOV_NET_VF", 2, 1)}}),
		tree(t, Provider{UUID: "h2", Aggregates: []string{"agg"}, Inventories: []Inventory{inventory("VCPU", 8, 0)}}),
		tree(t, Provider{UUID: "nfs", Aggregates: []string{"agg"}, Traits: []string{SharingTrait}, Inventories: []Inventory{inventory("DISK_GB", 100, 0)}}),
	}
}

func TestCandidates_SmallFleet_AsByHand(t *testing.T) {
	trees := smallFleet(t)
	vf := func(suffix string, traits ...string) Group {
		g := Group{Suffix: suffix, Resources: map[string]int64{"SRIOV_NET_VF": 1}}
		for _, trait := range traits {
			g.Traits.AnyOf = append(g.Traits.AnyOf, []string{trait})
		}
		return g
	}
	for name, c := range map[string]struct {
		q    Query
		want []string
		of   []string
	}{
		"a shared disk is one request, not one for each host": {
			q:    Query{Nested: true, Groups: []Group{{Resources: map[string]int64{"DISK_GB": 20}}}},
			want: []string{"nfs DISK_GB=20 | :nfs"}, of: []string{"nfs"},
		},
		"own and shared disk": {
			q:    Query{Nested: true, Groups: []Group{{Resources: map[string]int64{"DISK_GB": 5, "VCPU": 1}}}},
			want: []string{"h1 DISK_GB=5; h1 VCPU=1 | :h1", "h1 VCPU=1; nfs DISK_GB=5 | :h1,nfs", "h2 VCPU=1; nfs DISK_GB=5 | :h2,nfs"},
			of:   []string{"h1", "h2", "nfs", "pf1", "pf2"},
		},
		"group_policy=none": {
			q:    Query{Nested: true, Groups: []Group{vf("1"), vf("2")}},
			want: []string{"pf1 SRIOV_NET_VF=1; pf2 SRIOV_NET_VF=1 | 1:pf1 2:pf2", "pf1 SRIOV_NET_VF=1; pf2 SRIOV_NET_VF=1 | 1:pf2 2:pf1", "pf1 SRIOV_NET_VF=2 | 1:pf1 2:pf1"},
			of:   []string{"h1", "pf1", "pf2"},
		},
		"group_policy=isolate, a trait": {
			q:    Query{Nested: true, Isolate: true, Groups: []Group{vf("1"), vf("2", "CUSTOM_RED")}},
			want: []string{"pf1 SRIOV_NET_VF=1; pf2 SRIOV_NET_VF=1 | 1:pf2 2:pf1"}, of: []string{"h1", "pf1", "pf2"},
		},
		"before 1.29 one provider of a tree": {
			q:    Query{Groups: []Group{{Resources: map[string]int64{"VCPU": 1}}, vf("1")}},
			want: nil,
		},
		"a limit": {
			q:    Query{Nested: true, Limit: 1, Groups: []Group{{Resources: map[string]int64{"VCPU": 1}}}},
			want: []string{"h1 VCPU=1 | :h1"}, of: []string{"h1", "pf1", "pf2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Candidates(trees, &c.q)
			if err != nil {
				t.Fatal(err)
			}
			var texts, of []string
			for i := range got.Requests {
				texts = append(texts, requestText(&got.Requests[i]))
			}
			for _, p := range got.Providers {
				of = append(of, p.UUID)
			}
			slices.Sort(texts)
			slices.Sort(of)
			if !slices.Equal(texts, c.want) || !slices.Equal(of, c.of) {
				t.Errorf("got\n%s\nof %v, want\n%s\nof %v", strings.Join(texts, "\n"), of, strings.Join(c.want, "\n"), c.of)
			}
		})
	}
}

func TestCandidates_SenselessQuery_ReturnsQueryError(t *testing.T) {
	one := map[string]int64{"VCPU": 1}
	for want, q := range map[string]Query{
		"two groups":   {Groups: []Group{{Suffix: "1", Resources: one}, {Suffix: "1", Resources: one}}},
		"less than 1":  {Groups: []Group{{Resources: map[string]int64{"VCPU": 0}}}},
		"no group has": {Groups: []Group{{Resources: one}}, SameSubtrees: [][]string{{"1"}}},
		"no resources": {Groups: []Group{{Suffix: "1"}}},
	} {
		_, err := Candidates(nil, &q)
		var refused *QueryError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, want) {
			t.Errorf("%v, want a QueryError with %q", err, want)
		}
	}
}

func TestCandidates_TooManyWays_ReturnsBoundError(t *testing.T) {
	devices := []Provider{{UUID: "host"}}
	for i := range 12 {
		devices = append(devices, Provider{UUID: fmt.Sprint("pf", i), Parent: "host", Inventories: []Inventory{inventory("SRIOV_NET_VF", 4, 0)}})
	}
	host := tree(t, devices...)
	for name, c := range map[string]struct {
		groups int
		q      Query
		want   BoundError
	}{
		"more requests than an answer has":            {6, Query{MaxRequests: 1000}, BoundError{Requests: 1000}},
		"more requests than an answer has, by limit":  {6, Query{Limit: 1000, MaxRequests: 10}, BoundError{Requests: 10}},
		"more steps than a search has, without a way": {13, Query{Isolate: true, Limit: 1, MaxSteps: 100_000}, BoundError{Steps: 100_000, Root: "host"}},
	} {
		q := c.q
		q.Nested = true
		for i := range c.groups {
			q.Groups = append(q.Groups, Group{Suffix: fmt.Sprint(i), Resources: map[string]int64{"SRIOV_NET_VF": 1}})
		}
		_, err := Candidates([]*Tree{host}, &q)
		var bound *BoundError
		if !errors.As(err, &bound) || *bound != c.want || bound.Error() == "" {
			t.Errorf("%s: %v, want %v", name, err, c.want.Error())
		}
	}
}

func TestCandidates_Limit_GoesRoundTheTrees(t *testing.T) {
	trees := hosts(t, true, false, false)[:20]
	got, err := Candidates(trees, &Query{Nested: true, Limit: 50, Groups: ports(2)})
	if err != nil {
		t.Fatal(err)
	}
	roots := map[string]int{}
	for _, r := range got.Requests {
		roots[r.Allocations[0].Provider.UUID[:8]]++
	}
	if len(got.Requests) != 50 || len(roots) != 20 {
		t.Errorf("%d requests of %d hosts, want 50 of 20", len(got.Requests), len(roots))
	}
}

func TestNewTree_NoTree_IsRefused(t *testing.T) {
	for want, providers := range map[string][]Provider{
		"0 roots":           {},
		"2 roots":           {{UUID: "a"}, {UUID: "b"}},
		"twice":             {{UUID: "a"}, {UUID: "a", Parent: "a"}},
		"not below":         {{UUID: "a"}, {UUID: "b", Parent: "c"}, {UUID: "c", Parent: "b"}},
		"no uuid":           {{}},
		"two inventories":   {{UUID: "a", Inventories: []Inventory{inventory("VCPU", 1, 0), inventory("VCPU", 1, 0)}}},
		"is not positive":   {{UUID: "a", Inventories: []Inventory{{Class: "VCPU"}}}},
		"1 of 2 providers ": {{UUID: "a"}, {UUID: "b", Parent: "nobody"}},
	} {
		if _, err := NewTree(providers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", providers, err, want)
		}
	}
}

func TestInventoryCapacity_RatioAndReserved_AsPlacementRounds(t *testing.T) {
	for _, c := range []struct {
		total, reserved int64
		ratio           float64
		want            int64
	}{{10, 0, 1.5, 15}, {7, 1, 0.9, 5}, {0, 4, 16, -64}, {0, 3, 0.5, -1}, {1, 0, 1e300, 1<<63 - 1}, {0, 1, 1e300, -1 << 62}} {
		inv := Inventory{Total: c.total, Reserved: c.reserved, AllocationRatio: c.ratio}
		if got := inv.Capacity(); got != c.want {
			t.Errorf("%+v: %d, want %d", inv, got, c.want)
		}
	}
}
