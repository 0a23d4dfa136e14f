package cell

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// readBy is a report of a gateway whose rows are so old.
func readBy(gateway string, age time.Duration) *cellv1.ReportLegacyRequest {
	req := legacyOf(gateway, 66, 1)
	req.GatewayName, req.ReadTo = gateway+".example:9100", timestamppb.New(time.Now().Add(-age))
	return req
}

// rig is a replica to which two gateways report every other second.
type rig struct {
	*replica
	log *logged
	// fresh and late are how old their rows are; a negative one does not report.
	fresh, late time.Duration
}

func newRig(t *testing.T) *rig {
	t.Helper()
	log := &logged{}
	r := launchLogged(t, newStore(t), slog.New(slog.NewTextHandler(log, nil)))
	r.await(r.cell.Ready())
	return &rig{replica: r, log: log}
}

// goes on for a time, and gives the gate as it is then.
func (r *rig) goes(on time.Duration) *cellgatev1.Gate {
	r.t.Helper()
	for end := time.Now().Add(on); time.Now().Before(end); {
		for gateway, age := range map[string]time.Duration{"g1": r.fresh, "g2": r.late} {
			if age >= 0 {
				r.reportLegacy(readBy(gateway, age))
			}
		}
		time.Sleep(2 * time.Second)
	}
	look := readBy("doctor", 0)
	look.Look = true
	return r.reportLegacy(look).GetGate()
}

// told gives the audit lines of gateways that are behind.
func (r *rig) told() (lines []string) {
	for _, line := range r.log.audited() {
		if strings.Contains(line, "a gateway") && !strings.Contains(line, "the gate moved") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestAGatewayWhoseRowsAreBehindIsNamedUntilItHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		began := time.Now()
		r.late = 5 * time.Second // as between two heartbeats
		g := r.goes(5 * time.Minute)
		if len(g.GetReaders()) != 2 || g.GetReaders()[0].GetGateway() != "g2.example:9100" || g.GetReaders()[0].GetBehindSince() != nil || len(r.told()) != 0 {
			t.Fatalf("a little behind: %v, %q", g.GetReaders(), r.told())
		}
		if lag := g.GetReaders()[0].GetLag().AsDuration(); lag < 4*time.Second || lag > 8*time.Second {
			t.Errorf("5 s of lag are shown as %v", lag)
		}
		r.late = 90 * time.Second
		fell := time.Now()
		g = r.goes(5 * time.Minute)
		one := g.GetReaders()[0]
		if one.GetGateway() != "g2.example:9100" || one.GetLag().AsDuration() < 88*time.Second || one.GetLag().AsDuration() > 94*time.Second {
			t.Errorf("90 s behind: %v", one)
		}
		if since := one.GetBehindSince().AsTime().Sub(fell); since < 0 || since > 3*time.Second || one.GetBehindSince() == nil {
			t.Errorf("it counts as behind since %v after it fell", since)
		}
		if other := g.GetReaders()[1]; other.GetGateway() != "g1.example:9100" || other.GetBehindSince() != nil || other.GetLag().AsDuration() != 0 {
			t.Errorf("the other: %v", other)
		}
		if n, lag := r.gauge("cellgate_cell_gate_gateways_behind"), r.gauge("cellgate_cell_gate_reading_lag_seconds"); n != 1 || lag < 88 || lag > 94 {
			t.Errorf("metrics: %v behind, by %v s", n, lag)
		}
		if told := r.told(); len(told) != 1 || !strings.Contains(told[0], "is behind\" gateway=g2.example:9100 ") || !strings.Contains(told[0], " newest_by=g1.example:9100") || !strings.Contains(told[0], " by=1m") {
			t.Errorf("the audit has %q", told)
		}
		// It has caught up: that is said once it has lasted.
		r.late = 3 * time.Second
		if g = r.goes(90 * time.Second); readerNamed(g, "g2").GetBehindSince() == nil || len(r.told()) != 1 {
			t.Errorf("after a while without a lag: %v, %q", g.GetReaders(), r.told())
		}
		if g = r.goes(time.Minute); readerNamed(g, "g2").GetBehindSince() != nil || r.gauge("cellgate_cell_gate_gateways_behind") != 0 {
			t.Errorf("it has caught up: %v", g.GetReaders())
		}
		if told := r.told(); len(told) != 2 || !strings.Contains(told[1], `has caught up" gateway=g2.example:9100`) {
			t.Errorf("the audit has %q, in %v", told, time.Since(began))
		}
	})
}

// gauge gives the only value of a metric.
func (r *rig) gauge(name string) float64 {
	r.t.Helper()
	all, err := r.telemetry.Gatherer().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	r.t.Fatalf("there is no %s", name)
	return 0
}

func readerNamed(g *cellgatev1.Gate, gateway string) *cellgatev1.GateReader {
	for _, r := range g.GetReaders() {
		if r.GetGateway() == gateway+".example:9100" {
			return r
		}
	}
	return nil
}

// A copy that is behind now and then, or whose gateway comes and goes, is told of once.
func TestALagThatComesAndGoesIsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 30 {
			r.late = 5 * time.Second // less than it takes to count
			r.goes(20 * time.Second)
			r.late = 50 * time.Second
			r.goes(8 * time.Second)
		}
		if told := r.told(); len(told) != 0 {
			t.Errorf("of moments the audit has %q", told)
		}
		for n := range 30 {
			r.late = 50 * time.Second
			r.goes(20 * time.Second)
			switch n % 3 {
			case 1:
				r.late = 5 * time.Second
			case 2:
				r.late = -1
			}
			r.goes(time.Minute)
		}
		if told := r.told(); len(told) != 1 {
			t.Errorf("the audit has %d lines: %q", len(told), told)
		}
		// One that is gone for good is no longer behind.
		r.late = -1
		if g := r.goes(time.Minute); len(g.GetReaders()) != 1 || r.gauge("cellgate_cell_gate_gateways_behind") != 0 {
			t.Errorf("it is gone, and is shown: %v", g.GetReaders())
		}
		r.goes(keepReader)
		if told := r.told(); len(told) != 2 || !strings.Contains(told[1], "is not heard any more") {
			t.Errorf("the audit has %q", told)
		}
	})
}

// What a gateway has read counts for others when it is gone, until they have it too, or for a
// while: the newest rows may be lost.
func TestTheNewestReadingOutlivesItsGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.late = 4 * time.Minute
		r.goes(time.Minute)
		r.fresh = -1
		if g := r.goes(170 * time.Second); readerNamed(g, "g2").GetBehindSince() == nil || len(g.GetReaders()) != 1 {
			t.Errorf("alone it is %v", g.GetReaders())
		}
		if g := r.goes(6 * time.Minute); readerNamed(g, "g2").GetBehindSince() != nil || len(r.told()) != 2 {
			t.Errorf("when it has what the other had: %v, %q", g.GetReaders(), r.told())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.fresh = 0
		r.late = 1000 * time.Hour // as by a clock that was wrong
		r.goes(time.Minute)
		r.fresh = -1
		if g := r.goes(keepReader + 3*time.Minute); readerNamed(g, "g2").GetBehindSince() != nil || readerNamed(g, "g2").GetLag().AsDuration() != 0 {
			t.Errorf("long after it is %v", g.GetReaders())
		}
	})
}

// A gateway that cannot read is not behind, it says why; one from before says nothing; and
// who imports is marked.
func TestReadersThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		dark := &cellv1.ReportLegacyRequest{Gateway: "g2", GatewayName: "g2.example:9100", Unreadable: "no route", RequiredVersion: 66, ReadTo: timestamppb.Now()}
		before := legacyOf("g3", 66, 1)
		before.GatewayName = "g3.example:9100"
		for range 60 {
			imports := readBy("g1", 0)
			imports.Importer = true
			r.reportLegacy(imports)
			r.reportLegacy(dark)
			r.reportLegacy(before)
			time.Sleep(2 * time.Second)
		}
		r.late = -1
		g := r.goes(2 * time.Second)
		if g2 := readerNamed(g, "g2"); g2.GetUnreadable() != "no route" || g2.GetBehindSince() != nil || g2.GetImports() {
			t.Errorf("one that cannot read: %v", g2)
		}
		if g3 := readerNamed(g, "g3"); g3 == nil || g3.GetReadTo() != nil || g3.GetLag() != nil || g3.GetBehindSince() != nil {
			t.Errorf("one from before: %v", g3)
		}
		if g1 := readerNamed(g, "g1"); !g1.GetImports() || g1.GetLag().AsDuration() != 0 {
			t.Errorf("who imports: %v", g1)
		}
		if lag := r.gauge("cellgate_cell_gate_reading_lag_seconds"); lag != 0 {
			t.Errorf("the lag is %v", lag)
		}
		if told := r.told(); len(told) != 0 {
			t.Errorf("the audit has %q", told)
		}
	})
}

// A gateway that is started anew is the same; two of one name at once are two.
func TestGatewaysOfOneNameAreTwo(t *testing.T) {
	w, now := newNovaReaders(time.Minute), time.Unix(1_000_000, 0)
	take := func(life, name string, age time.Duration) (news []readerNews) {
		for range 6 {
			now = now.Add(2 * time.Second)
			w.take(&legacyReport{gateway: "other", name: "other", readTo: now}, now)
			news = append(news, w.take(&legacyReport{gateway: life, name: name, readTo: now.Add(-age)}, now)...)
		}
		return news
	}
	if n := len(take("life1", "a", time.Hour)); n != 1 {
		t.Errorf("told of %d times", n)
	}
	for n := range 5 {
		if news := take(fmt.Sprint("again", n), "a", time.Hour); len(news) != 0 || len(w.byName) != 2 {
			t.Errorf("started anew it is told as %v, of %d", news, len(w.byName))
		}
	}
	for range 20 {
		now = now.Add(2 * time.Second)
		for life, age := range map[string]time.Duration{"one": 0, "two": time.Hour} {
			w.take(&legacyReport{gateway: life, name: "b", readTo: now.Add(-age)}, now)
		}
	}
	behind := 0
	for _, g := range w.byName {
		if strings.HasPrefix(g.name, "b") && !g.behind.IsZero() {
			behind++
		}
	}
	if behind != 1 || len(w.byName) != 4 {
		t.Errorf("%d of two with one name are behind, of %d in all", behind, len(w.byName))
	}
}

func TestOnlySoManyGatewaysAreWatched(t *testing.T) {
	w, now := newNovaReaders(time.Minute), time.Unix(1_000_000, 0)
	for n := range 3 * maxReaders {
		w.take(&legacyReport{gateway: fmt.Sprint("g", n), readTo: now}, now)
	}
	if len(w.byName) != maxReaders {
		t.Errorf("%d are kept", len(w.byName))
	}
	now = now.Add(keepReader + time.Second)
	w.take(&legacyReport{gateway: "one more", readTo: now}, now)
	if len(w.byName) != 1 || w.byName["one more"] == nil {
		t.Errorf("%d are kept when none was heard but one", len(w.byName))
	}
}
