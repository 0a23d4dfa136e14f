package schedule

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
)

// placeOneByOne counts like Fill, but naively: propose and place until no host passes.
func placeOneByOne(t *rapid.T, table *Table, r *Request, rules *Rules, seed uint64, most int) (int, *Proposal) {
	r = r.OfNewMembers()
	for n := 0; ; n++ {
		p, err := table.Propose(&Query{Request: r, Rules: rules, Seed: seed + uint64(n), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Candidates) == 0 || n == most {
			return n, p
		}
		e := table.Edit()
		e.Place(TentativePlacement{Host: p.Candidates[0].Host, Instance: testID('n', n)}, r, rules)
		table = e.Table()
	}
}

func noRest() error { return nil }

func TestFill_RandomFleets_EqualsPlacingOneByOne(t *testing.T) {
	norace.Skip(t, norace.Pure)
	const most = 400
	full, limited, grouped, several := 0, 0, 0, 0
	propChecks(t, 200)
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		table := f.table()
		q := drawQuery(t, f)
		if g := q.Request.Group; g != nil && g.Policy == Affinity {
			g.Policy = AntiAffinity
		}
		got, err := table.Fill(q.Request, q.Rules, most, noRest)
		if err != nil {
			t.Fatal(err)
		}
		want, last := placeOneByOne(t, table, q.Request, q.Rules, q.Seed, most)
		if got.Instances != want || got.Limited != (want == most) {
			t.Fatalf("%d instances, limited %v; one by one %d", got.Instances, got.Limited, want)
		}
		if got.Limited {
			limited++
			return
		}
		sum := 0
		for _, r := range got.Rejects {
			sum += r.Hosts
		}
		if got.Hosts != len(f.hosts) || sum != got.Hosts || !slices.Equal(got.Rejects, last.Rejects) {
			t.Fatalf("%d hosts, rejects %+v (%d hosts); one by one %+v", got.Hosts, got.Rejects, sum, last.Rejects)
		}
		full += bit2int(want > 0)
		grouped += bit2int(want > 0 && q.Request.Group != nil)
		several += bit2int(want > got.HostsUsed)
	})
	t.Logf("%d full fleets, %d with a group, %d with several instances on a host; %d limited", full, grouped, several, limited)
	for _, n := range []int{full, grouped, several} {
		if n == 0 {
			t.Error("the fleets drawn show too little")
		}
	}
}

func TestFill_RestFails_Ends(t *testing.T) {
	e := NewTable().Edit()
	for i := range 200 {
		e.PutHost(Host{UUID: testID('h', i), Resources: []Resource{{Class: "VCPU", Capacity: 100, MinUnit: 1, MaxUnit: 100, StepSize: 1}}})
	}
	table, ended := e.Table(), errors.New("ended")
	r := &Request{Resources: []Amount{{Class: "VCPU", N: 1}}}
	if _, err := table.Fill(r, &Rules{}, 1e6, func() error { return ended }); !errors.Is(err, ended) {
		t.Errorf("err = %v", err)
	}
	got, err := table.Fill(r, &Rules{}, 1e6, noRest)
	if err != nil || got.Instances != 20000 || got.HostsUsed != 200 || got.Limited {
		t.Errorf("got %+v, %v", got, err)
	}
}

// BenchmarkFill fills an aged fleet until nothing fits any more.
func BenchmarkFill(b *testing.B) {
	for _, n := range benchSizes {
		f := &fleet{hosts: benchHosts(n)}
		table, q, placed := f.table(), benchQuery(), 0
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			for b.Loop() {
				got, err := table.Fill(q.Request, q.Rules, 1e7, noRest)
				if err != nil {
					b.Fatal(err)
				}
				placed = got.Instances
			}
			b.ReportMetric(float64(placed*b.N)/b.Elapsed().Seconds(), "instances/s")
		})
	}
}

// A host whose search takes long does not keep Fill from resting.
func TestFill_LongSearchOnOneHost_Rests(t *testing.T) {
	table, r := hostWithTooFewChildren()
	ended, rests := errors.New("ended"), 0
	_, err := table.Fill(r, &Rules{Filters: []string{TreeFilter}}, 10, func() error {
		if rests++; rests > 3 {
			return ended
		}
		return nil
	})
	if !errors.Is(err, ended) || rests > 4 {
		t.Errorf("%v after %d rests", err, rests)
	}
}
