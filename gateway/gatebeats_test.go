package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// beating makes two nova-computes write heartbeats every 10 s. The copy gets none after stops, unless stops is zero.
func (r *readerStub) beating(stops time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fill = func(x *novadb.Snapshot) {
		beat := x.At
		if !stops.IsZero() && beat.After(stops) {
			beat = stops
		}
		x.Heartbeat = beat.Truncate(10 * time.Second)
		x.Services = []novadb.Service{{ID: 1, Host: "host001", Version: 68, LastSeenUp: x.Heartbeat}, {ID: 2, Host: "host002", Version: 68, LastSeenUp: x.Heartbeat.Add(-9 * time.Second)}}
	}
}

// goesDown returns the hosts that any report has down, and why the last report has no services.
func goesDown(reports []*cellv1.ReportLegacyRequest) (down map[string]bool, unreadable string) {
	down = map[string]bool{}
	for _, r := range reports {
		for _, s := range r.GetServices() {
			if !s.GetUp() {
				down[s.GetHost()] = true
			}
		}
		unreadable = r.GetUnreadable()
	}
	return down, unreadable
}

// If a copy of the database stops, no service is reported down. After service_down_time the gateway finds out, and
// imports nothing. It reports and imports again once the copy goes on.
func TestGate_CopyThatStops_TellsNobodyDown(t *testing.T) {
	for _, state := range []cellgatev1.Gate_State{cellgatev1.Gate_LEGACY, cellgatev1.Gate_NATIVE} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, u := gated(1, testHost(1, 4)), newUpgrading()
				f.gate.move(state)
				f.gate.importFor = 5 * time.Second
				u.reader.beating(time.Time{})
				startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
				check := func(when, unreadable string, imported bool) {
					t.Helper()
					down, why := goesDown(f.reported())
					if len(down) != 0 || !strings.Contains(why, unreadable) || unreadable == "" && why != "" {
						t.Errorf("%s: %v are down, %q", when, down, why)
					}
					if (last(f.reported()).GetImportedAge() != nil) != imported {
						t.Errorf("%s: imported is %t", when, !imported)
					}
				}
				time.Sleep(time.Minute)
				check("a live one", "", true)
				u.reader.beating(time.Now())
				time.Sleep(49 * time.Second)
				check("49 s after it stopped", "", true)
				time.Sleep(26 * time.Second)
				check("75 s after it stopped", "it is a copy that is behind, ", false)
				time.Sleep(time.Minute)
				u.reader.beating(time.Time{})
				time.Sleep(20 * time.Second)
				check("it goes on", "", true)
			})
		})
	}
}
