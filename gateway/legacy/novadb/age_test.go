package novadb

import (
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
)

// The age of the data follows the last write of any service or compute node, and not the server's clock. A write that
// is ahead of that clock by more than service_down_time does not count.
func TestHowNewTheDataAre(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 3)
		ago := func(d time.Duration) time.Time { return w.now.Add(-d) }
		w.do("UPDATE services SET created_at = ?, updated_at = ?, last_seen_up = ?", ago(time.Hour), ago(3*time.Minute), ago(3*time.Minute))
		w.do("UPDATE compute_nodes SET created_at = ?, updated_at = ?", ago(time.Hour), ago(time.Hour))
		var x *Snapshot
		check := func(what string, heartbeat, written time.Duration, silent bool) {
			t.Helper()
			var err error
			if x, err = w.Refresh(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			if !x.Heartbeat.Equal(ago(heartbeat)) || !x.Written.Equal(ago(written)) || x.Silent(time.Minute) != silent {
				t.Errorf("%s: heartbeat %v, written %v, silent %v; want %v, %v", what, x.Heartbeat, x.Written, x.Silent(time.Minute), ago(heartbeat), ago(written))
			}
		}
		check("computes that are silent", 3*time.Minute, 3*time.Minute, true)
		w.do("UPDATE compute_nodes SET updated_at = ? WHERE id = 2", ago(2*time.Minute))
		check("a compute node", 3*time.Minute, 2*time.Minute, true)
		w.cell.Insert(t, "services", with(w.service(9), legacytest.Row{"binary": "nova-conductor", "last_seen_up": ago(time.Second), "updated_at": ago(time.Second)}))
		check("a conductor", time.Second, time.Second, false)
		w.do("UPDATE services SET last_seen_up = ?, updated_at = ? WHERE id = 1", ago(-time.Hour), ago(-time.Hour))
		w.do("UPDATE compute_nodes SET updated_at = ? WHERE id = 1", ago(-time.Hour))
		check("a clock that is far ahead", time.Second, time.Second, false)
		if x.Ahead < 50*time.Minute || x.Ahead > time.Hour || x.WhySilent(time.Minute) != "" {
			t.Errorf("an hour ahead is %v, %q", x.Ahead, x.WhySilent(time.Minute))
		}
		w.do("UPDATE services SET last_seen_up = ?, updated_at = ? WHERE id IN (1, 9)", ago(-45*time.Second), ago(-45*time.Second))
		check("clocks that are ahead", -45*time.Second, -45*time.Second, false)
		if x.Ahead < 40*time.Second || x.Ahead > 45*time.Second {
			t.Errorf("45 s ahead: %v", x.Ahead)
		}
		w.do("UPDATE services SET last_seen_up = ?, updated_at = ? WHERE id IN (1, 9)", ago(-time.Hour), ago(-time.Hour))
		check("all clocks are far ahead but that of the dead", 3*time.Minute, 2*time.Minute, true)
		if why := x.WhySilent(time.Minute); !strings.Contains(why, "the newest heartbeat of any service is ") || !strings.Contains(why, " ahead of its server's clock: the clocks") {
			t.Errorf("it says %q", why)
		}
		w.do("UPDATE services SET last_seen_up = ?, updated_at = ? WHERE id = 9", ago(time.Second), ago(time.Second))
		w.do("UPDATE services SET deleted = id WHERE id = 9")
		check("a service that is deleted", 3*time.Minute, 2*time.Minute, true)
		w.do("UPDATE services SET last_seen_up = NULL, created_at = NULL, updated_at = NULL")
		w.do("UPDATE compute_nodes SET created_at = NULL, updated_at = NULL")
		var err error
		if x, err = w.Load(t.Context()); err != nil || !x.Heartbeat.IsZero() || !x.Written.IsZero() || x.Silent(time.Minute) {
			t.Errorf("without times: heartbeat %v, written %v, %v", x.Heartbeat, x.Written, err)
		}
	})
}

// In a copy that stops, no service is down before all are silent. A service that is dead among others is down.
func TestNobodyIsDownInACopyThatStops(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 3)
		w.do("UPDATE services SET last_seen_up = ?, updated_at = ?", w.now.Add(-55*time.Second), w.now.Add(-55*time.Second))
		w.do("UPDATE services SET last_seen_up = ? WHERE id = 1", w.now.Add(-64*time.Second))
		down := func(x *Snapshot, after time.Duration) (n int) {
			for _, h := range x.Hosts {
				if !x.Up(h.service, x.At.Add(after), time.Minute) {
					n++
				}
			}
			return n
		}
		x, err := w.Load(t.Context())
		if err != nil || down(x, 0) != 0 || down(x, 4*time.Second) != 0 || down(x, time.Hour) != 0 || x.Hosts[0].Down {
			t.Errorf("in a copy that stopped %d, %d, %d are down, %v", down(x, 0), down(x, 4*time.Second), down(x, time.Hour), err)
		}
		w.do("UPDATE services SET last_seen_up = ? WHERE id = 2", w.now)
		if x, err = w.Load(t.Context()); err != nil || down(x, 0) != 1 || !x.Hosts[0].Down {
			t.Errorf("of one that is dead and others that live %d are down, %v", down(x, 0), err)
		}
	})
}
