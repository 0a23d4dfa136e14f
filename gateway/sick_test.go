package gateway

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
)

// hang blocks every call of one method until its caller gives up.
func hang(method string) func(context.Context, string, any) error {
	return func(ctx context.Context, m string, _ any) error {
		if m == method {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
}

func delay(method string, d time.Duration) func(context.Context, string, any) error {
	return func(ctx context.Context, m string, _ any) error {
		if m == method {
			return cellclient.Pause(ctx, d)
		}
		return nil
	}
}

// A cell that hangs costs its budget once, and nothing else. The answer names the cell.
func TestI7_HangingCellCostsItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)), newCell(2, testHost(3, 9))}, nil)
		w.cells[1].hook(hang("ProposeBatch"), nil)
		began := time.Now()
		resp := w.choose(ask(1, 4)) // several rounds
		if took := time.Since(began); took != w.g.cfg.ProposeBudget {
			t.Errorf("took %v, not %v", took, w.g.cfg.ProposeBudget)
		}
		if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 UNAVAILABLE" || !resp.GetPartial() || w.liveClaims() != 4 {
			t.Errorf("cells: %s, partial %v, %d claims", got, resp.GetPartial(), w.liveClaims())
		}
		if r := resp.GetCells()[1].GetReason(); r != "cell cell2 did not answer within 250ms" {
			t.Errorf("reason %q", r)
		}
	})
}

// A request with little time left gives a cell half of that time.
func TestI7_BudgetIsAtMostHalfOfTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
		w.cells[1].hook(hang("ProposeBatch"), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		resp, err := w.scheduler.SelectDestinations(ctx, ask(1, 1))
		if err != nil || !resp.GetPartial() {
			t.Fatalf("%v, %v", resp, err)
		}
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// Many requests against a cell that hangs: each waits its own budget, none for
// another's.
func TestI7_HangingCellDoesNotQueueRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 9)), newCell(2, testHost(2, 1))}, nil)
		w.cells[1].hook(hang("ProposeBatch"), nil)
		type result struct {
			took time.Duration
			err  error
		}
		results := make(chan result, 20)
		for i := range cap(results) {
			go func() {
				began := time.Now()
				_, err := w.scheduler.SelectDestinations(context.Background(), ask(10*i, 1))
				results <- result{time.Since(began), err}
			}()
		}
		for range cap(results) {
			// A lost race adds a little jitter, never another budget.
			if r := <-results; r.err != nil || r.took >= 2*w.g.cfg.ProposeBudget {
				t.Errorf("took %v: %v", r.took, r.err)
			}
		}
	})
}

// A slow cell within its budget is waited for.
func TestSlowCellWithinItsBudgetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
		w.cells[1].hook(delay("ProposeBatch", 200*time.Millisecond), nil)
		resp := w.choose(ask(1, 1))
		if s := resp.GetDestinations()[0].GetSelected(); s.GetCell() != "cell2" || resp.GetPartial() {
			t.Errorf("selected %v, partial %v", s, resp.GetPartial())
		}
	})
}

// Unavailable and full are never the same error.
func TestUnavailableIsNotFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
		w.cells[1].hook(hang("ProposeBatch"), nil)
		full := ask(1, 1)
		full.GetRequestSpec().IgnoreHosts = []string{"host001"}
		e := w.refused(full, fault.CellUnavailable)
		if !strings.Contains(e.Message, "cell2") {
			t.Errorf("%v does not name cell2", e)
		}
		// If all cells answer and none can hold the request, the error is NO_VALID_HOST.
		large := ask(1, 1)
		large.GetRequestSpec().Flavor.Vcpus = 17
		w.cells[1].hook(nil, nil)
		w.refused(large, fault.NoValidHost)
	})
}

// If a claim hangs, the instance is planned in another cell, and the claim is released once its cell is back.
func TestHangingClaimGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
		w.cells[1].hook(func(ctx context.Context, method string, req any) error {
			if method == "ClaimBatch" && len(claimsIn(req)) > 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, nil)
		began := time.Now()
		resp := w.choose(ask(1, 1))
		if s := resp.GetDestinations()[0].GetSelected(); s.GetCell() != "cell1" || !resp.GetPartial() {
			t.Errorf("selected %v, partial %v", s, resp.GetPartial())
		}
		if took := time.Since(began); took != w.g.cfg.ClaimBudget {
			t.Errorf("took %v, not %v", took, w.g.cfg.ClaimBudget)
		}
		if r := resp.GetCells()[1].GetReason(); r != "cell cell2 did not answer within 2s" {
			t.Errorf("reason %q", r)
		}
		synctest.Wait()
		if did := w.cells[1].did(); len(did) != 1 || !strings.HasPrefix(did[0], "release ") {
			t.Errorf("cell2 did %v", did)
		}
	})
}

// The deadline bounds the whole request. The error names the cell that the gateway waited for.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1))}, func(c *Config) {
			c.MaxDeadline, c.ProposeBudget = 3*time.Second, time.Minute
		})
		w.cells[0].hook(hang("ProposeBatch"), nil)
		began := time.Now()
		e := w.refused(ask(1, 1), fault.CellUnavailable)
		if took := time.Since(began); took > 3*time.Second || !strings.Contains(e.Message, "cell1") {
			t.Errorf("after %v: %v", took, e)
		}
	})
}

// Summaries are read every two seconds. A summary that is too old does not lead the gateway to skip a cell.
func TestOldSummaryLeavesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 2))}, nil)
		req := ask(1, 1)
		req.DryRun = true
		req.GetRequestSpec().Flavor.Vcpus = 20
		w.cells[0].hook(func(_ context.Context, method string, _ any) error {
			if method == "GetSummary" {
				return fault.New(fault.Overloaded, "not now")
			}
			return nil
		}, nil)
		if got := outcomes(w.choose(req).GetCells()); got != "cell1 SKIPPED, cell2 SEARCHED" {
			t.Errorf("fresh summary: %s", got)
		}
		time.Sleep(cellclient.SummaryMaxAge + cellclient.SummaryEvery) // virtual
		if got := outcomes(w.choose(req).GetCells()); got != "cell1 SEARCHED, cell2 SEARCHED" {
			t.Errorf("old summary: %s", got)
		}
		w.cells[0].hook(nil, nil)
		time.Sleep(2 * cellclient.SummaryEvery)
		if got := outcomes(w.choose(req).GetCells()); got != "cell1 SKIPPED, cell2 SEARCHED" {
			t.Errorf("fresh again: %s", got)
		}
	})
}

func TestOverloaded(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, func(c *Config) {
		c.MaxInFlight, c.ProposeBudget = 1, time.Minute
	})
	entered, gate := make(chan struct{}), make(chan struct{})
	w.cells[0].hook(func(_ context.Context, method string, _ any) error {
		if method == "ProposeBatch" {
			entered <- struct{}{}
			<-gate
		}
		return nil
	}, nil)
	first := make(chan error, 1)
	go func() {
		_, err := w.scheduler.SelectDestinations(context.Background(), ask(1, 1))
		first <- err
	}()
	<-entered
	if e := w.refused(ask(2, 1), fault.Overloaded); e.RetryAfter != time.Second {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	w.counts(1, "cellgate_gateway_shed_total", "selections")
	w.counts(1, "cellgate_gateway_in_flight", "selections")
	w.cells[0].hook(nil, nil)
	close(gate)
	if err := <-first; err != nil {
		t.Error(err)
	}
	w.choose(ask(2, 1))
}

// A cell that is not the configured one is not used.
func TestStrangerIsUnavailable(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, func(c *Config) {
		c.Cells[1].UUID = testUUID(0xc, 7)
	})
	resp := w.choose(ask(1, 1))
	if r := resp.GetCells()[1]; r.GetOutcome().String() != "UNAVAILABLE" || !strings.Contains(r.GetReason(), testUUID(0xc, 2)) {
		t.Errorf("report %v", r)
	}
}

// A cell with two replicas goes on with the second when the first is gone.
func TestSecondReplicaTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		w.servers[0].Stop()
		time.Sleep(2 * cellclient.SummaryEvery)
		if s := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected(); s.GetServiceHost() != "host001" || len(w.cells[1].did()) != 1 {
			t.Errorf("selected %v", s)
		}
	})
}

// When every cell pauses for longer than its budget, the request waits for them: there is no
// answer without them.
func TestI7_AllCellsPause_TheRequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
		began := time.Now()
		for _, c := range w.cells {
			c.hook(func(ctx context.Context, m string, _ any) error {
				if m == "ProposeBatch" && time.Since(began) < time.Second {
					return cellclient.Pause(ctx, time.Second-time.Since(began))
				}
				return nil
			}, nil)
		}
		resp := w.choose(ask(1, 1))
		if took := time.Since(began); resp.GetPartial() || took != time.Second {
			t.Errorf("partial %v, after %v", resp.GetPartial(), took)
		}
	})
}

// Cells that answered the first round, and not the next one, cost their budget once each.
func TestI7_CellsHangInTheSecondRound_CostTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 2)), newCell(2, testHost(3, 9))}, nil)
		var hung atomic.Int32
		for _, c := range w.cells {
			var asked atomic.Int32
			c.hook(func(ctx context.Context, m string, _ any) error {
				if m == "ProposeBatch" && asked.Add(1) > 1 {
					hung.Add(1)
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}, nil)
		}
		began := time.Now()
		_, err := w.scheduler.SelectDestinations(t.Context(), apart(ask(1, 4)))
		if took := time.Since(began); hung.Load() == 0 || took > 2*w.g.cfg.ProposeBudget {
			t.Errorf("%d calls hung, and it took %v: %v", hung.Load(), took, err)
		}
	})
}
