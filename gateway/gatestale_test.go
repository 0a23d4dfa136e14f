package gateway

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/legacy/gatewatch"
	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// setVersion writes a service's version into the rows, with a heartbeat.
func (r *readerStub) setVersion(v int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.services[0].Version, r.services[0].LastSeenUp = v, time.Now()
}

// reportsFrom returns a function for the reports since this call.
func (c *testCell) reportsFrom() func() []*cellv1.ReportLegacyRequest {
	from := len(got[*cellv1.ReportLegacyRequest](c))
	return func() []*cellv1.ReportLegacyRequest { return got[*cellv1.ReportLegacyRequest](c)[from:] }
}

// A gateway that was paused has old rows: it reports no services to the cell until it
// has read them again.
func TestAGatewayThatWasPausedReadsBeforeItReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_NATIVE)
		var paused atomic.Int64
		startWith(t, []*testCell{f}, nil,
			Deps{Legacy: map[string]gatewatch.Parts{"cell1": u.parts()}, Now: func() time.Time { return time.Now().Add(time.Duration(paused.Load())) }})
		time.Sleep(5 * time.Second)
		for _, p := range []time.Duration{14 * time.Second, 5 * time.Minute} {
			since := f.reportsFrom()
			u.reader.setVersion(u.reader.services[0].Version + 1)
			want := int32(u.reader.services[0].Version)
			paused.Add(int64(p))
			time.Sleep(5 * time.Second)
			reported := false
			for _, r := range since() {
				if s := r.GetServices(); len(s) > 0 && s[0].GetVersion() == want {
					reported = true
				} else if !reported && !r.GetLook() && p > 15*time.Second {
					t.Errorf("after a pause of %v it tells %v before it has read", p, r)
				}
			}
			if !reported {
				t.Errorf("after a pause of %v it does not tell the services: %v", p, since())
			}
		}
	})
}

// While a read takes long, the services that the gateway reported last become old. It then
// reports that it cannot read them.
func TestServicesThatWereReadLongAgoAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_NATIVE)
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		goOn := make(chan struct{})
		u.reader.hook(func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-goOn:
				return nil
			}
		})
		time.Sleep(12 * time.Second)
		reports := f.reported()
		if last := reports[len(reports)-1]; last.GetUnreadable() != "" || !last.GetUnchanged() {
			t.Errorf("after 12 s: %v", last)
		}
		time.Sleep(6 * time.Second)
		reports = f.reported()
		if last := reports[len(reports)-1]; !strings.Contains(last.GetUnreadable(), "they were last read 1") || len(last.GetServices()) > 0 || last.GetUnchanged() {
			t.Errorf("after 18 s: %v", last)
		}
		close(goOn)
		time.Sleep(3 * time.Second)
		reports = f.reported()
		if last := reports[len(reports)-1]; last.GetUnreadable() != "" || last.GetRevision() == 0 {
			t.Errorf("it is read again: %v", last)
		}
	})
}

// A gateway that cannot read the rows would keep the others from importing: it gives up its leave to import before the
// last import is too old to answer from.
func TestImport_GatewayThatCannotRead_DoesNotAskForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		f.gate.set(func() { f.gate.importFor = 5 * time.Second })
		reads := func() { u.reader.hook(nil) }
		fails := func() { u.reader.hook(func(context.Context) error { return unreachable() }) }
		fails()
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		for _, step := range []struct {
			does func()
			asks bool
		}{{fails, false}, {reads, true}, {fails, false}, {reads, true}} {
			step.does()
			time.Sleep(25 * time.Second)
			u.reader.setVersion(u.reader.services[0].Version)
			time.Sleep(5 * time.Second)
			if last := last(got[*cellv1.ReportLegacyRequest](f)); last.GetImporter() != step.asks {
				t.Errorf("it asks to import: %v, want %v", last, step.asks)
			}
		}
	})
}

// If nobody writes to a database, all hosts would soon be down, and the cell full. The gateway therefore reports
// no services and imports no rows.
func TestGateReport_IdleDatabase_HasNoServices(t *testing.T) {
	for _, state := range []cellgatev1.Gate_State{cellgatev1.Gate_LEGACY, cellgatev1.Gate_SHADOW, cellgatev1.Gate_NATIVE} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, u := gated(1, testHost(1, 4)), newUpgrading()
				f.gate.move(state)
				u.reader.stopAt(time.Now())
				w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
				f.gate.set(func() { f.gate.importFor = 5 * time.Second })
				time.Sleep(57 * time.Second)
				if last := last(f.reported()); last.GetImportedAge() == nil {
					t.Errorf("just before it reports %v", last)
				}
				time.Sleep(6 * time.Second)
				reports := f.reported()
				for _, r := range reports {
					for _, s := range r.GetServices() {
						if !s.GetUp() {
							t.Errorf("%s is reported to be down: %v", s.GetHost(), r)
						}
					}
				}
				if last := reports[len(reports)-1]; !strings.Contains(last.GetUnreadable(), "a copy that is behind, nobody writes to it") || last.GetImportedAge() != nil {
					t.Errorf("it reports %v", last)
				}
				out, err := w.cellsAPI.ListCells(t.Context(), &cellgatev1.ListCellsRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if c := out.GetCells()[0]; strings.Count(c.GetReason(), "the newest heartbeat") != 1 || !strings.Contains(c.GetReason(), "nothing is imported from it") {
					t.Errorf("the cell is shown as %v, %q", c.GetAvailable(), c.GetReason())
				}
				// Somebody writes again.
				u.reader.stopAt(time.Now())
				time.Sleep(3 * time.Second)
				reports = f.reported()
				if last := reports[len(reports)-1]; last.GetUnreadable() != "" {
					t.Errorf("with heartbeats it reports %v", last)
				}
				if reports[len(reports)-1].GetImportedAge() == nil {
					t.Error("with heartbeats it does not import")
				}
			})
		})
	}
}

// A service that is dead while others live is reported down.
func TestADeadServiceAmongOthersIsReportedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_NATIVE)
		u.reader.stopAt(time.Now())
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		for range 10 {
			time.Sleep(8 * time.Second)
			u.reader.mu.Lock()
			u.reader.beat, u.reader.services[1].LastSeenUp = time.Now(), time.Now()
			u.reader.mu.Unlock()
		}
		var last *cellv1.ReportLegacyRequest
		for _, r := range f.reported() {
			if len(r.GetServices()) > 0 {
				last = r
			}
		}
		if s := last.GetServices(); s[0].GetUp() || !s[1].GetUp() {
			t.Errorf("it reports %v", last)
		}
	})
}

// stopAt makes the rows two services with their last heartbeats 9 s before the given time, and at that time.
func (r *readerStub) stopAt(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat = at
	r.services = []novadb.Service{
		{ID: 1, Host: "host001", Version: 68, LastSeenUp: at.Add(-9 * time.Second)}, {ID: 2, Host: "host002", Version: 68, LastSeenUp: at},
	}
}
