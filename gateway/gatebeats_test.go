package gateway

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// beating has two nova-computes and a conductor, whose clock is ahead, beat every 10 s until a copy stops;
// host002 is dead for minutes if that is said.
func (r *readerStub) beating(ahead time.Duration, stops time.Time, dead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	died := time.Now().Add(-3 * time.Minute)
	r.fill = func(x *novadb.Snapshot) {
		beat := x.At
		if !stops.IsZero() && beat.After(stops) {
			beat = stops
		}
		beat = beat.Truncate(10 * time.Second)
		x.Services = []novadb.Service{{ID: 1, Host: "host001", Version: 68, LastSeenUp: beat}, {ID: 2, Host: "host002", Version: 68, LastSeenUp: beat}}
		if dead {
			x.Services[1].LastSeenUp = died
		}
		x.Others = []novadb.Beat{{ID: 3, Seen: beat.Add(ahead)}}
		x.Heartbeat = beat.Add(max(0, ahead))
	}
}

// goesDown gives the hosts that reports have down, and why the last one has no services.
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

// A conductor whose clock is ahead makes a copy that stopped look new: no service is reported down by
// it, it is found within service_down_time, and what was told counts again when it goes on.
func TestACopyThatStopsIsFoundThoughAClockIsAhead(t *testing.T) {
	for _, ahead := range []time.Duration{-40 * time.Second, 0, 20 * time.Second, 50 * time.Second} {
		for _, state := range []cellgatev1.Gate_State{cellgatev1.Gate_LEGACY, cellgatev1.Gate_NATIVE} {
			t.Run(ahead.String()+" "+state.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, u := gated(1, testHost(1, 4)), newUpgrading()
					f.gate.move(state)
					u.reader.beating(ahead, time.Time{}, false)
					f.gate.importFor = 5 * time.Second
					startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
					time.Sleep(time.Minute)
					if down, why := goesDown(f.reported()); len(down) != 0 || why != "" {
						t.Fatalf("a live one: %v are down, %q", down, why)
					}
					u.reader.beating(ahead, time.Now(), false)
					time.Sleep(57 * time.Second)
					if down, why := goesDown(f.reported()); len(down) != 0 || why != "" {
						t.Errorf("57 s after it stopped: %v are down, %q", down, why)
					}
					if last(f.reported()).GetImportedAge() == nil {
						t.Error("57 s after it stopped nothing is imported")
					}
					time.Sleep(18 * time.Second)
					if down, why := goesDown(f.reported()); len(down) != 0 || !strings.Contains(why, "it is a copy that is behind, ") {
						t.Errorf("75 s after it stopped: %v are down, %q", down, why)
					}
					if last(f.reported()).GetImportedAge() != nil {
						t.Error("75 s after it stopped it is said to be imported")
					}
					time.Sleep(time.Minute)
					u.reader.beating(ahead, time.Time{}, false)
					time.Sleep(20 * time.Second)
					if down, why := goesDown(f.reported()); len(down) != 0 || why != "" {
						t.Errorf("it goes on: %v are down, %q", down, why)
					}
					if last(f.reported()).GetImportedAge() == nil {
						t.Error("it goes on, and nothing is imported")
					}
				})
			})
		}
	}
}

// A gateway that starts does not know yet who writes: it tells of a service that is down once it has seen
// others beat, and of a copy that stopped before nothing. A cell without a gate has one all the same.
func TestAGatewayThatStartsTellsNobodyDownBeforeItSawHeartbeats(t *testing.T) {
	for _, c := range []struct {
		name        string
		stopped     time.Duration // ago; 0: not
		Gate        cellgatev1.Gate_State
		early, late bool // host002 is told down within 2 s, within half a minute
		imported    bool
	}{
		{"live", 0, cellgatev1.Gate_NATIVE, false, true, true},
		{"live, LEGACY", 0, cellgatev1.Gate_LEGACY, false, true, true},
		{"live, without a gate", 0, cellgatev1.Gate_STATE_UNSPECIFIED, true, true, true},
		{"stopped", 75 * time.Second, cellgatev1.Gate_NATIVE, false, false, false},
		{"stopped, LEGACY", 75 * time.Second, cellgatev1.Gate_LEGACY, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Second) // no heartbeat comes as it starts
				f, u := gated(1, testHost(1, 4)), newUpgrading()
				if c.Gate != cellgatev1.Gate_STATE_UNSPECIFIED {
					f.gate.move(c.Gate)
				}
				var stops time.Time
				if c.stopped > 0 {
					stops = time.Now().Add(-c.stopped)
				}
				u.reader.beating(50*time.Second, stops, true)
				f.gate.importFor = 5 * time.Second
				startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
				time.Sleep(2 * time.Second)
				if down, _ := goesDown(f.reported()); down["host002"] != c.early || down["host001"] {
					t.Errorf("after 2 s %v are down", down)
				}
				time.Sleep(30 * time.Second)
				if r := last(f.reported()); (r.GetImportedAge() != nil) != c.imported {
					t.Errorf("after half a minute it reports %v", r)
				}
				if down, _ := goesDown(f.reported()); down["host002"] != c.late || down["host001"] {
					t.Errorf("after half a minute %v are down", down)
				}
			})
		})
	}
}

// A gateway that does not know yet who is down tells of an old service that is up all the same, with the
// reading that has it, and of an old one that looks down nothing.
func TestAGatewayThatStartsTellsAnOldServiceThatIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second) // no heartbeat comes as it starts
		f, u := gated(1, testHost(1, 4)), newUpgrading()
		f.gate.move(cellgatev1.Gate_NATIVE)
		var rolledBack atomic.Bool
		u.reader.fill = func(x *novadb.Snapshot) {
			beat := x.At.Truncate(10 * time.Second)
			x.Services = []novadb.Service{
				{ID: 1, Host: "host001", Version: 68, LastSeenUp: beat},
				{ID: 2, Host: "host002", Version: 61, LastSeenUp: beat.Add(-75 * time.Second)},
				{ID: 3, Host: "host003", Version: 61, ForcedDown: true, LastSeenUp: beat},
			}
			if rolledBack.Load() {
				x.Services[0].Version = 61
			}
			x.Heartbeat = beat
		}
		startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		told := func() (old []string, unreadable string) {
			reports := f.reported()
			last := reports[len(reports)-1]
			for _, r := range reports {
				if len(r.GetServices()) > 0 {
					t.Errorf("it has told %v", r.GetServices())
				}
			}
			for _, s := range last.GetOld() {
				old = append(old, s.GetHost())
			}
			return old, last.GetUnreadable()
		}
		time.Sleep(2 * time.Second)
		if old, why := told(); len(old) != 0 || why == "" {
			t.Errorf("before it is rolled back: %v, %q", old, why)
		}
		rolledBack.Store(true)
		time.Sleep(3 * time.Second)
		if old, why := told(); !slices.Equal(old, []string{"host001"}) || why == "" {
			t.Errorf("rolled back: %v, %q", old, why)
		}
	})
}
