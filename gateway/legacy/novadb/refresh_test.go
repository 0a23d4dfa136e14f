package novadb

import (
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
)

// Each step changes rows in a way that "updated since" misses or misreads. A refresh after
// each step gives what a load gives.
func TestTrapsOfRefresh(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 12, func(c *Config) { c.Overlap = time.Nanosecond })
		x := w.load()
		next := func() *Snapshot { t.Helper(); x = w.refresh(x); return x }

		if next(); x.Full || x.Read.ComputeNodes != 0 || x.Read.Stamps != 12 {
			t.Errorf("nothing changed, and %+v was read", x.Read)
		}

		w.do("UPDATE compute_nodes SET free_ram_mb = 1, updated_at = ? WHERE id = 3", w.now)
		if next(); x.Read.ComputeNodes != 1 || x.host("host3").View.FreeRAMMB != 1 || x.host("host3").Revision <= x.host("host2").Revision {
			t.Errorf("an update: %+v, %+v", x.Read, x.host("host3"))
		}

		// Soft delete leaves updated_at.
		w.do("UPDATE compute_nodes SET deleted = id, deleted_at = ? WHERE id = 4", w.now)
		if next(); x.host("host4") != nil || len(x.Hosts) != 11 {
			t.Error("a soft-deleted host is there")
		}
		// The row may come back with its old times.
		w.do("UPDATE compute_nodes SET deleted = 0, deleted_at = NULL WHERE id = 4")
		if next(); x.host("host4") == nil {
			t.Error("a host that is back is not there")
		}

		// An archived row leaves nothing.
		w.do("DELETE FROM compute_nodes WHERE id = 5")
		if next(); x.host("host5") != nil {
			t.Error("a host whose row is gone is there")
		}

		// A new row has NULL in updated_at; its writer's clock is an hour behind.
		w.cell.Insert(t, "compute_nodes", with(w.node(5), legacytest.Row{"created_at": w.now.Add(-time.Hour), "updated_at": nil}))
		if next(); x.host("host5") == nil {
			t.Error("a new host is not there")
		}
		// The row's first update comes from another clock, which is a day behind.
		w.do("UPDATE compute_nodes SET free_ram_mb = 5, updated_at = ? WHERE id = 5", w.now.Add(-25*time.Hour))
		if next(); x.host("host5").View.FreeRAMMB != 5 {
			t.Error("an update by a clock that is behind is not seen")
		}
		// A clock that is ahead does not hide later writes of others.
		w.do("UPDATE compute_nodes SET free_ram_mb = 6, updated_at = ? WHERE id = 6", w.now.Add(48*time.Hour))
		next()
		w.do("UPDATE compute_nodes SET free_ram_mb = 7, updated_at = ? WHERE id = 7", w.now)
		if next(); x.host("host6").View.FreeRAMMB != 6 || x.host("host7").View.FreeRAMMB != 7 {
			t.Error("updates around a clock that is ahead are not seen")
		}

		// An id that is used again, after a restart of InnoDB or a restored table.
		w.do("DELETE FROM compute_nodes WHERE id = 8")
		w.cell.Insert(t, "compute_nodes", with(w.node(8), legacytest.Row{"uuid": uuid(88), "created_at": w.now}))
		if next(); x.host("host8").UUID != mustID(t, uuid(88)) {
			t.Error("a row of another host has the old one's place")
		}

		// A heartbeat is no change of a host; a service that goes is.
		next() // host8 was seen once
		w.do("UPDATE services SET report_count = report_count + 1, last_seen_up = ?, updated_at = ?", w.now.Add(time.Second), w.now.Add(time.Second))
		if next(); x.Read.ComputeNodes != 0 || !x.Services[0].LastSeenUp.Equal(w.now.Add(time.Second)) {
			t.Errorf("heartbeats: %+v", x.Read)
		}
		w.do("UPDATE services SET disabled = ? WHERE id = 2", true)
		if next(); !x.host("host2").Disabled {
			t.Error("a service that was disabled is not")
		}
		w.do("UPDATE services SET deleted = id WHERE id = 2")
		if next(); x.left(2).Reason != NoService {
			t.Errorf("a service that was deleted: %+v", x.left(2))
		}
		w.cell.Insert(t, "services", with(w.service(2), legacytest.Row{"id": 102, "uuid": uuid(102)}))
		if next(); x.host("host2") == nil || x.host("host2").ServiceID != 102 {
			t.Error("a service that was made anew is not there")
		}

		// A broken row harms itself only, and is a host again when it is repaired.
		w.do("UPDATE compute_nodes SET stats = NULL, updated_at = ? WHERE id = 9", w.now)
		if next(); x.left(9).Reason != NullColumn || len(x.Hosts) != 11 {
			t.Errorf("a broken row: %+v, %d hosts", x.left(9), len(x.Hosts))
		}
		w.do("UPDATE compute_nodes SET stats = '{}', updated_at = ? WHERE id = 9", w.now.Add(time.Second))
		if next(); x.host("host9") == nil {
			t.Error("a repaired row is no host")
		}

		// The API database.
		change(t, w.api, "UPDATE host_mappings SET cell_id = 2 WHERE host = 'host10'")
		w.api.Insert(t, "aggregates", legacytest.Row{"id": 1, "uuid": otherUUID, "name": "rack"})
		w.api.Insert(t, "aggregate_hosts", legacytest.Row{"host": "host11", "aggregate_id": 1})
		if next(); x.left(10).Reason != Unmapped || len(x.host("host11").Aggregates) != 1 {
			t.Errorf("mapping and aggregate: %+v, %+v", x.left(10), x.host("host11").Aggregates)
		}
		if x.Full {
			t.Error("that was no refresh")
		}
	})
}

// Two writes in one second have the same timestamp. The second is seen if it is committed
// within the overlap after the first.
func TestTrapsOfTheSameSecond(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 6, func(c *Config) { c.Overlap = time.Hour })
		x := w.load()
		if y := w.refresh(x); y.Read.ComputeNodes != 0 {
			t.Errorf("%d rows of yesterday were read again", y.Read.ComputeNodes)
		}
		w.do("UPDATE compute_nodes SET free_ram_mb = 1, updated_at = ? WHERE id = 3", w.now)
		x = w.refresh(x)
		w.do("UPDATE compute_nodes SET free_ram_mb = 2 WHERE id = 3")
		if x = w.refresh(x); x.host("host3").View.FreeRAMMB != 2 {
			t.Error("the second write is not seen")
		}
		// A row that is read again unchanged keeps its revision.
		before := x.host("host3").Revision
		if x = w.refresh(x); x.Read.ComputeNodes != 1 || x.host("host3").Revision != before {
			t.Errorf("%+v, revision %d and %d", x.Read, before, x.host("host3").Revision)
		}
		// Past the overlap the row is not read again. Only a load finds a write that left no trace.
		settled := *x
		settled.nodes = slices.Clone(x.nodes)
		settled.nodes[2].first = x.At.Add(-2 * time.Hour)
		w.do("UPDATE compute_nodes SET free_ram_mb = 3 WHERE id = 3")
		y, err := w.Refresh(t.Context(), &settled)
		if err != nil {
			t.Fatal(err)
		}
		if y.host("host3").View.FreeRAMMB != 2 || w.load().host("host3").View.FreeRAMMB != 3 {
			t.Error("a write without a trace is seen by a refresh, or not by a load")
		}
	})
}

// A transaction is committed after the refresh that would have found its timestamp.
func TestTrapsOfLateCommits(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 4, func(c *Config) { c.Overlap = time.Nanosecond })
		x := w.load()
		late, err := w.cell.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := late.ExecContext(t.Context(), w.Reader.cell.sql("UPDATE compute_nodes SET free_ram_mb = 9, updated_at = ? WHERE id = 2"), w.now.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		w.do("UPDATE compute_nodes SET free_ram_mb = 8, updated_at = ? WHERE id = 3", w.now)
		if x = w.refresh(x); x.host("host2").View.FreeRAMMB == 9 || x.host("host3").View.FreeRAMMB != 8 {
			t.Fatal("what is not committed is seen, or what is committed is not")
		}
		if err := late.Commit(); err != nil {
			t.Fatal(err)
		}
		if x = w.refresh(x); x.host("host2").View.FreeRAMMB != 9 {
			t.Error("the late commit is not seen")
		}
	})
}

// A snapshot of a server whose time was later, or of another reader, is read anew.
func TestRefreshReadsAllWhenItMust(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 4)
		x := w.load()
		ahead := *x
		ahead.At = x.At.Add(time.Hour)
		strange := *x
		strange.of = nil
		for name, since := range map[string]*Snapshot{"none": nil, "from a later time": &ahead, "another reader's": &strange} {
			if y := w.refresh(since); !y.Full {
				t.Errorf("%s: not everything was read", name)
			}
		}
		if y := w.refresh(x); y.Full {
			t.Error("its own: everything was read")
		}
	})
}

// A FLOAT of MySQL has the value that a client reads as text, as Nova does.
func TestRatiosAreNovas(t *testing.T) {
	w := newWorld(t, legacytest.MariaDB, 1)
	for _, text := range []string{"1.2", "16", "0.1", "1.234567891", "123456.789", "0.0001234567"} {
		w.do("UPDATE compute_nodes SET cpu_allocation_ratio = ? WHERE id = 1", text)
		var want float64
		if err := w.cell.DB.QueryRowContext(t.Context(), "SELECT CONCAT(cpu_allocation_ratio) FROM compute_nodes").Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := w.load().Hosts[0].View.CPURatio; got != want {
			t.Errorf("%s: %v, as text it is %v", text, got, want)
		}
	}
}
