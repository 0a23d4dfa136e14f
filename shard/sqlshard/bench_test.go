package sqlshard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/pgtest"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
	"cellgate/shard/shardtest"
)

// BenchmarkClaims is durable claims a second, on PostgreSQL with fsync and on Pebble
// beside it: callers wait for their own claim, and what queues at a lane while one
// Apply is under way goes as the next, as in a cell. spread: each claim on another of
// 1,000 hosts. pack: all on one host until it is full, which all lanes want.
func BenchmarkClaims(b *testing.B) {
	for _, store := range []struct {
		name string
		open func(b *testing.B) shard.Store
	}{
		{"pebble", openPebble},
		{"postgres", func(b *testing.B) shard.Store { return openDurable(b, "read committed") }},
		{"postgres-serializable", func(b *testing.B) shard.Store { return openDurable(b, "serializable") }},
	} {
		b.Run(store.name, func(b *testing.B) {
			for _, lanes := range []int{1, 8} {
				for _, callers := range []int{1, 8, 64} {
					if callers < lanes {
						continue
					}
					b.Run(fmt.Sprintf("spread/lanes=%d/callers=%d", lanes, callers), func(b *testing.B) {
						run := newLoad(b, store.open(b), lanes, shardtest.BigHost)
						run.claims(b, callers, func(n int) int { return n % loadHosts })
					})
				}
			}
			b.Run("pack/lanes=8/callers=64", func(b *testing.B) {
				run := newLoad(b, store.open(b), 8, func(n int) *shard.PutHost {
					p := shardtest.BigHost(n)
					p.Host.Providers[0].Inventories[0].Total = 2 * packed
					return p
				})
				run.pack(b, 64)
			})
		})
	}
}

const (
	loadHosts = 1000
	// packed is how many claims of two VCPU a host takes in the packing load.
	packed = 100
)

func openPebble(b *testing.B) shard.Store {
	s, err := pebbleshard.Open(filepath.Join(b.TempDir(), "shard"), pebbleshard.Options{Cell: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// openDurable gives a shard on a server that syncs.
func openDurable(b *testing.B, isolation string) shard.Store {
	srv := pgtest.New(b, pgtest.Options{Durable: true})
	s, err := Open(b.Context(), Options{
		Cell: "bench", URL: srv.NewDatabase(b), Migrate: true, MaxConns: 16, Isolation: isolation,
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// load is a store under load.
type load struct {
	store   shard.Store
	lanes   []chan shardtest.Asked
	loop    sync.WaitGroup
	batches atomic.Int64
}

func newLoad(b *testing.B, s shard.Store, lanes int, host func(n int) *shard.PutHost) *load {
	run := &load{store: s}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	for i := range lanes {
		l, err := s.OpenLane(b.Context(), fmt.Sprintf("lane-%d", i))
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			ops := make([]shard.Op, loadHosts)
			for n := range ops {
				ops[n].PutHost = host(n)
			}
			if _, err := l.Apply(b.Context(), ops); err != nil {
				b.Fatal(err)
			}
		}
		queue := make(chan shardtest.Asked, 256)
		run.lanes = append(run.lanes, queue)
		run.loop.Go(func() {
			shardtest.Serve(b.Context(), l, queue, 256, func(shard.Applied) { run.batches.Add(1) })
		})
	}
	return run
}

// callers runs callers that take numbers up to b.N, each at its lane.
func (l *load) callers(b *testing.B, n int, call func(ask func(shard.Op) (shard.Outcome, error), claim int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	begin := time.Now()
	for c := range n {
		wg.Go(func() {
			back := make(chan shardtest.Answer, 1)
			ask := func(op shard.Op) (shard.Outcome, error) {
				l.lanes[c%len(l.lanes)] <- shardtest.Asked{Op: op, Answer: back}
				a := <-back
				return a.Outcome, a.Err
			}
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := call(ask, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	b.StopTimer()
	for _, q := range l.lanes {
		close(q)
	}
	l.loop.Wait()
	b.ReportMetric(float64(b.N)/elapsed.Seconds(), "claims/s")
	b.ReportMetric(float64(b.N)/float64(l.batches.Load()), "claims/batch")
	if s, ok := l.store.(*Store); ok {
		b.ReportMetric(float64(s.Counts().Races), "reruns")
	}
	if os.Getenv("CELLGATE_BENCH_CHECK") != "" {
		rows, _, err := shardtest.LoadRows(context.Background(), l.store)
		if err != nil {
			b.Fatal(err)
		}
		for _, w := range append(rows.Check(), rows.Overfull()...) {
			b.Error(w)
		}
	}
}

func (l *load) claims(b *testing.B, callers int, host func(n int) int) {
	l.callers(b, callers, func(ask func(shard.Op) (shard.Outcome, error), n int) error {
		o, err := ask(shardtest.BigClaim(n, host(n)))
		if err == nil && o.Refusal != nil {
			err = fmt.Errorf("refused: %s", o.Refusal.Message)
		}
		return err
	})
}

// pack claims on the first host that had room, and goes to the next when it is full.
// A refusal of a claim that would have fitted fails it.
func (l *load) pack(b *testing.B, callers int) {
	var current, refusals atomic.Int64
	var taken [loadHosts]atomic.Int64
	l.callers(b, callers, func(ask func(shard.Op) (shard.Outcome, error), n int) error {
		for {
			h := current.Load()
			o, err := ask(shardtest.BigClaim(n, int(h%loadHosts)))
			switch {
			case err != nil:
				return err
			case o.Refusal == nil:
				taken[h%loadHosts].Add(1)
				return nil
			case o.Refusal.Kind != fault.NoValidHost:
				return fmt.Errorf("refused: %s", o.Refusal.Message)
			}
			refusals.Add(1)
			current.CompareAndSwap(h, h+1)
			if h > loadHosts {
				return fmt.Errorf("every host is full")
			}
		}
	})
	for h := range current.Load() {
		if n := taken[h].Load(); n != packed {
			b.Errorf("host %d was left with %d claims of %d", h, n, packed)
		}
	}
	b.ReportMetric(float64(refusals.Load()), "refusals")
}
