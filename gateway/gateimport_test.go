package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// twoCellsOneLegacy is a world of a LEGACY cell whose shard is empty, of host001 and host002, and a
// native one of host003, which is smaller.
func twoCellsOneLegacy(t *testing.T) (*world, *upgrading) {
	t.Helper()
	f, u := newFakeCell(1), newUpgrading(1, testHost(1, 2), testHost(2, 3))
	f.moveGate(cellgatev1.Gate_LEGACY)
	return startGated(t, []*fakeCell{f, newFakeCell(2, testHost(3, 1))}, map[int]*upgrading{0: u}, nil), u
}

func deniedInstances() error {
	return fault.New(fault.CellUnavailable, "the cell database of cell1 does not let the user in, or not read a table").With("reason", string(legacy.Denied))
}

// shown gives what is shown of the first cell.
func (w *world) shown() *cellgatev1.Cell {
	w.t.Helper()
	resp, err := w.cellsAPI.ListCells(w.t.Context(), &cellgatev1.ListCellsRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.GetCells()[0]
}

// A legacy database that gives its hosts and not its instances: the cell is unavailable to
// a request that would need them, never full, and other cells answer. No request asks again
// while that is known; it is shown, and is over when the instances can be read.
func TestLegacyDatabaseWithoutInstancesIsNotFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, u := twoCellsOneLegacy(t)
		u.imports.fail(deniedInstances())
		for i := range 2 {
			resp := w.choose(ask(1+i, 1))
			if got := resp.GetDestinations()[0].GetSelected().GetServiceHost(); got != "host003" {
				t.Errorf("it is on %s", got)
			}
			r := resp.GetCells()[0]
			if r.GetOutcome() != cellgatev1.CellOutcome_UNAVAILABLE || !strings.Contains(r.GetReason(), "not read a table (denied)") {
				t.Errorf("the report is %v", r)
			}
		}
		if n := u.imports.fail(deniedInstances()); n != 1 {
			t.Errorf("%d imports were tried for two requests", n)
		}
		req := ask(3, 1)
		req.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: "cell1"}
		e := w.refused(req, fault.CellUnavailable)
		if !strings.Contains(e.Message, "cannot be imported") || !strings.Contains(e.Message, "(denied)") {
			t.Errorf("it says %q", e.Message)
		}
		if c := w.shown(); !strings.Contains(c.GetReason(), "cannot be imported") || !strings.Contains(c.GetReason(), "since 2000-01-01T00:00:") {
			t.Errorf("it is shown as %v", c)
		}
		// It is tried again about once a second, whoever asks.
		time.Sleep(10 * time.Second)
		if n := u.imports.fail(nil); n < 8 || n > 13 {
			t.Errorf("%d imports were tried in 10 s", n)
		}
		time.Sleep(2 * time.Second)
		if c := w.shown(); !c.GetAvailable() || c.GetReason() != "" {
			t.Errorf("it is shown as %v", c)
		}
		if got := w.choose(ask(3, 1)).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host002" {
			t.Errorf("it is on %s once the instances can be read", got)
		}
	})
}

// While a legacy database gives no instances, the hosts that the shard has go on being
// chosen, also by requests that would rather have others. When none of them can take a
// request, the cell is unavailable to it, and never full.
func TestHostsOfTheShardAnswerWhileOthersCannotBeImported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 2)), newUpgrading(1, testHost(1, 2), testHost(2, 3))
		f.moveGate(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*fakeCell{f, newFakeCell(2, testHost(3, 1))}, map[int]*upgrading{0: u}, nil)
		u.imports.fail(deniedInstances())
		asked := 0
		// here is a request for n instances that may go to the first cell alone.
		here := func(n int) *cellgatev1.SelectDestinationsRequest {
			req := ask(1+asked, n)
			asked += n
			req.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: "cell1"}
			return req
		}
		on := func(req *cellgatev1.SelectDestinationsRequest, want string) []*cellgatev1.CellReport {
			t.Helper()
			resp := w.choose(req)
			if resp.GetPartial() != (want != "host002") {
				t.Errorf("on %s: partial is %t", want, resp.GetPartial())
			}
			for _, d := range resp.GetDestinations() {
				if got := d.GetSelected().GetServiceHost(); got != want {
					t.Errorf("it is on %s, want %s", got, want)
				}
			}
			return resp.GetCells()
		}
		for range 2 {
			req := here(1)
			req.GetRequestSpec().RequestedDestination = nil
			r := on(req, "host001")[0]
			if r.GetOutcome() != cellgatev1.CellOutcome_SEARCHED || !strings.Contains(r.GetReason(), "hosts left out: 1, hosts that the shard lacks cannot be imported") || !strings.Contains(r.GetReason(), "(denied)") {
				t.Errorf("the report is %v", r)
			}
		}
		if n := u.imports.fail(deniedInstances()); n != 1 {
			t.Errorf("%d imports were tried for two requests", n)
		}
		on(here(13), "host001") // of 16
		unavailable := func(n int) {
			t.Helper()
			if e := w.refused(here(n), fault.CellUnavailable); !strings.Contains(e.Message, "cannot be imported") {
				t.Errorf("%d instances: it says %q", n, e.Message)
			}
		}
		unavailable(2)
		on(here(1), "host001")
		unavailable(1)
		req := here(1)
		req.GetRequestSpec().RequestedDestination = nil
		if r := on(req, "host003")[0]; r.GetOutcome() != cellgatev1.CellOutcome_UNAVAILABLE {
			t.Errorf("the report is %v", r)
		}
		u.imports.fail(nil)
		time.Sleep(3 * time.Second)
		on(here(2), "host002")
	})
}

// A host that cannot be imported for what it is says nothing of the others of its cell.
func TestHostThatCannotBeImported(t *testing.T) {
	w, u := twoCellsOneLegacy(t)
	u.imports.fail(fault.New(fault.NotFound, "host host002 cannot be imported"))
	resp := w.choose(ask(1, 1))
	if r := resp.GetCells()[0]; r.GetOutcome() != cellgatev1.CellOutcome_SEARCHED {
		t.Errorf("the report is %v", r)
	}
	if c := w.shown(); c.GetReason() != "" {
		t.Errorf("it is shown as %v", c)
	}
	if n := u.imports.fail(nil); n != 2 {
		t.Errorf("%d imports of 2 hosts", n)
	}
}

// An alternate that cannot be imported for its database is not one that there is not.
func TestAlternateWhoseInstancesCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 3)), newUpgrading(1, testHost(1, 3), testHost(2, 2), testHost(3, 1))
		f.moveGate(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		_, first := withAlternates(w)
		id, next := first.GetSelected().GetClaimId(), first.GetAlternates()[0].GetComputeNodeUuid()
		u.imports.fail(deniedInstances())
		for range 2 {
			if c, err := w.alternate(id, next); fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), "(denied)") {
				t.Errorf("it is on %v, %v", c, err)
			}
		}
		if n := u.imports.fail(nil); n != 1 {
			t.Errorf("%d imports were tried for two calls", n)
		}
		time.Sleep(3 * time.Second)
		if c, err := w.alternate(id, next); err != nil || c.GetHostUuid() != next {
			t.Errorf("it is on %v, %v", c, err)
		}
	})
}

// A cell that Nova's cell_mappings disables gets nothing new, whatever its gate, not even
// when no other cell can hold a request; unless the request may go nowhere else, as in
// Nova. It is shown, and has new instances when it is enabled again.
func TestCellThatNovaDisables(t *testing.T) {
	for _, state := range []cellgatev1.Gate_State{cellgatev1.Gate_LEGACY, cellgatev1.Gate_SHADOW, cellgatev1.Gate_NATIVE} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, u := newFakeCell(1, testHost(1, 2), testHost(2, 3)), newUpgrading(1, testHost(1, 2), testHost(2, 3))
				f.moveGate(state)
				u.reader.disabled = true
				w := startGated(t, []*fakeCell{f, newFakeCell(2, testHost(3, 1))}, map[int]*upgrading{0: u}, nil)
				time.Sleep(3 * time.Second) // the rows of a NATIVE cell are not waited for
				resp := w.choose(ask(1, 1))
				if got := resp.GetDestinations()[0].GetSelected().GetServiceHost(); got != "host003" {
					t.Errorf("it is on %s", got)
				}
				r := resp.GetCells()[0]
				if r.GetOutcome() != cellgatev1.CellOutcome_SKIPPED || r.GetReason() != "disabled in Nova's cell_mappings" {
					t.Errorf("the report is %v", r)
				}
				w.refused(ask(2, 40), fault.NoValidHost)
				if c := w.shown(); c.GetEnabled() || !c.GetAvailable() || !strings.Contains(c.GetReason(), "disabled in Nova's cell_mappings") {
					t.Errorf("it is shown as %v", c)
				}
				here := ask(50, 1)
				here.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: f.name}
				if got := w.choose(here).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host002" {
					t.Errorf("what is to be in this cell is on %s", got)
				}
				u.reader.mu.Lock()
				u.reader.disabled = false
				u.reader.mu.Unlock()
				time.Sleep(3 * time.Second)
				if got := w.choose(ask(51, 1)).GetDestinations()[0].GetSelected().GetServiceHost(); got == "host003" {
					t.Errorf("it is on %s once the cell is enabled", got)
				}
				if c := w.shown(); !c.GetEnabled() || c.GetReason() != "" {
					t.Errorf("it is shown as %v", c)
				}
			})
		})
	}
}
