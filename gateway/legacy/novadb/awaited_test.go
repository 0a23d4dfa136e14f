package novadb

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/schedule"
)

// unplaced is a row of instances that conductor wrote: on no host yet.
func (w *world) unplaced(i int) legacytest.Row {
	return with(w.instance(i), legacytest.Row{"host": nil, "node": nil, "vm_state": "building"})
}

// Whether a row shows an instance, by each state in which its own may be.
func TestStages(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 600_000_000, time.UTC)
	on := &Host{Host: schedule.Host{ServiceHost: "h", NodeName: "n"}, Changed: made.Truncate(time.Second)}
	id := schedule.ID{1}
	at := func(host, node, vm, task string) *Awaited { return &Awaited{host, node, vm, task, made} }
	for _, c := range []struct {
		row  *Awaited
		want Stage
	}{
		{nil, Unknown}, // it was not asked for
		{&Awaited{}, Nowhere},
		{at("", "", "building", "scheduling"), Nowhere},
		{at("", "", "building", ""), Nowhere},
		{at("", "", "shelved_offloaded", "spawning"), Unknown},
		{at("", "", "error", ""), Unknown},
		{at("h", "n", "building", ""), Unknown}, // instance_claim is under way
		{at("h", "n", "building", "scheduling"), Unknown},
		{at("h", "n", "building", "networking"), Claimed},
		{at("h", "n", "building", "block_device_mapping"), Claimed},
		{at("h", "n", "building", "spawning"), Claimed},
		{at("h", "n", "building", "deleting"), Unknown},
		{at("h", "n", "shelved_offloaded", "spawning"), Unknown},
		{at("h", "n", "active", ""), Running},
		{at("h", "n", "active", "deleting"), Running},
		{at("h", "n", "deleted", ""), Unknown},
		{at("h", "n", "error", ""), Unknown},
		{at("H", "n", "building", "spawning"), Unknown},
		{at("h", "other", "building", "spawning"), Unknown},
		{at("other", "n", "active", ""), Unknown},
		{&Awaited{"h", "n", "building", "spawning", made.Add(time.Second)}, Unknown}, // nobody writes the host's row
	} {
		x := &Snapshot{}
		if c.row != nil {
			x.Awaited = map[schedule.ID]Awaited{id: *c.row}
		}
		if got := x.Stage(id, on); got != c.want {
			t.Errorf("%+v: %d, want %d", c.row, got, c.want)
		}
	}
}

// While computes build, abort and delete as nova-compute commits it, each write with the stamp of
// the one before, every refresh that says of an instance that it is claimed has it in the row of its
// host: each takes a bit of vcpus_used. So has every one that says that it runs.
func TestWhatIsClaimedIsInItsRow(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		const hosts, each = 3, 8
		// A stamp that is known is never looked behind.
		w := newWorld(t, k, hosts, func(c *Config) { c.Overlap, c.API = time.Nanosecond, Database{}; c.CellUUID = cellUUID })
		w.do("UPDATE compute_nodes SET vcpus_used = 0")
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		ids := map[schedule.ID]int{}
		var asked []schedule.ID
		var rows []legacytest.Row
		for i := range hosts * each {
			rows = append(rows, w.unplaced(i+1))
			id := mustID(t, uuid(i+1))
			ids[id], asked = i, append(asked, id)
		}
		w.cell.Insert(t, "instances", rows...)
		ctx, stop := context.WithCancel(t.Context())
		var computes sync.WaitGroup
		defer computes.Wait()
		defer stop()
		for h := range hosts {
			computes.Go(func() { w.compute(ctx, h+1, each, rand.New(rand.NewPCG(seed, uint64(h)))) })
		}
		seen := map[Stage]int{}
		x := w.load()
		for range 150 {
			y, err := w.Refresh(t.Context(), x, asked...)
			if err != nil {
				t.Fatal(err)
			}
			for id, i := range ids {
				h := y.host(name(i/each + 1))
				stage := y.Stage(id, h)
				if seen[stage]++; stage >= Claimed && h.View.VCPUsUsed>>(i%each)&1 == 0 {
					t.Fatalf("instance %d is %+v, and its host has %b", i, y.Awaited[id], h.View.VCPUsUsed)
				}
			}
			x = y
		}
		t.Logf("stages seen: %v", seen)
		if seen[Claimed] < 20 || seen[Running] < 20 || seen[Nowhere] < 20 {
			t.Errorf("stages seen: %v: that proves nothing", seen)
		}
	})
}

// compute builds instances on host h again and again, as nova-compute does under its semaphore:
// several are under way at once, and each step is a transaction.
func (w *world) compute(ctx context.Context, h, each int, rnd *rand.Rand) {
	used := 0
	write := func(statement string, args ...any) {
		dialect := w.Reader.cell.dialect
		if _, err := w.cell.DB.ExecContext(ctx, dialect.sql(statement), args...); err != nil && ctx.Err() == nil {
			w.Errorf("%s: %v", statement, err)
		}
	}
	node := func() { write("UPDATE compute_nodes SET vcpus_used = ?, updated_at = ? WHERE id = ?", used, w.now, h) }
	next := make([]int, each)
	for ctx.Err() == nil {
		k := rnd.IntN(each)
		id := (h-1)*each + k + 1
		state := func(vm string, task any) {
			write("UPDATE instances SET vm_state = ?, task_state = ? WHERE id = ?", vm, task, id)
		}
		step := next[k]
		if next[k]++; step > 1 && step < 5 && rnd.IntN(4) == 0 {
			step, next[k] = -1, 0 // the build fails
		}
		switch step {
		case 0:
			state("building", nil)
		case 1:
			write("UPDATE instances SET host = ?, node = ? WHERE id = ?", name(h), name(h)+".example", id)
			used |= 1 << k
			node()
		case 2:
			state("building", "networking")
		case 3:
			state("building", "block_device_mapping")
		case 4:
			state("building", "spawning")
		case 5:
			state("active", nil)
		case 6:
			// Deleted: another one of the uuid is to be built.
			state("deleted", nil)
			fallthrough
		case -1:
			write("UPDATE instances SET host = NULL, node = NULL WHERE id = ?", id)
			used &^= 1 << k
			node()
			state("building", "scheduling")
			next[k] = 0
		}
	}
}

// The row of a host that an awaited instance is on is read again, though its stamp is known and
// settled; no other is.
func TestHostsOfAwaitedInstancesAreReadAgain(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 9)
		w.do("UPDATE compute_nodes SET host = NULL, service_id = 5 WHERE id = 5") // of before Kilo
		w.cell.Insert(t, "instances",
			with(w.unplaced(1), legacytest.Row{"host": name(4), "node": name(4) + ".example", "task_state": "spawning"}),
			with(w.unplaced(2), legacytest.Row{"host": name(5), "node": name(5) + ".example", "task_state": "spawning"}),
			w.unplaced(3), with(w.unplaced(4), legacytest.Row{"deleted": 4}), with(w.unplaced(5), legacytest.Row{"hidden": true}),
		)
		w.do("UPDATE compute_nodes SET updated_at = ? WHERE id = 5 OR id = 4", w.now.Add(-10*time.Minute))
		x := w.load()
		w.do("UPDATE compute_nodes SET vcpus_used = 9")
		var asked []schedule.ID
		for i := range 6 {
			asked = append(asked, mustID(t, uuid(i+1)))
		}
		y, err := w.Refresh(t.Context(), x, asked...)
		if err != nil {
			t.Fatal(err)
		}
		if y.Full || y.Read.ComputeNodes != 2 || y.Read.Instances != 5 {
			t.Errorf("%+v", y.Read)
		}
		for i, want := range []Stage{Claimed, Claimed, Nowhere, Nowhere, Unknown, Nowhere} {
			h := y.host(name(i + 4))
			if got := y.Stage(asked[i], h); got != want {
				t.Errorf("instance %d: %d, want %d: %+v", i+1, got, want, y.Awaited)
			}
			if used := h.View.VCPUsUsed; (used == 9) != (want == Claimed) {
				t.Errorf("host %d has %d in use", i+4, used)
			}
		}
	})
}

// A user who may not read instances, and a table that somebody holds, cost what the rows say of
// instances, and nothing else; they are not asked for again at once.
func TestAwaitedThatCannotBeRead(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 2, func(c *Config) { c.QueryTimeout = time.Second })
		asked := mustID(t, uuid(1))
		w.cell.Insert(t, "instances", w.unplaced(1))
		try := func(when string, want int) {
			t.Helper()
			x, err := w.Load(t.Context(), asked)
			if err != nil || len(x.Hosts) != 2 || len(x.Awaited) != want || x.Stage(asked, &x.Hosts[0]) != Stage(want) {
				t.Fatalf("%s: %v, %+v", when, err, x)
			}
			if x, err = w.Refresh(t.Context(), x, asked); err != nil || len(x.Hosts) != 2 || len(x.Awaited) != want {
				t.Fatalf("%s, a refresh: %v, %+v", when, err, x)
			}
		}
		try("at first", 1)
		conn, err := w.cell.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // ends what it holds
		hold, letGo := "LOCK TABLES instances WRITE", "UNLOCK TABLES"
		if k == legacytest.PostgreSQL {
			hold, letGo = "BEGIN; LOCK TABLE instances IN ACCESS EXCLUSIVE MODE", "ROLLBACK"
		}
		say := func(statement string) {
			t.Helper()
			for part := range strings.SplitSeq(statement, "; ") {
				if _, err := conn.ExecContext(t.Context(), part); err != nil {
					t.Fatal(err)
				}
			}
		}
		say(hold)
		try("while it is held", 0)
		say(letGo)
		try("in the pause", 0)
		w.Reader.noAwaited.Store(0)
		try("after it", 1)

		user := "few" + strings.ToLower(string(k)) + w.now.Format("150405")
		if k == legacytest.MariaDB {
			w.cell.Exec(t, "CREATE USER "+user+"@'127.0.0.1'; GRANT SELECT ON compute_nodes TO "+user+"@'127.0.0.1'; GRANT SELECT ON services TO "+user+"@'127.0.0.1'")
		} else {
			w.cell.Exec(t, "CREATE USER "+user+"; GRANT SELECT ON compute_nodes, services TO "+user)
			t.Cleanup(func() { w.cell.Exec(t, "DROP OWNED BY "+user+"; DROP USER "+user) })
		}
		w.conf.Database.URL = strings.NewReplacer("//root@", "//"+user+"@", "//postgres@", "//"+user+"@").Replace(w.conf.Database.URL)
		w.open()
		try("without the right", 0)
	})
}
