package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkFilterCache repeats a request with another seed: on the same table; on two tables that
// differ in 100 hosts, alternately; and on these with other bounds, too.
func BenchmarkFilterCache(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		hosts := richHosts(n)
		table := (&fleet{hosts: hosts}).table()
		rng, e := rand.New(rand.NewPCG(1, 1)), table.Edit()
		for range 100 {
			e.Take(TentativePlacement{Host: hosts[rng.IntN(n)].UUID, Instance: testID('i', rng.IntN(1<<30))}, benchQuery().Request)
		}
		changed := e.Table()
		q := benchQuery()
		q.Known = &GlobalStats{Bounds: propose(b, table, q).Bounds, Passed: int64(n)}
		other := *q
		other.Known = &GlobalStats{Bounds: append([]Bounds{}, q.Known.Bounds...), Passed: int64(n)}
		other.Known.Bounds[0].Max++
		for _, c := range []struct {
			name   string
			tables [2]*Table
			asks   [2]*Query
		}{
			{"unchanged", [2]*Table{table, table}, [2]*Query{q, q}},
			{"hosts", [2]*Table{table, changed}, [2]*Query{q, q}},
			{"hosts-and-bounds", [2]*Table{table, changed}, [2]*Query{q, &other}},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				cache := NewFilterCache(q.Request, q.Rules)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					ask := *c.asks[i%2]
					ask.Seed = uint64(i)
					if _, err := cache.Propose(c.tables[i%2], &ask); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("table/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ask := *q
				ask.Seed = uint64(i)
				propose(b, table, &ask)
			}
		})
	}
}
