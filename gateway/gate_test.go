package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// oneUpgrading is a world of one cell under upgrade: the shard has host 1, the rows
// have hosts 1 and 2, of which 2 is the larger.
func oneUpgrading(t *testing.T, state cellgatev1.Gate_State) (*world, *fakeCell, *upgrading) {
	t.Helper()
	f, u := newFakeCell(1, testHost(1, 1), testHost(2, 1)), newUpgrading(1, testHost(1, 1), testHost(2, 2))
	f.moveGate(state)
	return startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil), f, u
}

func TestGateSaysWhoAnswers(t *testing.T) {
	for state, source := range map[cellgatev1.Gate_State]cellgatev1.CellSource{
		cellgatev1.Gate_LEGACY: cellgatev1.CellSource_LEGACY, cellgatev1.Gate_SHADOW: cellgatev1.CellSource_LEGACY,
		cellgatev1.Gate_NATIVE: cellgatev1.CellSource_NATIVE,
	} {
		t.Run(state.String(), func(t *testing.T) {
			w, f, u := oneUpgrading(t, state)
			resp := w.choose(ask(1, 1))
			r := resp.GetCells()[0]
			if r.GetSource() != source || r.GetOutcome() != cellgatev1.CellOutcome_SEARCHED {
				t.Errorf("the report is %v", r)
			}
			live := f.live()
			if len(live) != 1 || live[0].GetHostUuid() != resp.GetDestinations()[0].GetSelected().GetComputeNodeUuid() {
				t.Errorf("the shard has %v", live)
			}
			if source == cellgatev1.CellSource_NATIVE {
				if u.standIn.asked() != 0 || r.GetReason() != "" {
					t.Errorf("the stand-in was asked %d times, the reason is %q", u.standIn.asked(), r.GetReason())
				}
				return
			}
			if got := resp.GetDestinations()[0].GetSelected().GetServiceHost(); got != "host002" {
				t.Errorf("it is on %s, which is not what the rows say", got)
			}
			if !strings.Contains(r.GetReason(), state.String()) || !strings.Contains(r.GetReason(), "the test said so") {
				t.Errorf("the reason is %q", r.GetReason())
			}
			if u.standIn.chosen[live[0].GetClaimId()] == nil {
				t.Errorf("the stand-in was not told of the claim: %v", u.standIn.chosen)
			}
			if _, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: live[0].GetConsumerUuid(), ClaimId: live[0].GetClaimId()}); err != nil {
				t.Fatal(err)
			}
			if len(u.standIn.chosen) != 0 {
				t.Errorf("the stand-in was not told of the end: %v", u.standIn.chosen)
			}
		})
	}
}

// A cell that never had a gate, and is told of no services, is NATIVE.
func TestGateThatThereNeverWasIsNative(t *testing.T) {
	f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1)
	w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
	if r := w.choose(ask(1, 1)).GetCells()[0]; r.GetSource() != cellgatev1.CellSource_NATIVE {
		t.Errorf("the report is %v", r)
	}
}

// The table of a cell without a gate may be empty: it does not answer before the cell
// was told of services.
func TestCellWithoutAGateAndWithoutRowsIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 1))
		u.reader.hook(func(context.Context) error { return unreachable() })
		w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		if e := w.refused(ask(1, 1), fault.CellUnavailable); !strings.Contains(e.Message, "it has no gate yet") {
			t.Errorf("it says %q", e.Message)
		}
		u.reader.hook(nil)
		time.Sleep(10 * time.Second)
		if r := w.choose(ask(1, 1)).GetCells()[0]; r.GetSource() != cellgatev1.CellSource_NATIVE {
			t.Errorf("the report is %v", r)
		}
	})
}

func TestRepeatIsAnsweredTheSameWhileLegacy(t *testing.T) {
	w, f, _ := oneUpgrading(t, cellgatev1.Gate_LEGACY)
	req := ask(1, 2)
	req.RequestId = "again"
	first, second := w.choose(req), w.choose(req)
	for i, d := range first.GetDestinations() {
		if got, want := second.GetDestinations()[i].GetSelected().GetClaimId(), d.GetSelected().GetClaimId(); got != want || got == "" {
			t.Errorf("instance %d has claim %s, then %s", i, want, got)
		}
	}
	if len(f.live()) != 2 {
		t.Errorf("%d claims", len(f.live()))
	}
	// A cell that does not tell the claims does not answer either: nothing is claimed twice.
	f.hook(func(_ context.Context, method string, _ any) error {
		if method == "ListClaims" {
			return fault.New(fault.Overloaded, "too much")
		}
		return nil
	}, nil)
	w.refused(req, fault.Overloaded)
}

func TestGateThatMovesIsFollowed(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to cellgatev1.Gate_State
	}{
		{"to native", cellgatev1.Gate_SHADOW, cellgatev1.Gate_NATIVE},
		{"back to legacy", cellgatev1.Gate_NATIVE, cellgatev1.Gate_LEGACY},
		{"to shadow", cellgatev1.Gate_LEGACY, cellgatev1.Gate_SHADOW},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, f, _ := oneUpgrading(t, c.from)
			// It moves when the request is on its way to claim; then once more.
			moves := []cellgatev1.Gate_State{c.to, c.from, c.to}
			var once sync.Mutex
			f.hook(func(_ context.Context, method string, _ any) error {
				once.Lock()
				defer once.Unlock()
				if method == "ClaimBatch" && len(moves) > 0 {
					f.moveGate(moves[0])
					moves = moves[1:]
				}
				return nil
			}, nil)
			resp := w.choose(ask(1, 2))
			want := cellgatev1.CellSource_LEGACY
			if c.to == cellgatev1.Gate_NATIVE {
				want = cellgatev1.CellSource_NATIVE
			}
			if r := resp.GetCells()[0]; r.GetSource() != want || resp.GetPartial() {
				t.Errorf("the report is %v", r)
			}
			if len(f.live()) != 2 {
				t.Errorf("%d claims", len(f.live()))
			}
		})
	}
}

// A gate that moves before the proposal is asked for: the cell says that it is not
// native, and the rows answer.
func TestGateThatClosedIsFollowedBeforeTheProposal(t *testing.T) {
	w, f, u := oneUpgrading(t, cellgatev1.Gate_NATIVE)
	var once sync.Once
	f.hook(func(_ context.Context, method string, _ any) error {
		if method == "ProposeBatch" {
			once.Do(func() { f.moveGate(cellgatev1.Gate_LEGACY) })
		}
		return nil
	}, nil)
	resp := w.choose(ask(1, 1))
	if r := resp.GetCells()[0]; r.GetSource() != cellgatev1.CellSource_LEGACY || u.standIn.asked() == 0 {
		t.Errorf("the report is %v", r)
	}
}

func TestGateThatMovesForeverLosesTheCell(t *testing.T) {
	w, f, _ := oneUpgrading(t, cellgatev1.Gate_LEGACY)
	f.hook(func(_ context.Context, method string, _ any) error {
		if method == "ClaimBatch" {
			f.moveGate(cellgatev1.Gate_LEGACY)
		}
		return nil
	}, nil)
	if e := w.refused(ask(1, 1), fault.CellUnavailable); !strings.Contains(e.Message, "moved 9 times") {
		t.Errorf("it says %q", e.Message)
	}
	if len(f.live()) != 0 {
		t.Errorf("%d claims", len(f.live()))
	}
}

func TestHostThatTheShardDoesNotHaveIsImported(t *testing.T) {
	f, u := newFakeCell(1), newUpgrading(1, testHost(1, 1), testHost(2, 2))
	f.moveGate(cellgatev1.Gate_LEGACY)
	w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
	if got := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host002" {
		t.Errorf("it is on %s", got)
	}
	if got := fmt.Sprint(f.gate.imported); got != "[host002]" {
		t.Errorf("imported %v", got)
	}
}

// So is an alternate, when it is to be claimed; one that the rows do not have any more is
// not found.
func TestAlternateThatTheShardDoesNotHaveIsImported(t *testing.T) {
	f, u := newFakeCell(1, testHost(1, 3)), newUpgrading(1, testHost(1, 3), testHost(2, 2), testHost(3, 1))
	f.moveGate(cellgatev1.Gate_LEGACY)
	w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
	_, first := withAlternates(w)
	id := first.GetSelected().GetClaimId()
	next, last := first.GetAlternates()[0].GetComputeNodeUuid(), first.GetAlternates()[1].GetComputeNodeUuid()
	if c, err := w.alternate(id, next); err != nil || c.GetHostUuid() != next {
		t.Errorf("it is on %v, %v", c, err)
	}
	if got := fmt.Sprint(f.gate.imported); got != "[host002]" {
		t.Errorf("imported %v", got)
	}
	u.standIn.table.edit(func(e *schedule.Edit) { e.RemoveHost(mustID(last)) })
	if c, err := w.alternate(id, last); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a host without a row: %v, %v", c, err)
	}
	if c := f.live(); len(c) != 1 || c[0].GetHostUuid() != next {
		t.Errorf("claims are %v", c)
	}
}

// One table is the cells': native, legacy, shadow and one that has no gate.
func TestI5_MixedSourcesMergeAsASingleScheduler(t *testing.T) {
	var cells, tables []*fakeCell
	sides := map[int]*upgrading{}
	for i, state := range []cellgatev1.Gate_State{cellgatev1.Gate_NATIVE, cellgatev1.Gate_LEGACY, cellgatev1.Gate_SHADOW, cellgatev1.Gate_STATE_UNSPECIFIED} {
		f := newFakeCell(i+1, testHost(100+i, 9))
		f.hook(func(_ context.Context, method string, _ any) error {
			if method == "GetSummary" {
				return fault.New(fault.Overloaded, "no summary")
			}
			return nil
		}, nil)
		cells, tables = append(cells, f), append(tables, f)
		if state == cellgatev1.Gate_STATE_UNSPECIFIED {
			continue
		}
		f.moveGate(state)
		sides[i] = newUpgrading(i + 1)
		if state != cellgatev1.Gate_NATIVE {
			tables[i] = sides[i].standIn.table // what the shard has counts for nothing
		}
	}
	w := startGated(t, cells, sides, patient)
	mergesAsASingleScheduler(t, w, tables)
	for i := range 3 {
		if asked := sides[i].standIn.asked(); asked > 0 != (i > 0) {
			t.Errorf("the stand-in of cell %d was asked %d times", i+1, asked)
		}
	}
}

func TestUnavailableWhileNothingIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 1))
		f.moveGate(cellgatev1.Gate_LEGACY)
		f.hook(func(_ context.Context, method string, _ any) error {
			if method == "ReportLegacy" {
				return fault.New(fault.Overloaded, "too much to do")
			}
			return nil
		}, nil)
		w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		if e := w.refused(ask(1, 1), fault.CellUnavailable); !strings.Contains(e.Message, "has not said yet where its gate is: too much to do") {
			t.Errorf("it says %q", e.Message)
		}
		f.hook(nil, nil)
		time.Sleep(2 * time.Second)
		w.choose(ask(1, 1))
	})
}

// The database hangs, then is gone, then is back: the cell is answered from its rows
// until they are too old, is unavailable with the trouble then and never full, and the
// other cell answers all the time. The cell is told that the services are unreadable.
func TestDatabaseThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other, u := newFakeCell(1, testHost(1, 1)), newFakeCell(2, testHost(2, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*fakeCell{f, other}, map[int]*upgrading{0: u}, nil)
		source := func(n int) *cellgatev1.CellReport {
			t.Helper()
			req := ask(n, 1)
			req.DryRun = true
			return w.choose(req).GetCells()[0]
		}
		u.reader.hook(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(5 * time.Second)
		if r := source(1); r.GetOutcome() != cellgatev1.CellOutcome_SEARCHED || r.GetSource() != cellgatev1.CellSource_LEGACY {
			t.Errorf("after 5 s: %v", r)
		}
		time.Sleep(15 * time.Second)
		if r := source(2); r.GetOutcome() != cellgatev1.CellOutcome_UNAVAILABLE || !strings.Contains(r.GetReason(), "was last read") {
			t.Errorf("after 20 s: %v", r)
		}
		// What hangs does not keep the gate from being asked for.
		f.moveGate(cellgatev1.Gate_NATIVE)
		time.Sleep(2 * time.Second)
		if r := source(3); r.GetOutcome() != cellgatev1.CellOutcome_SEARCHED || r.GetSource() != cellgatev1.CellSource_NATIVE {
			t.Errorf("after the gate opened: %v", r)
		}
		f.moveGate(cellgatev1.Gate_LEGACY)
		time.Sleep(2 * time.Second)
		if r := source(4); r.GetOutcome() != cellgatev1.CellOutcome_UNAVAILABLE {
			t.Errorf("after the gate closed: %v", r)
		}
	})
}

func TestDatabaseThatFailsIsToldAndReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		synctest.Wait()
		if r := last(f.reported()); r == nil || r.GetUnreadable() != "" || len(r.GetServices()) != 1 || r.GetServices()[0].GetVersion() != 60 || r.GetRequiredVersion() != 68 {
			t.Fatalf("the first report is %v", r)
		}
		u.reader.hook(func(context.Context) error { return unreachable() })
		time.Sleep(3 * time.Second)
		if r := last(f.reported()); !strings.Contains(r.GetUnreadable(), "cannot be reached") || !strings.Contains(r.GetUnreadable(), "unreachable") {
			t.Errorf("the report is %v", r)
		}
		time.Sleep(15 * time.Second)
		e := w.refused(ask(1, 1), fault.CellUnavailable)
		if !strings.Contains(e.Message, "(unreachable)") {
			t.Errorf("it says %q", e.Message)
		}
		u.reader.mu.Lock()
		reads := u.reader.reads
		u.reader.mu.Unlock()
		time.Sleep(30 * time.Second)
		u.reader.mu.Lock()
		if n := u.reader.reads - reads; n < 5 || n > 10 {
			t.Errorf("%d reads in 30 s of a database that fails, want one in about 5 s", n)
		}
		u.reader.mu.Unlock()
		u.reader.hook(nil)
		time.Sleep(7 * time.Second)
		w.choose(ask(1, 1))
		if r := last(f.reported()); r.GetUnreadable() != "" || r.GetRevision() == 0 {
			t.Errorf("the report is %v", r)
		}
	})
}

func last(reports []*cellv1.ReportLegacyRequest) *cellv1.ReportLegacyRequest {
	if len(reports) == 0 {
		return nil
	}
	return reports[len(reports)-1]
}

// What a replica has is not sent again; what changes is told at once.
func TestReportsOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		if r := last(f.reported()); !r.GetUnchanged() || len(r.GetServices()) != 0 || r.GetRevision() != 1 {
			t.Errorf("the report is %v", r)
		}
		f.mu.Lock()
		f.gate.forgetful = true
		f.mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		sent := 0
		for _, r := range f.reported() {
			if len(r.GetServices()) > 0 {
				sent++
			}
		}
		if sent != 2 {
			t.Errorf("the services were sent %d times, want once and once more when asked for", sent)
		}
		u.reader.mu.Lock()
		u.reader.services = []legacy.Service{{ID: 1, Host: "host001", Version: 68, LastSeenUp: time.Now()}}
		u.reader.mu.Unlock()
		before := len(f.reported())
		time.Sleep(1100 * time.Millisecond)
		news := f.reported()[before:]
		told := 0
		for _, r := range news {
			if s := r.GetServices(); r.GetRevision() == 2 && len(s) == 1 && s[0].GetVersion() == 68 {
				told++
			}
		}
		if told != 1 || len(news) < 2 {
			t.Errorf("after the change: %v", news)
		}
	})
}

// The rows are read after the cell was asked what it awaits, and the stand-in is given
// both together.
func TestAwaitedClaimsAreAskedForBeforeTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		f.gate.awaited = []*cellv1.AwaitedClaim{{ClaimId: "c1", HostUuid: testUUID(0xa, 1)}}
		startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(10 * time.Second)
		u.standIn.mu.Lock()
		defer u.standIn.mu.Unlock()
		if len(u.standIn.updates) < 8 {
			t.Fatalf("%d updates in 10 s", len(u.standIn.updates))
		}
		for _, up := range u.standIn.updates {
			if len(up.awaited) != 1 || up.asked.IsZero() || up.asked.After(up.rows.At) {
				t.Errorf("rows of %v with claims asked for at %v: %v", up.rows.At, up.asked, up.awaited)
			}
		}
	})
}

// Where the cell awaits more claims than it names, none counts as shown for not being
// named.
func TestAwaitedClaimsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		f.gate.awaited, f.gate.cut = []*cellv1.AwaitedClaim{{ClaimId: "c1", HostUuid: testUUID(0xa, 1)}}, true
		var out bytes.Buffer
		startWith(t, []*fakeCell{f}, func(c *Config) { c.Cells[0].Legacy = &LegacyConfig{Refresh: time.Second} },
			Deps{Log: slog.New(slog.NewTextHandler(&out, nil)), Legacy: map[string]Legacy{"cell1": u.parts()}})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := strings.Count(out.String(), "awaits more claims"); n != 1 {
			t.Errorf("%d lines that the list is cut:\n%s", n, out.String())
		}
		f.mu.Lock()
		f.gate.cut = false
		f.mu.Unlock()
		u.standIn.mu.Lock()
		for _, up := range u.standIn.updates {
			if len(up.awaited) != 1 || !up.asked.IsZero() {
				t.Errorf("a list that is cut was given as of %v", up.asked)
			}
		}
		u.standIn.mu.Unlock()
		time.Sleep(5 * time.Second)
		u.standIn.mu.Lock()
		defer u.standIn.mu.Unlock()
		if n := len(u.standIn.updates); n < 4 || u.standIn.updates[n-1].asked.IsZero() {
			t.Errorf("%d updates, and the last without a time", n)
		}
	})
}

func TestImporterRunsWhenTheCellSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		u.imports.mu.Lock()
		if u.imports.offers != 0 || u.imports.dropped == 0 {
			t.Errorf("%d offers without leave", u.imports.offers)
		}
		u.imports.mu.Unlock()
		f.mu.Lock()
		f.gate.importFor = 5 * time.Second
		f.mu.Unlock()
		time.Sleep(5 * time.Second)
		u.imports.mu.Lock()
		if u.imports.offers < 3 || u.imports.onlyInstances > 0 {
			t.Errorf("%d offers, %d of instances alone", u.imports.offers, u.imports.onlyInstances)
		}
		u.imports.mu.Unlock()
		f.moveGate(cellgatev1.Gate_NATIVE)
		time.Sleep(5 * time.Second)
		u.imports.mu.Lock()
		defer u.imports.mu.Unlock()
		if u.imports.onlyInstances < 3 {
			t.Errorf("NATIVE: %d offers of instances alone", u.imports.onlyInstances)
		}
	})
}

// Where no service at all has a new heartbeat the database is a copy that is behind, or
// nobody writes to it: the gateway leaves the import to others, and says so.
func TestNothingIsImportedFromADatabaseWithoutNewHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		f.gate.importFor = 5 * time.Second
		u.reader.beat = time.Now()
		w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		asks := func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.gate.reports[len(f.gate.reports)-1].GetImporter()
		}
		reason := func() string {
			out, err := w.cellsAPI.ListCells(t.Context(), &cellgatev1.ListCellsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return out.GetCells()[0].GetReason()
		}
		for _, silent := range []bool{false, true, false} {
			u.imports.mu.Lock()
			u.imports.offers = 0
			u.imports.mu.Unlock()
			if time.Sleep(55 * time.Second); silent {
				time.Sleep(10 * time.Second)
				u.imports.mu.Lock()
				u.imports.offers = 0
				u.imports.mu.Unlock()
				time.Sleep(10 * time.Second)
			}
			u.imports.mu.Lock()
			if offers := u.imports.offers; (offers == 0) != silent {
				t.Errorf("silent %v: %d offers", silent, offers)
			}
			u.imports.mu.Unlock()
			if asks() == silent || strings.Contains(reason(), "nothing is imported from it") != silent {
				t.Errorf("silent %v: it asks to import: %v; %q", silent, asks(), reason())
			}
			if silent {
				u.reader.mu.Lock()
				u.reader.beat = time.Now()
				u.reader.mu.Unlock()
			}
		}
	})
}

// Each report says how new its rows are, also when nothing else is new.
func TestReportsSayHowNewTheRowsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		if r := last(f.reported()); r.GetReadTo() != nil {
			t.Errorf("rows without a time are of %v", r.GetReadTo().AsTime())
		}
		for range 3 {
			at := time.Now().Add(-time.Second)
			u.reader.mu.Lock()
			u.reader.beat = at
			u.reader.mu.Unlock()
			time.Sleep(5 * time.Second)
			if r := last(f.reported()); !r.GetUnchanged() || !r.GetReadTo().AsTime().Equal(at) {
				t.Errorf("rows of %v are reported as %v", at, r)
			}
		}
		beat := u.reader.beat
		u.reader.hook(func(context.Context) error { return unreachable() })
		time.Sleep(5 * time.Second)
		if r := last(f.reported()); r.GetUnreadable() == "" || !r.GetReadTo().AsTime().Equal(beat) {
			t.Errorf("rows that cannot be read are reported as %v", r)
		}
	})
}

func TestGateMovesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 4))
		f.moveGate(cellgatev1.Gate_LEGACY)
		var out bytes.Buffer
		startWith(t, []*fakeCell{f}, func(c *Config) { c.Cells[0].Legacy = &LegacyConfig{Refresh: time.Second} },
			Deps{Log: slog.New(slog.NewTextHandler(&out, nil)), Legacy: map[string]Legacy{"cell1": u.parts()}})
		f.moveGate(cellgatev1.Gate_SHADOW)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for _, want := range []string{`msg="the gate of a cell" cell=cell1 from="not known" to=LEGACY epoch=1`, `from=LEGACY to=SHADOW epoch=2`, `reason="the test said so"`} {
			if n := strings.Count(out.String(), want); n < 1 {
				t.Errorf("no %s in\n%s", want, out.String())
			}
		}
		if n := strings.Count(out.String(), "the gate of a cell"); n != 2 {
			t.Errorf("%d lines for two moves:\n%s", n, out.String())
		}
	})
}

// A cell is told who reports, in words that people know, and by the gateway that imports
// which instances have no claim.
func TestGateReportSaysWhoAndWhatHasNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1)), newUpgrading(1, testHost(1, 1))
		f.moveGate(cellgatev1.Gate_LEGACY)
		u.imports.unclaimed = &cellv1.UnclaimedInstances{SettledAt: timestamppb.New(time.Unix(7, 0)), Count: 3, First: []*cellv1.UnclaimedInstance{{Uuid: testUUID(0xd, 1), Host: "host001"}}}
		startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, func(c *Config) { c.Name = "ctl1 (10.0.0.1:9100)" })
		time.Sleep(5 * time.Second)
		reports := f.reported()
		if len(reports) < 3 {
			t.Fatalf("%d reports", len(reports))
		}
		for _, r := range reports {
			if r.GetGatewayName() != "ctl1 (10.0.0.1:9100)" || r.GetGateway() == r.GetGatewayName() || !proto.Equal(r.GetUnclaimed(), u.imports.unclaimed) {
				t.Errorf("reported %v", r)
			}
		}
	})
}
