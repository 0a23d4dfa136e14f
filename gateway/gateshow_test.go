package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// While the rows answer for a cell, its hosts are shown as they have them; what the shard
// knows of agents counts when it is NATIVE. Rows that are too old make it unavailable.
func TestCellsShowTheHostsThatAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := newFakeCell(1, testHost(1, 1), testHost(2, 1)), newUpgrading(1, testHost(1, 1))
		u.standIn.summary = &cellv1.GetSummaryResponse{AvailabilityZones: []string{"rows"}, Totals: &cellgatev1.Cell{
			Hosts: 7, HostsUp: 6, Resources: []*cellgatev1.ResourceTotals{{ResourceClass: "VCPU", Capacity: 70, Used: 3}},
		}}
		f.moveGate(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(3 * time.Second)
		told := func() (hosts, up float64) {
			return w.metric("cellgate_gateway_legacy_hosts", "cell1"), w.metric("cellgate_gateway_legacy_hosts_up", "cell1")
		}
		for _, state := range []cellgatev1.Gate_State{cellgatev1.Gate_LEGACY, cellgatev1.Gate_SHADOW} {
			f.moveGate(state)
			time.Sleep(3 * time.Second)
			c := w.cell(t)
			if !c.GetAvailable() || c.GetHosts() != 7 || c.GetHostsUp() != 6 || c.GetResources()[0].GetCapacity() != 70 || c.GetAvailabilityZones()[0] != "rows" || c.GetGate().GetState() != state {
				t.Errorf("%s: %v", state, c)
			}
			if hosts, up := told(); hosts != 7 || up != 6 {
				t.Errorf("%s: the metrics say %v of %v", state, up, hosts)
			}
		}
		f.moveGate(cellgatev1.Gate_NATIVE)
		time.Sleep(3 * time.Second)
		if c := w.cell(t); !c.GetAvailable() || c.GetHosts() != 2 || c.GetGate().GetState() != cellgatev1.Gate_NATIVE {
			t.Errorf("NATIVE: %v", c)
		}
		if hosts, _ := told(); hosts != 0 {
			t.Errorf("NATIVE: the metrics say %v", hosts)
		}
		f.moveGate(cellgatev1.Gate_LEGACY)
		u.reader.hook(func(context.Context) error { return unreachable() })
		time.Sleep(20 * time.Second)
		c := w.cell(t)
		if c.GetAvailable() || c.GetHosts() != 0 || !strings.Contains(c.GetReason(), "its legacy database was last read") || !strings.Contains(c.GetReason(), "unreachable") {
			t.Errorf("with rows that are too old: %v", c)
		}
		if hosts, _ := told(); hosts != 0 || w.metric("cellgate_gateway_legacy_rows_age_seconds", "cell1") < 15 {
			t.Errorf("with rows that are too old: the metrics say %v", hosts)
		}
	})
}

// A gateway that has no legacy database for a cell that needs one says so.
func TestCellThatNeedsALegacyDatabaseIsUnavailableWithoutOne(t *testing.T) {
	f := newFakeCell(1, testHost(1, 1))
	f.moveGate(cellgatev1.Gate_SHADOW)
	w := startWith(t, []*fakeCell{f}, nil, Deps{})
	if c := w.cell(t); c.GetAvailable() || !strings.Contains(c.GetReason(), "its gate is SHADOW, and this gateway has no legacy database for it") || c.GetGate().GetEpoch() != 1 {
		t.Errorf("it shows %v", c)
	}
	f.moveGate(cellgatev1.Gate_NATIVE)
	if c := w.cell(t); !c.GetAvailable() || c.GetReason() != "" {
		t.Errorf("it shows %v", c)
	}
}
