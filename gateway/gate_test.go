package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/gatewatch"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// oneUpgrading is a world of one cell under upgrade.
func oneUpgrading(t *testing.T, state cellgatev1.Gate_State) (*world, *testCell, *upgrading) {
	t.Helper()
	f, u := gated(1, testHost(1, 1), testHost(2, 1)), newUpgrading()
	f.gate.move(state)
	return startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil), f, u
}

// An answer says whether the source of a cell's hosts is Nova's tables, and why.
func TestGateSaysWhoAnswers(t *testing.T) {
	for state, source := range map[cellgatev1.Gate_State]cellgatev1.CellSource{
		cellgatev1.Gate_LEGACY: cellgatev1.CellSource_LEGACY, cellgatev1.Gate_SHADOW: cellgatev1.CellSource_LEGACY,
		cellgatev1.Gate_NATIVE: cellgatev1.CellSource_NATIVE,
	} {
		t.Run(state.String(), func(t *testing.T) {
			w, f, _ := oneUpgrading(t, state)
			r := w.choose(ask(1, 1)).GetCells()[0]
			if r.GetSource() != source || r.GetOutcome() != cellgatev1.CellOutcome_SEARCHED {
				t.Errorf("the report is %v", r)
			}
			if source == cellgatev1.CellSource_NATIVE {
				if r.GetReason() != "" {
					t.Errorf("the reason is %q", r.GetReason())
				}
				return
			}
			if !strings.Contains(r.GetReason(), state.String()) || !strings.Contains(r.GetReason(), "the test said so") {
				t.Errorf("the reason is %q", r.GetReason())
			}
			f.gate.set(func() { f.gate.closed = "no gateway has imported" })
			if e := w.refused(ask(2, 1), fault.CellUnavailable); !strings.Contains(e.Message, "no gateway has imported") {
				t.Errorf("it says %q", e.Message)
			}
		})
	}
}

// A gateway that has no legacy database for a cell names the source that the cell reports.
func TestGateIsTheCellsToSay(t *testing.T) {
	f := gated(1, testHost(1, 1))
	f.gate.move(cellgatev1.Gate_SHADOW)
	w := startWith(t, []*testCell{f}, nil, Deps{})
	if r := w.choose(ask(1, 1)).GetCells()[0]; r.GetSource() != cellgatev1.CellSource_LEGACY || !strings.Contains(r.GetReason(), "SHADOW") {
		t.Errorf("the report is %v", r)
	}
}

// A cell that never had a gate, and gets no services, is NATIVE.
func TestGateThatThereNeverWasIsNative(t *testing.T) {
	f, u := gated(1, testHost(1, 1)), newUpgrading()
	w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
	if r := w.choose(ask(1, 1)).GetCells()[0]; r.GetSource() != cellgatev1.CellSource_NATIVE {
		t.Errorf("the report is %v", r)
	}
}

func TestFailingDatabase_IsReportedAndReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
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
		if c := w.cell(t); !strings.Contains(c.GetReason(), "(unreachable)") {
			t.Errorf("the cell is shown with %q", c.GetReason())
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

// Services that a replica has are not sent again; a change is sent at once.
func TestReportsOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		if r := last(f.reported()); !r.GetUnchanged() || len(r.GetServices()) != 0 || r.GetRevision() != 1 {
			t.Errorf("the report is %v", r)
		}
		f.gate.set(func() { f.gate.forgetful = true })
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
		u.reader.services = []novadb.Service{{ID: 1, Host: "host001", Version: 68, LastSeenUp: time.Now()}}
		u.reader.mu.Unlock()
		before := len(f.reported())
		time.Sleep(1100 * time.Millisecond)
		news := f.reported()[before:]
		revisions := 0
		for _, r := range news {
			if s := r.GetServices(); r.GetRevision() == 2 && len(s) == 1 && s[0].GetVersion() == 68 {
				revisions++
			}
		}
		if revisions != 1 || len(news) < 2 {
			t.Errorf("after the change: %v", news)
		}
	})
}

func TestImporterRunsWhenTheCellSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		u.imports.mu.Lock()
		if u.imports.offers != 0 || u.imports.dropped == 0 {
			t.Errorf("%d offers without leave", u.imports.offers)
		}
		u.imports.mu.Unlock()
		f.gate.set(func() { f.gate.importFor = 5 * time.Second })
		time.Sleep(5 * time.Second)
		u.imports.mu.Lock()
		if u.imports.offers < 3 || u.imports.native > 0 {
			t.Errorf("%d offers, %d in NATIVE", u.imports.offers, u.imports.native)
		}
		u.imports.mu.Unlock()
		if r := last(f.reported()); r.GetImportedAge() == nil || r.GetImportedAge().AsDuration() > 3*time.Second {
			t.Errorf("what is imported is of %v", r.GetImportedAge())
		}
		f.gate.move(cellgatev1.Gate_NATIVE)
		time.Sleep(5 * time.Second)
		u.imports.mu.Lock()
		defer u.imports.mu.Unlock()
		if u.imports.native < 3 {
			t.Errorf("NATIVE: %d offers", u.imports.native)
		}
	})
}

// A gateway reports again before its leave to import ends, however rarely it reads the tables.
func TestImporter_TablesAreReadRarely_KeepsItsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		u.config.Refresh = 5 * time.Second
		f.gate.move(cellgatev1.Gate_LEGACY)
		f.gate.importFor = 5 * time.Second
		var last time.Time
		most := time.Duration(0)
		u.reader.beat = time.Now()
		f.gate.onReport = func() {
			if now := time.Now(); !last.IsZero() {
				most = max(most, now.Sub(last))
			}
			last = time.Now()
		}
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(50 * time.Second)
		f.gate.set(func() {
			if most == 0 || most >= 5*time.Second {
				t.Errorf("the longest time between two reports is %v", most)
			}
		})
	})
}

// If no service has a new heartbeat, the database is a copy that is behind, or nobody writes to it. The gateway leaves
// the import to others, and says so.
func TestNothingIsImportedFromADatabaseWithoutNewHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		f.gate.importFor = 5 * time.Second
		u.reader.beat = time.Now()
		w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		asks := func() bool {
			return last(got[*cellv1.ReportLegacyRequest](f)).GetImporter()
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

// Each report says how new its rows are, even if nothing else is new.
func TestReportsSayHowNewTheRowsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
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
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		var out bytes.Buffer
		startWith(t, []*testCell{f}, nil,
			Deps{Log: slog.New(slog.NewTextHandler(&out, nil)), Legacy: map[string]gatewatch.Parts{"cell1": u.parts()}})
		f.gate.move(cellgatev1.Gate_SHADOW)
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

// A report carries the name that the configuration gives the gateway. The gateway that imports also reports
// which instances have no claim.
func TestGateReportSaysWhoAndWhatHasNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		u.imports.unclaimed = &cellv1.UnclaimedInstances{SettledAt: timestamppb.New(time.Unix(7, 0)), Count: 3, First: []*cellv1.UnclaimedInstance{{Uuid: testUUID(0xd, 1), Host: "host001"}}}
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, func(c *Config) { c.Name = "ctl1 (10.0.0.1:9100)" })
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
