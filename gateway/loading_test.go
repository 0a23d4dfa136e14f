package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// load makes a replica's summary say that it loads its table, or that it has it. A replica on a SQL store
// answers queries while it loads.
func (c *testCell) load(on bool) {
	c.answers(func(_ string, _, resp any) {
		if s, ok := resp.(*cellv1.GetSummaryResponse); ok && on {
			s.Loading, s.Largest, s.HasUnzonedHosts = true, nil, false
		}
	})
}

// A cell whose replica loads its table is asked with a claim's budget, and never skipped, because its
// summary says nothing about its hosts.
func TestACellThatLoadsIsAskedWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loading, other := newCell(1, testHost(1, 9)), newCell(2, testHost(2, 1))
		loading.load(true)
		w := start(t, []*testCell{loading, other}, func(c *Config) { c.Cells[0].UUID = "" })
		loading.hook(delay("ProposeBatch", time.Second), nil)
		resp := w.choose(ask(1, 1))
		if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 SEARCHED" || resp.GetPartial() || !resp.GetExact() {
			t.Errorf("cells: %s, partial %v, exact %v", got, resp.GetPartial(), resp.GetExact())
		}
		cells, err := w.cellsAPI.ListCells(t.Context(), &cellgatev1.ListCellsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		c := cells.GetCells()[0]
		if !c.GetAvailable() || !strings.Contains(c.GetReason(), "loads") || c.GetCellUuid() != loading.uuid || !c.GetReplicaStates()[0].GetLoading() {
			t.Errorf("the cell is shown as %v", c)
		}
		if cells.GetCells()[1].GetReason() != "" || cells.GetCells()[1].GetReplicaStates()[0].GetLoading() {
			t.Errorf("the other one as %v", cells.GetCells()[1])
		}
		if report, ok := w.g.Health().Ready(); !ok || strings.Contains(report.Checks[len(report.Checks)-1].Why, "without") {
			t.Errorf("health: %+v", report)
		}
		// Within a probe the gateway knows that the replica has its table, and gives it the usual budget.
		loading.load(false)
		time.Sleep(w.g.cfg.Breaker.ProbeEvery + time.Millisecond)
		loading.hook(hang("ProposeBatch"), nil)
		if resp, took, err := w.dry(t.Context()); err != nil || took != w.g.cfg.ProposeBudget || !resp.GetPartial() {
			t.Errorf("loaded: took %v, %v %v", took, resp, err)
		}
	})
}

// The gateway routes a cell by its last complete summary while that is fresh. The summary of a replica
// that loads does not replace it.
func TestALoadingReplicaIsNotRoutedBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		w.cells[0].load(true)
		time.Sleep(2 * cellclient.SummaryEvery)
		large := ask(1, 1)
		large.GetRequestSpec().Flavor.Vcpus = 1000
		e := w.refused(large, fault.NoValidHost)
		if !strings.Contains(e.Message, "no host is large enough") && !strings.Contains(e.Message, "has too little") {
			t.Errorf("%v", e)
		}
		if s := w.g.cells.RoutingSummary(w.g.cells.All[0]); s == nil || s.GetLoading() || len(s.GetLargest()) == 0 {
			t.Errorf("the cell is routed by %v", s)
		}
	})
}

// A replica that has its table is asked before one that loads, for every call. A replica that
// loads is asked before one in doubt.
func TestALoadingReplicaIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		w.cells[0].load(true)
		time.Sleep(2 * cellclient.SummaryEvery)
		asked := 0
		count := func(_ context.Context, method string, _ any) error {
			if method == "ProposeBatch" || method == "ClaimBatch" {
				asked++
			}
			return nil
		}
		w.cells[0].hook(count, nil)
		for n := range 20 {
			w.choose(ask(1+n, 1))
		}
		if asked > 0 {
			t.Errorf("the replica that loads was asked %d times", asked)
		}
		w.cells[1].hook(func(context.Context, string, any) error { return fault.New(fault.CellUnavailable, "gone") }, nil)
		for range 3 {
			if resp, _, err := w.dry(t.Context()); err != nil || resp.GetPartial() {
				t.Errorf("%v, %v", resp, err)
			}
		}
		if asked == 0 {
			t.Error("the replica that loads was not asked")
		}
	})
}

// An answer from only some of a cell's hosts is not exact.
func TestACutAnswerIsNotExact(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
	w.cells[0].answers(func(_ string, _, resp any) {
		if batch, ok := resp.(*cellv1.ProposeBatchResponse); ok {
			for _, p := range batch.GetProposals() {
				p.Truncated = true
			}
		}
	})
	if resp := w.choose(ask(1, 1)); resp.GetExact() {
		t.Errorf("exact: %v", resp)
	}
	w.counts(1, "cellgate_gateway_inexact_total", "cut")
	w.cells[0].answers(nil)
	if resp := w.choose(ask(2, 1)); !resp.GetExact() {
		t.Errorf("not exact: %v", resp)
	}
}
