package pebbleshard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// BenchmarkClaims is durable claims a second on a disk, with callers that wait
// for their own claim. What queues while one Apply is under way goes as the
// next, as a cell does. The disk's own fsync, and the median and the 99th percentile of
// a claim, are reported beside.
func BenchmarkClaims(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { benchmarkClaims(b, callers) })
	}
}

const benchHosts = 1000

func benchmarkClaims(b *testing.B, callers int) {
	dir := b.TempDir()
	fsync := fsyncMedian(b, dir)
	s, err := Open(filepath.Join(dir, "shard"), Options{Cell: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	l, err := s.OpenLane(b.Context(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	hosts := make([]shard.Op, benchHosts)
	for i := range hosts {
		hosts[i].PutHost = shardtest.BigHost(i)
	}
	if _, err := l.Apply(b.Context(), hosts); err != nil {
		b.Fatal(err)
	}
	queue := make(chan shardtest.Asked, callers)
	var batches, next atomic.Int64
	took := make([]time.Duration, b.N)
	var loop, wg sync.WaitGroup
	loop.Go(func() {
		shardtest.Serve(b.Context(), l, queue, 256, func(shard.Applied) { batches.Add(1) })
	})

	b.ReportAllocs()
	b.ResetTimer()
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			back := make(chan shardtest.Answer, 1)
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				asked := time.Now()
				queue <- shardtest.Asked{Op: shardtest.BigClaim(int(i), int(i)%benchHosts), Answer: back}
				if a := <-back; a.Err != nil || a.Outcome.Refusal != nil {
					b.Errorf("refused: %+v, %v", a.Outcome.Refusal, a.Err)
					return
				}
				took[i-1] = time.Since(asked)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	b.StopTimer()
	close(queue)
	loop.Wait()
	b.ReportMetric(float64(b.N)/elapsed.Seconds(), "claims/s")
	b.ReportMetric(float64(b.N)/float64(batches.Load()), "claims/batch")
	slices.Sort(took)
	b.ReportMetric(float64(took[b.N/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[b.N*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(fsync.Nanoseconds()), "fsync-ns")
}

// fsyncMedian times an append of 4 KiB and its fsync.
func fsyncMedian(b *testing.B, dir string) time.Duration {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		b.Fatal(err)
	}
	block := make([]byte, 4096)
	times := make([]time.Duration, 101)
	for i := range times {
		begin := time.Now()
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times[i] = time.Since(begin)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(times)
	return times[len(times)/2]
}
