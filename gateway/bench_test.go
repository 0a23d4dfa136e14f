package gateway

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
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
