package importer

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
)

const cellUUID = "c0000000-0000-4000-8000-000000000001"

// readerOf reads a cell database without the API's.
func readerOf(t *testing.T, d *legacytest.Database) *novadb.Reader {
	t.Helper()
	r, err := novadb.Open(t.Context(), novadb.Config{Cell: "cell1", CellUUID: cellUUID, Database: novadb.Database{URL: d.URL}, PageSize: 17})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// rowOn makes a row of instances that was written long ago.
func rowOn(i int, host, node any, now time.Time) legacytest.Row {
	image := "" // boots from a volume
	if i%5 > 0 {
		image = "e0000000-0000-4000-8000-000000000001"
	}
	return legacytest.Row{
		"image_ref": image,
		"id":        i, "uuid": instanceID(int64(i)), "host": host, "node": node, "deleted": 0, "vcpus": 1 + i%3, "memory_mb": 512 * (1 + i%5), "root_gb": 5 * (i % 4),
		"ephemeral_gb": i % 2, "instance_type_id": 1, "project_id": "p", "user_id": "u", "vm_state": "active", "created_at": now.Add(-time.Hour), "updated_at": now.Add(-time.Hour),
	}
}

// heldOn queries the database for what the instances of a host hold: at most as much disk as is in use.
func heldOn(t *testing.T, d *legacytest.Database, h *novadb.Host) map[string]int64 {
	t.Helper()
	var cpu, memory, disk sql.NullInt64
	q := "SELECT sum(vcpus), sum(memory_mb), sum(ephemeral_gb + CASE WHEN image_ref = '' THEN 0 ELSE root_gb END) FROM instances WHERE deleted = 0 AND host = " + d.Mark(1) + " AND node = " + d.Mark(2) +
		" AND vm_state NOT IN ('deleted', 'shelved_offloaded') AND vcpus IS NOT NULL AND (hidden IS NULL OR hidden = false)"
	if err := d.DB.QueryRowContext(context.Background(), q, h.ServiceHost, h.NodeName).Scan(&cpu, &memory, &disk); err != nil {
		t.Fatal(err)
	}
	return map[string]int64{"VCPU": cpu.Int64, "MEMORY_MB": memory.Int64, "DISK_GB": min(disk.Int64, h.View.DiskUsedMB/1024)}
}

// Nova's own sample of hosts, with instances on them, is imported from real servers. The shard has what a query finds:
// after a load, after changes, and after the importer died.
func TestSampleOfNova(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		d := legacytest.NewCell(t, k.Shared(t))
		d.Sample(t)
		reader := readerOf(t, d)
		now := d.Now(t).Truncate(time.Second)
		x, err := reader.Load(t.Context())
		if err != nil || len(x.Hosts) < 30 {
			t.Fatalf("%d hosts, %v", len(x.Hosts), err)
		}
		var rows []legacytest.Row
		for i := 1; i <= 120; i++ {
			h := &x.Hosts[i%len(x.Hosts)]
			rows = append(rows, rowOn(i, h.ServiceHost, h.NodeName, now))
		}
		rows[3]["vm_state"], rows[4]["vm_state"], rows[5]["vm_state"] = "shelved_offloaded", "error", "deleted"
		rows[6]["host"], rows[6]["node"] = nil, nil
		rows[7]["vcpus"] = nil
		rows[8]["deleted"], rows[8]["deleted_at"] = 9, now
		rows[9]["hidden"], rows[10]["hidden"] = true, false
		rows[len(x.Hosts)]["hidden"] = true // on the second host
		d.Insert(t, "instances", rows...)

		cell := newCell()
		check := func(what string, m *Importer) {
			t.Helper()
			var r Report
			for range 4 {
				if x, err = reader.Refresh(t.Context(), x); err != nil {
					t.Fatal(err)
				}
				if r, err = m.Step(t.Context(), x, cell); err != nil {
					t.Fatal(err)
				}
			}
			if r.Waiting != 0 || r.LeftOutBy[NullAmount] != 1 || len(r.LeftOutBy) != 1 {
				t.Errorf("%s: %+v", what, r)
			}
			if len(cell.hosts) != len(x.Hosts) {
				t.Errorf("%s: %d hosts in the shard, %d rows are hosts", what, len(cell.hosts), len(x.Hosts))
			}
			n := &nova{hosts: map[int64]*novadb.Host{}}
			for i := range x.Hosts {
				h := &x.Hosts[i]
				n.hosts[h.NodeID] = h
				if want, got := heldOn(t, d, h), cell.used(h.UUID.String()); !same(want, got) {
					t.Errorf("%s: %s holds %v, the database says %v", what, h.ServiceHost, got, want)
				}
				n.room(t, cell, h.UUID.String())
			}
		}
		m, err := New(Config{Cell: "cell1", Calls: 1, BatchHosts: 7})
		if err != nil {
			t.Fatal(err)
		}
		check("a load", m)
		host := &x.Hosts[1]
		for i, change := range []string{
			"vm_state = 'shelved_offloaded', updated_at = '%s' WHERE id = 20",
			"deleted = id, deleted_at = '%s' WHERE id = 21",
			"host = '" + host.ServiceHost + "', node = '" + host.NodeName + "', updated_at = '%s' WHERE id = 22",
			"vcpus = 9, updated_at = '%s' WHERE id = 23",
			"host = NULL, node = NULL, updated_at = '%s' WHERE id = 24",
			"hidden = true, updated_at = '%s' WHERE id = 25",
			"hidden = false, updated_at = '%s' WHERE id = 10",
		} {
			d.Exec(t, "UPDATE instances SET "+fmt.Sprintf(change, d.Now(t).Add(time.Duration(i)*time.Millisecond).Format("2006-01-02 15:04:05")))
		}
		d.Exec(t, "UPDATE compute_nodes SET vcpus_used = vcpus_used + 3, updated_at = '"+d.Now(t).Format("2006-01-02 15:04:05")+"' WHERE id < 9")
		check("changes", m)
		d.Exec(t, "DELETE FROM instances WHERE id = 30")
		if m, err = New(Config{Cell: "cell1", Calls: 1}); err != nil {
			t.Fatal(err)
		}
		check("another Importer", m)
	})
}

// Whatever is in a row, either it is no host and its problem is named, or the cell takes it.
func TestWhatIsReadIsTaken(t *testing.T) {
	type row = legacytest.Row
	long := func(n int) string { return `{"arch": "x86_64", "model": "` + strings.Repeat("x", n) + `"}` }
	tests := []struct {
		name, column string
		value        any
		// problem is empty for a host.
		problem string
		// only is the one kind of server to test on: MySQL's column has no room for the value.
		only legacytest.Kind
	}{
		{name: "a ratio below zero", column: "cpu_allocation_ratio", value: -1.5, problem: "is -1.5"},
		{name: "no limit", column: "ram_allocation_ratio", value: 9999.0},
		{name: "a capacity above the greatest amount", column: "ram_allocation_ratio", value: 40_000.0},
		{name: "a ratio without bounds", column: "disk_allocation_ratio", value: 1e9},
		{name: "the greatest total", column: "memory_mb", value: math.MaxInt32},
		{name: "no VCPU", column: "vcpus", value: 0},
		{name: "more in use than there is", column: "vcpus_used", value: math.MaxInt32},
		{name: "less than nothing in use", column: "vcpus_used", value: -5},
		{name: "more memory free than there is", column: "free_ram_mb", value: math.MaxInt32},
		{name: "memory far below zero", column: "free_ram_mb", value: math.MinInt32},
		{name: "disk far below zero", column: "disk_available_least", value: math.MinInt32},
		{name: "more disk free than there is", column: "free_disk_gb", value: math.MaxInt32},
		{name: "a great version", column: "hypervisor_version", value: math.MaxInt32},
		{name: "a version below zero", column: "hypervisor_version", value: -1},
		{name: "a long type", column: "hypervisor_type", value: strings.Repeat("q", 256), problem: "255"},
		{name: "CPUs of much text", column: "cpu_info", value: long(65000)},
		{name: "CPUs of too much text", column: "cpu_info", value: long(65536), problem: "65536"},
		{name: "CPUs that are no JSON", column: "cpu_info", value: "x86_64"},
		{name: "CPUs of no text", column: "cpu_info", value: ""},
		{name: "stats of too much text", column: "stats", value: `{"a": "` + strings.Repeat("x", 65536) + `"}`, problem: "65536", only: legacytest.PostgreSQL},
		{name: "metrics of too much text", column: "metrics", value: "[" + strings.Repeat(" ", 65536) + "]", problem: "65536", only: legacytest.PostgreSQL},
		{name: "NUMA cells of much text", column: "numa_topology", value: strings.Repeat(" ", 100_000) + `{"nova_object.data": {"cells": []}}`, only: legacytest.PostgreSQL},
		{name: "counters without bounds", column: "stats", value: `{"io_workload": "99999999999", "failed_builds": "-3", "num_instances": "-1"}`},
		{name: "a name that is not ASCII", column: "hypervisor_hostname", value: "Zürich-Höngg-ノード"},
	}
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		d := legacytest.NewCell(t, k.Shared(t))
		now := d.Now(t).Truncate(time.Second)
		wrong, rows := map[string]int{}, 0
		for i, tt := range tests {
			if tt.only != "" && tt.only != k {
				continue
			}
			rows++
			id, name := i+1, fmt.Sprintf("host%d", i+1)
			r := row{
				"id": id, "uuid": fmt.Sprintf("a0000000-0000-4000-8000-%012d", id), "host": name, "hypervisor_hostname": name, "deleted": 0, "created_at": now, "updated_at": now,
				"vcpus": 8, "vcpus_used": 0, "memory_mb": 65536, "memory_mb_used": 0, "free_ram_mb": 65536, "local_gb": 1000, "local_gb_used": 0, "free_disk_gb": 1000,
				"hypervisor_type": "QEMU", "hypervisor_version": 6002000, "cpu_info": "{}", "supported_instances": "[]", "metrics": "[]", "stats": "{}",
			}
			r[tt.column] = tt.value
			d.Insert(t, "compute_nodes", r)
			d.Insert(t, "services", row{"id": id, "host": name, "binary": "nova-compute", "report_count": 1, "deleted": 0, "version": 60, "last_seen_up": now})
			d.Insert(t, "instances", rowOn(id, name, r["hypervisor_hostname"], now))
			if tt.problem != "" {
				wrong[name] = i
			}
		}
		r, err := novadb.Open(t.Context(), novadb.Config{Cell: "cell1", CellUUID: cellUUID, Database: novadb.Database{URL: d.URL}, Importable: Importable})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		x, err := r.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range x.LeftOut {
			at, is := wrong[l.Host]
			if !is || l.Reason != novadb.NotImportable || l.Column != tests[at].column || !strings.Contains(l.Detail, tests[at].problem) {
				t.Errorf("left out: %+v", l)
			}
		}
		if len(x.LeftOut) != len(wrong) || len(x.Hosts) != rows-len(wrong) {
			t.Errorf("%d hosts and %d left out of %d rows of which %d are wrong", len(x.Hosts), len(x.LeftOut), rows, len(wrong))
		}
		m, err := New(Config{Cell: "cell1", Calls: 1})
		if err != nil {
			t.Fatal(err)
		}
		cell := newCell()
		report, err := m.Step(t.Context(), x, cell)
		if err != nil || report.Taken != len(x.Hosts) || report.Refused != 0 || report.LeftOutBy[BadHost] != 0 || report.Adopted != len(x.Hosts) {
			t.Errorf("%+v, %v", report, err)
		}
		n := &nova{hosts: map[int64]*novadb.Host{}}
		for i := range x.Hosts {
			if h := &x.Hosts[i]; h.View.DiskRatio <= mostRatio && h.View.RAMRatio < 40_000 {
				n.hosts[h.NodeID] = h
				n.room(t, cell, h.UUID.String())
			}
		}
	})
}

// If the table of instances is locked or missing, no host is imported, and the error says why the
// database did not give the rows.
func TestInstancesThatCannotBeRead(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		d := legacytest.NewCell(t, k.Shared(t))
		d.Sample(t)
		reader := readerOf(t, d)
		x, err := reader.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(Config{Cell: "cell1", Calls: 1})
		if err != nil {
			t.Fatal(err)
		}
		cell := newCell()
		fails := func(within time.Duration, want novadb.Trouble) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			if _, err := m.Step(ctx, x, cell); fault.KindOf(err) != fault.CellUnavailable || novadb.TroubleOf(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
			if _, err := reader.Refresh(t.Context(), x); err != nil {
				t.Errorf("the hosts cannot be read either: %v", err)
			}
		}
		c, err := d.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		lock, unlock := []string{"LOCK TABLES instances WRITE"}, "UNLOCK TABLES"
		if k == legacytest.PostgreSQL {
			lock, unlock = []string{"BEGIN", "LOCK TABLE instances IN ACCESS EXCLUSIVE MODE"}, "ROLLBACK"
		}
		for _, statement := range lock {
			if _, err := c.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		fails(300*time.Millisecond, novadb.TimedOut)
		if _, err := c.ExecContext(t.Context(), unlock); err != nil {
			t.Fatal(err)
		}
		d.Exec(t, "ALTER TABLE instances RENAME TO others")
		fails(time.Minute, novadb.OtherSchema)
		d.Exec(t, "ALTER TABLE others RENAME TO instances")
		if len(cell.hosts) != 0 {
			t.Errorf("the shard has %d hosts", len(cell.hosts))
		}
		if _, err := m.Step(t.Context(), x, cell); err != nil || len(cell.hosts) == 0 {
			t.Errorf("%d hosts once the instances can be read, %v", len(cell.hosts), err)
		}
	})
}

// The root disks of some instances are volumes, although their rows name an image. The shard has as much room for disks
// as the hosts' rows, whatever the flavors say.
func TestRootDisksThatAreVolumes(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		d := legacytest.NewCell(t, k.Shared(t))
		d.Sample(t)
		reader := readerOf(t, d)
		now := d.Now(t).Truncate(time.Second)
		x, err := reader.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := x.Hosts[2].UUID
		d.Exec(t, "UPDATE compute_nodes SET local_gb = 100, local_gb_used = 50, free_disk_gb = 50, disk_available_least = NULL, disk_allocation_ratio = 1.0, updated_at = '"+
			now.Format("2006-01-02 15:04:05")+"' WHERE uuid = '"+id.String()+"'")
		var rows []legacytest.Row
		for i := 1; i <= 4; i++ {
			row := rowOn(i, x.Hosts[2].ServiceHost, x.Hosts[2].NodeName, now)
			row["root_gb"], row["ephemeral_gb"], row["image_ref"] = 30, 2, "e0000000-0000-4000-8000-000000000001"
			rows = append(rows, row)
		}
		rows[3]["image_ref"] = ""
		d.Insert(t, "instances", rows...)
		m, err := New(Config{Cell: "cell1", Calls: 1})
		if err != nil {
			t.Fatal(err)
		}
		cell := newCell()
		check := func(when string, held int64, each ...int32) {
			t.Helper()
			for range 3 {
				if x, err = reader.Refresh(t.Context(), x); err != nil {
					t.Fatal(err)
				}
				if _, err = m.Step(t.Context(), x, cell); err != nil {
					t.Fatal(err)
				}
			}
			if got := cell.used(id.String())["DISK_GB"]; got != held {
				t.Errorf("%s: instances hold %d GB, want %d", when, got, held)
			}
			for i, want := range each {
				if c := cell.claims[instanceID(int64(i+1))]; c == nil && want >= 0 || c != nil && c.used["DISK_GB"] != want {
					t.Errorf("%s: instance %d holds %+v, want %d GB", when, i+1, c, want)
				}
			}
			for _, i := range cell.hosts[id.String()].state.GetProviders()[0].GetInventories() {
				if room := int64(i.GetTotal()-i.GetUnaccounted()) - cell.used(id.String())["DISK_GB"]; i.GetResourceClass() == "DISK_GB" && room != 50 {
					t.Errorf("%s: the shard has %d GB left, the row 50", when, room)
				}
			}
		}
		// 3 x 32 and 2 make 98: 48 too many.
		check("four instances", 50, 2, 14, 32, 2)
		d.Exec(t, "UPDATE instances SET deleted = id, deleted_at = '"+d.Now(t).Format("2006-01-02 15:04:05")+"' WHERE id = 3")
		check("one of a disk its host has is gone, and the row is as before", 50, 16, 32, -1, 2)
	})
}
