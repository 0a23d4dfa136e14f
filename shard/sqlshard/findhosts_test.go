package sqlshard

import (
	"slices"
	"testing"
	"time"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// Tests of package cell (TestI6_…) compare a database's answers to a request's rules with the host
// table. This file tests the rest of the contract.

// filterStand has hosts 1 to 20 of 10 VCPU; those with even numbers are full.
func filterStand(t *testing.T) *stand {
	s := newStand(t, testOptions(newDatabase(t)))
	var ops []shard.Op
	for n := 1; n <= 20; n++ {
		p := shardtest.NewHost(n, 10)
		p.Host.StateVersion = 2 // newStand puts host 1 with an earlier version
		ops = append(ops, shard.Op{PutHost: p})
		amount := int64(1)
		if n%2 == 0 {
			amount = 10
		}
		ops = append(ops, shard.Op{Claim: shardtest.NewClaim(n, n, amount)})
	}
	if err := s.apply(ops...); err != nil {
		t.Fatal(err)
	}
	return s
}

func hostsOf(numbers ...int) []string {
	var list []string
	for _, n := range numbers {
		list = append(list, shardtest.HostID(n))
	}
	return list
}

func TestFilteredHostsBeginWhereTheQuerySays(t *testing.T) {
	s := filterStand(t)
	room := []shard.AmountOf{{ResourceClass: shardtest.Class, Amount: 2}}
	for name, c := range map[string]struct {
		q    shard.HostQuery
		want []string
		more bool
	}{
		"all":                   {shard.HostQuery{}, hostsOf(1, 3, 5, 7, 9, 11, 13, 15, 17, 19), false},
		"the first ones":        {shard.HostQuery{Limit: 3}, hostsOf(1, 3, 5), true},
		"from one on":           {shard.HostQuery{Limit: 3, From: shardtest.HostID(8)}, hostsOf(9, 11, 13), true},
		"from one on and again": {shard.HostQuery{Limit: 4, From: shardtest.HostID(16)}, hostsOf(17, 19, 1, 3), true},
		"as many as there are":  {shard.HostQuery{Limit: 10, From: shardtest.HostID(16)}, hostsOf(17, 19, 1, 3, 5, 7, 9, 11, 13, 15), false},
		"of more than there are": {
			shard.HostQuery{Limit: 99, From: shardtest.HostID(99)}, hostsOf(1, 3, 5, 7, 9, 11, 13, 15, 17, 19), false,
		},
		"just one":         {shard.HostQuery{Limit: 9, ServiceHost: shardtest.ServiceHost(7)}, hostsOf(7), false},
		"none of the node": {shard.HostQuery{ServiceHost: shardtest.ServiceHost(7), NodeName: "x"}, nil, false},
	} {
		c.q.Resources = room
		m, err := s.FindHosts(t.Context(), c.q)
		if err != nil || !slices.Equal(m.UUIDs, c.want) || m.More != c.more || m.Hosts != 20 || m.Rows != nil {
			t.Errorf("%s: %+v, %v; want %v, more %v", name, m, err, c.want, c.more)
		}
	}
}

// FindHosts gives the same rows of a host as Load.
func TestFilteredHostsComeWithTheirRows(t *testing.T) {
	s := filterStand(t)
	says := func(n int, name, facts string) shard.Op {
		return shard.Op{PutFacts: &shard.PutFacts{HostUUID: shardtest.HostID(n), Namespace: name, Facts: facts}}
	}
	if err := s.apply(says(17, "a", "{}"), says(17, "b", "{}"), says(17, "b", ""), says(18, "a", "{}")); err != nil {
		t.Fatal(err)
	}
	all, _, err := shardtest.LoadRows(t.Context(), s.Store)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, 4} {
		q := shard.HostQuery{
			Resources: []shard.AmountOf{{ResourceClass: shardtest.Class, Amount: 2}}, Limit: limit, From: shardtest.HostID(16),
		}
		bare, err := s.FindHosts(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.Rows = true
		m, err := s.FindHosts(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if limit == 0 {
			slices.Sort(bare.UUIDs)
		}
		if !slices.Equal(m.UUIDs, bare.UUIDs) || m.More != bare.More || m.More != (limit > 0) {
			t.Errorf("with rows it finds %v, more %v; without %v, more %v", m.UUIDs, m.More, bare.UUIDs, bare.More)
		}
		found := shardtest.NewRows()
		for _, r := range m.Rows {
			found.Put(r, time.Time{})
		}
		want := shardtest.NewRows()
		for _, uuid := range m.UUIDs {
			want.Put(shard.Change{Host: all.Hosts[uuid]}, time.Time{})
			want.Put(shard.Change{Usage: all.Usages[uuid]}, time.Time{})
		}
		for _, c := range all.Claims {
			if slices.Contains(m.UUIDs, c.HostUUID) {
				want.Put(shard.Change{Claim: c}, time.Time{})
			}
		}
		for _, n := range all.Namespaces {
			if slices.Contains(m.UUIDs, n.HostUUID) {
				want.Put(shard.Change{Namespace: n}, time.Time{})
			}
		}
		if len(want.Namespaces) != 1 {
			t.Errorf("the hosts have namespaces %v", want.Namespaces)
		}
		if len(want.Claims) == 0 || len(want.Claims) != len(m.UUIDs) {
			t.Errorf("%d hosts have %d claims", len(m.UUIDs), len(want.Claims))
		}
		for _, d := range found.Diff(want) {
			t.Error(d)
		}
	}
}
