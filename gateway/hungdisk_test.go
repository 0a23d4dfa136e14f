package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// hungDisk answers from memory and commits nothing. If tells is set and the cell has not committed for the bound, it
// refuses probes and queries for that reason.
func hungDisk(bound time.Duration, returns bool) func(context.Context, string, any) error {
	var since atomic.Int64
	return func(ctx context.Context, method string, _ any) error {
		switch method {
		case "ClaimBatch":
			since.CompareAndSwap(0, time.Now().UnixNano())
			<-ctx.Done()
			return ctx.Err()
		case "GetSummary", "ProposeBatch":
			if at := since.Load(); returns && at != 0 && time.Since(time.Unix(0, at)) >= bound {
				return fault.New(fault.CellUnavailable, "the cell's shard has not committed for a while")
			}
		}
		return nil
	}
}

// openLoop sends requests at a pace, whether answers come or not, and returns when each was sent and how long it took.
// Each request would choose the second cell. It demands that all end in cell1.
func openLoop(t *testing.T, w *world, every time.Duration, n int) (sent, took []time.Duration) {
	sent, took = make([]time.Duration, n), make([]time.Duration, n)
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			sent[i] = time.Since(began)
			at := time.Now()
			resp, err := w.scheduler.SelectDestinations(t.Context(), ask(i, 1))
			took[i] = time.Since(at)
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			} else if cell := resp.GetDestinations()[0].GetSelected().GetCell(); cell != "cell1" {
				t.Errorf("request %d: in %s", i, cell)
			}
		})
		time.Sleep(every) // virtual
	}
	all.Wait()
	return sent, took
}

// A cell whose disk hangs still answers proposals between the claims. A streak of failed claims opens its breaker all
// the same, and then nobody waits for the cell.
func TestI7_ACellThatDoesNotCommitCostsOneStreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1000)), newCell(2, testHost(2, 2000))}, nil)
		w.cells[1].hook(hungDisk(w.g.cfg.ClaimBudget, true), nil)
		const every = 50 * time.Millisecond
		sent, took := openLoop(t, w, every, 240)
		// The first claims wait their budget, and the next of the streak end with them.
		first := w.g.cfg.ClaimBudget + time.Duration(w.g.cfg.Breaker.Failures)*every
		waited := 0
		for i := range sent {
			if took[i] > 0 && sent[i] <= first {
				waited++
			}
			if took[i] > 0 && sent[i] > first {
				t.Fatalf("the request at %v waited %v", sent[i], took[i])
			}
		}
		if waited == 0 {
			t.Error("no request met the cell")
		}
		if s := w.state(1); s == cellgatev1.BreakerState_CLOSED {
			t.Error("the breaker is closed")
		}
		w.cells[1].hook(nil, nil)
		time.Sleep(w.g.cfg.Breaker.OpenFor + w.g.cfg.Breaker.ProbeBudget) // virtual
		if s := w.choose(ask(10_000, 1)).GetDestinations()[0].GetSelected(); s.GetCell() != "cell2" {
			t.Errorf("when it commits again: %v", s)
		}
	})
}

// hungClaims takes claims and never answers, and turns away the releases that follow.
func hungClaims(ctx context.Context, _ string, req any) error {
	batch, ok := req.(*cellv1.ClaimBatchRequest)
	switch {
	case !ok:
		return nil
	case batch.GetOps()[0].GetClaim() == nil:
		return fault.New(fault.Overloaded, "full")
	}
	<-ctx.Done()
	return ctx.Err()
}

// Claims that hang open the breaker by themselves. The test needs a real clock: there a claim's own budget and that of
// its step do not end at the same instant.
func TestI7_ClaimsThatHangAreCounted(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1000))}, func(c *Config) { c.ClaimBudget = 200 * time.Millisecond })
	w.cells[0].hook(hungClaims, nil)
	for i := range 100 { // the machine may be too busy for some to be counted
		_, err := w.scheduler.SelectDestinations(t.Context(), ask(i, 1))
		if err == nil {
			t.Fatal("a claim that hung was answered")
		}
		if w.state(0) != cellgatev1.BreakerState_CLOSED {
			return
		}
	}
	t.Error("the breaker is closed")
}

// If a cell does not tell that its disk hangs, each probe closes its breaker, and the next
// claim that fails opens it again.
func TestI7_ACellThatHidesItsDiskIsOutOfUseHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1000)), newCell(2, testHost(2, 2000))}, nil)
		w.cells[1].hook(hungDisk(0, false), nil)
		opened := 0
		last := w.state(1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			openLoop(t, w, 50*time.Millisecond, 400)
		}()
		for range 200 {
			time.Sleep(100 * time.Millisecond) // virtual
			now := w.state(1)
			if last == cellgatev1.BreakerState_CLOSED && now != cellgatev1.BreakerState_CLOSED {
				opened++
			}
			last = now
		}
		<-done
		// The breaker is closed for a claim's budget, then open for OpenFor: 3 s a turn, and the test takes 20 s.
		if opened < 5 {
			t.Errorf("opened %d times", opened)
		}
	})
}
