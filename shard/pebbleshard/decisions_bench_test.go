package pebbleshard

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// benchDecision is like the decision of a small request: an instance of its own, one of 1,000
// projects, one of 3,000 hosts, and a body of 1.5 KB, of which about half repeats.
func benchDecision(n int) shard.Decision {
	d := shardtest.NewDecision(n)
	d.Terms = []string{fmt.Sprint("req:", n), fmt.Sprint("instance:", n), fmt.Sprint("project:", n%1000), fmt.Sprint("host:", n%3000), fmt.Sprint("cell:", n%3)}
	if n%10 == 0 {
		d.Terms = append(d.Terms, "refused", "reason:NO_VALID_HOST")
	}
	for i := range 20 {
		d.Body = fmt.Appendf(d.Body, "host %08x of cell cell1 has weight %d and claim %016x; ", (n+1)*(i+7)*2654435761, i, (n+3)*(i+1)*40503)
	}
	return d
}

func benchDecisions(b *testing.B, count int) *Store {
	s, err := Open(filepath.Join(b.TempDir(), "shard"), Options{Cell: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { mustClose(b, s) })
	for n := 0; n < count; n += 100 {
		ds := make([]shard.Decision, 100)
		for i := range ds {
			ds[i] = benchDecision(n + i)
		}
		if err := s.PutDecisions(b.Context(), ds); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// BenchmarkFindDecisions lists a page of each kind among many.
func BenchmarkFindDecisions(b *testing.B) {
	const count = 100_000
	s := benchDecisions(b, count)
	b.Logf("%d bytes on disk", s.db.Metrics().DiskSpaceUsage())
	for name, q := range map[string]shard.DecisionQuery{
		"id":       {ID: shardtest.DecisionID(count / 2)},
		"instance": {Terms: []string{fmt.Sprint("instance:", count/3)}},
		"project":  {Terms: []string{"project:7"}},
		"host":     {Terms: []string{"host:7"}},
		"newest":   {},
		"refused":  {Terms: []string{"refused"}},
		"rare":     {Terms: []string{"req:7", "project:7"}},
		"nowhere":  {Terms: []string{"reason:NO_VALID_HOST", "cell:9"}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.FindDecisions(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPutDecisions puts batches of 100, and trims to 10,000 decisions after each 10,000.
func BenchmarkPutDecisions(b *testing.B) {
	s := benchDecisions(b, 0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		ds := make([]shard.Decision, 100)
		for i := range ds {
			ds[i] = benchDecision(n)
			n++
		}
		if err := s.PutDecisions(b.Context(), ds); err != nil {
			b.Fatal(err)
		}
		if n%10_000 == 0 {
			if err := s.TrimDecisions(b.Context(), time.Unix(1, 0), 10_000); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "decisions/s")
}
