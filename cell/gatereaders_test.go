package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// readBy is a report of a gateway whose rows have the given age.
func readBy(gateway string, age time.Duration) *cellv1.ReportLegacyRequest {
	req := legacyOf(gateway, 66, 1)
	req.GatewayName, req.ReadTo = gateway+".example:9100", timestamppb.New(time.Now().Add(-age))
	return req
}

// rig is a replica to which two gateways report every other second.
type rig struct {
	*testCell
	// fresh and late are the ages of the gateways' rows. A gateway with a negative age does not
	// report.
	fresh, late time.Duration
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{testCell: start(t, newStore(t))}
}

// goes lets time pass while the gateways report, and returns the gate at the end.
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

func TestGateReaders_RowsOlderThanAnothers_LagIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, late := range []time.Duration{5 * time.Second, 90 * time.Second, 3 * time.Second} {
			r.late = late
			g := r.goes(4 * time.Second)
			if len(g.GetReaders()) != 2 || g.GetReaders()[0].GetGateway() != "g2.example:9100" || g.GetReaders()[1].GetLag().AsDuration() != 0 {
				t.Fatalf("%v behind: %v", late, g.GetReaders())
			}
			lag := g.GetReaders()[0].GetLag().AsDuration()
			if lag < late-2*time.Second || lag > late+4*time.Second || r.gauge("cellgate_cell_gate_reading_lag_seconds") != lag.Seconds() {
				t.Errorf("%v of lag is shown as %v, and %v s", late, lag, r.gauge("cellgate_cell_gate_reading_lag_seconds"))
			}
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

// A gateway that cannot read is not shown as behind, but with the reason. An old gateway reports no
// age. The importer is marked.
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
		if g2 := readerNamed(g, "g2"); g2.GetUnreadable() != "no route" || g2.GetImports() {
			t.Errorf("one that cannot read: %v", g2)
		}
		if g3 := readerNamed(g, "g3"); g3 == nil || g3.GetReadTo() != nil || g3.GetLag() != nil {
			t.Errorf("one from before: %v", g3)
		}
		if g1 := readerNamed(g, "g1"); !g1.GetImports() || g1.GetLag().AsDuration() != 0 {
			t.Errorf("who imports: %v", g1)
		}
		if lag := r.gauge("cellgate_cell_gate_reading_lag_seconds"); lag != 0 {
			t.Errorf("the lag is %v", lag)
		}
	})
}

// The requirements of each gateway are shown beside what it reads.
func TestGateReaders_RequirementsDiffer_AreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		req := readBy("g1", 0)
		req.RequiredVersion, req.ServiceDownTime = 66, durationpb.New(time.Minute)
		r.reportLegacy(req)
		req = readBy("g2", 0)
		req.RequiredVersion = 0
		r.reportLegacy(req)
		g := r.reportLegacy(&cellv1.ReportLegacyRequest{Gateway: "doctor", RequiredVersion: 99, Look: true}).GetGate()
		one, other := readerNamed(g, "g1"), readerNamed(g, "g2")
		if one.GetRequiredVersion() != 66 || one.GetServiceDownTime().AsDuration() != time.Minute || other.RequiredVersion == nil || other.ServiceDownTime != nil {
			t.Errorf("the gate has %v", g.GetReaders())
		}
	})
}

// The imports of the gateway with the lease may fail: its copy of the tables may be slow, or another cell's.
func TestImport_OfOneGatewayFails_AnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		imports := func(gateway string, imported bool) bool {
			req := readBy(gateway, 0)
			if req.Importer = true; imported {
				req.ImportedAge = durationpb.New(time.Second)
			}
			return r.reportLegacy(req).GetImportFor() != nil
		}
		for range 300 {
			if !imports("g1", true) || imports("g2", false) {
				t.Fatal("the gateway that imports has lost its lease")
			}
			time.Sleep(time.Second)
		}
		took := time.Duration(0)
		for ; took < 5*time.Minute && !imports("g2", false); took += time.Second {
			imports("g1", false)
			time.Sleep(time.Second)
		}
		if took < time.Minute || took > 3*time.Minute {
			t.Errorf("another gateway imports after %v", took)
		}
		for range 300 {
			if imports("g1", false) || !imports("g2", true) {
				t.Fatal("the gateway whose imports failed has the lease again")
			}
			time.Sleep(time.Second)
		}
	})
}
