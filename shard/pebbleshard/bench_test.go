package pebbleshard

import (
	"context"
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
// next, as a cell does. The disk's own fsync is reported beside.
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
	queue := make(chan asked, callers)
	var batches, next atomic.Int64
	var loop, wg sync.WaitGroup
	loop.Go(func() { applyQueued(b.Context(), l, queue, &batches) })

	b.ReportAllocs()
	b.ResetTimer()
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			answer := make(chan error, 1)
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				queue <- asked{op: shardtest.BigClaim(int(i), int(i)%benchHosts), answer: answer}
				if err := <-answer; err != nil {
					b.Error(err)
					return
				}
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
	b.ReportMetric(float64(fsync.Nanoseconds()), "fsync-ns")
}

type asked struct {
	op     shard.Op
	answer chan error
}

// applyQueued applies what is queued as one batch, until the queue is closed.
func applyQueued(ctx context.Context, l shard.Lane, queue <-chan asked, batches *atomic.Int64) {
	var batch []asked
	var ops []shard.Op
	for first := range queue {
		batch = append(batch[:0], first)
	fill:
		for len(batch) < 256 {
			select {
			case more, ok := <-queue:
				if !ok {
					break fill
				}
				batch = append(batch, more)
			default:
				break fill
			}
		}
		ops = ops[:0]
		for _, a := range batch {
			ops = append(ops, a.op)
		}
		applied, err := l.Apply(ctx, ops)
		batches.Add(1)
		for i, a := range batch {
			if err == nil && applied.Outcomes[i].Refusal != nil {
				a.answer <- fmt.Errorf("refused: %s", applied.Outcomes[i].Refusal.Message)
				continue
			}
			a.answer <- err
		}
	}
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
