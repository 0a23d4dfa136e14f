package gateway

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSelect is one dry run over three cells of 1,000 hosts, gRPC in memory
// on both sides, alone and from 64 callers.
func BenchmarkSelect(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "alone", 64: "64callers"}[callers], func(b *testing.B) {
			cells := fleet(3, 0)
			for i, c := range cells {
				for h := range 1000 {
					c.hosts = append(c.hosts, testHost(i*1000+h, 1+h%4))
				}
			}
			w := start(b, cells, nil)
			var n atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
			run := func() bool {
				req := ask(int(n.Add(1)), 1)
				req.DryRun = true
				_, err := w.scheduler.SelectDestinations(context.Background(), req)
				if err != nil {
					b.Error(err)
				}
				return err == nil
			}
			if callers == 1 {
				for range b.N {
					run()
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() && run() {
				}
			})
		})
	}
}

// BenchmarkSelectBesideExplain is BenchmarkSelect in turns of two seconds, with a request explained in every other
// turn. It prints the median time of a selection without and with explain, and the difference in percent.
func BenchmarkSelectBesideExplain(b *testing.B) {
	const turn = 2 * time.Second
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "alone", 64: "64callers"}[callers], func(b *testing.B) {
			cells := fleet(3, 0)
			for i, c := range cells {
				for h := range 1000 {
					c.hosts = append(c.hosts, testHost(i*1000+h, 1+h%4))
				}
			}
			w := start(b, cells, nil)
			ctx := context.Background()
			var n atomic.Int64
			// during runs selections for one turn, and returns the time per selection in ns.
			during := func() float64 {
				began := time.Now()
				var done atomic.Int64
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for time.Since(began) < turn {
							req := ask(int(n.Add(1)), 1)
							req.DryRun = true
							if _, err := w.scheduler.SelectDestinations(ctx, req); err != nil {
								b.Error(err)
								return
							}
							done.Add(1)
						}
					})
				}
				all.Wait()
				return float64(time.Since(began).Nanoseconds()) / float64(done.Load())
			}
			var without, with []float64
			during() // warm
			for b.Loop() {
				without = append(without, during())
				var explained sync.WaitGroup
				explained.Go(func() {
					if _, err := w.scheduler.ExplainDestinations(ctx, ask(int(n.Add(1)), 1)); err != nil {
						b.Error(err)
					}
				})
				with = append(with, during())
				explained.Wait()
			}
			slices.Sort(without)
			slices.Sort(with)
			a, c := without[len(without)/2], with[len(with)/2]
			b.ReportMetric(a, "ns/select-without")
			b.ReportMetric(c, "ns/select-beside")
			b.ReportMetric(100*(c/a-1), "%more")
		})
	}
}
