package novadb

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(legacytest.Stop)) }

// world is a cell with its databases and a reader.
type world struct {
	*testing.T
	kind      legacytest.Kind
	cell, api *legacytest.Database
	conf      Config
	*Reader
	// now is the server's time when the world was made, to the second.
	now time.Time
}

const (
	cellUUID  = "c0000000-0000-0000-0000-000000000001"
	otherUUID = "c0000000-0000-0000-0000-000000000002"
)

// newWorld makes a cell of n hosts, all mapped and up.
func newWorld(t *testing.T, k legacytest.Kind, n int, change ...func(*Config)) *world {
	t.Helper()
	return worldOn(t, k, k.Shared(t), n, change...)
}

func worldOn(t *testing.T, k legacytest.Kind, s legacytest.Server, n int, change ...func(*Config)) *world {
	t.Helper()
	w := &world{T: t, kind: k, cell: legacytest.NewCell(t, s), api: legacytest.NewAPI(t, s)}
	w.now = w.cell.Now(t).Truncate(time.Second)
	w.api.Insert(t, "cell_mappings", legacytest.Row{"id": 1, "uuid": cellUUID, "name": "cell1"}, legacytest.Row{"id": 2, "uuid": otherUUID, "name": "cell2"})
	var nodes, services, mappings []legacytest.Row
	for i := 1; i <= n; i++ {
		nodes = append(nodes, w.node(i))
		services = append(services, w.service(i))
		mappings = append(mappings, legacytest.Row{"id": i, "cell_id": 1, "host": name(i)})
	}
	w.cell.Insert(t, "compute_nodes", nodes...)
	w.cell.Insert(t, "services", services...)
	w.api.Insert(t, "host_mappings", mappings...)
	w.conf = Config{Cell: "cell1", Database: Database{URL: w.cell.URL}, API: Database{URL: w.api.URL}, PageSize: 7}
	for _, f := range change {
		f(&w.conf)
	}
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	r, err := Open(w.Context(), w.conf)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := r.Close(); err != nil {
			w.Errorf("closing: %v", err)
		}
	})
	w.Reader = r
}

func name(i int) string { return fmt.Sprintf("host%d", i) }
func uuid(i int) string { return fmt.Sprintf("a0000000-0000-0000-0000-%012d", i) }

func (w *world) node(i int) legacytest.Row {
	return legacytest.Row{
		"id": i, "uuid": uuid(i), "host": name(i), "hypervisor_hostname": name(i) + ".example", "deleted": 0,
		"created_at": w.now.Add(-240 * time.Hour), "updated_at": w.now.Add(-24 * time.Hour),
		"vcpus": 32, "vcpus_used": 4, "memory_mb": 65536, "memory_mb_used": 8192, "free_ram_mb": 57344,
		"local_gb": 1000, "local_gb_used": 100, "free_disk_gb": 900, "disk_available_least": 800,
		"hypervisor_type": "QEMU", "hypervisor_version": 6002000, "host_ip": fmt.Sprintf("10.0.%d.%d", i/250, i%250+1),
		"cpu_info": `{"arch": "x86_64", "topology": {"cores": 8}}`, "supported_instances": `[["x86_64", "kvm", "hvm"]]`,
		"metrics": "[]", "stats": `{"num_instances": "3", "io_workload": "1", "failed_builds": "0"}`,
		"cpu_allocation_ratio": 8.0, "ram_allocation_ratio": 1.2, "disk_allocation_ratio": 1.0, "mapped": 1,
	}
}

func (w *world) service(i int) legacytest.Row {
	return legacytest.Row{
		"id": i, "uuid": fmt.Sprintf("b0000000-0000-0000-0000-%012d", i), "host": name(i), "binary": "nova-compute", "topic": "compute",
		"report_count": 1, "disabled": false, "forced_down": false, "deleted": 0, "version": 61,
		"created_at": w.now.Add(-240 * time.Hour), "last_seen_up": w.now, "updated_at": w.now,
	}
}

// with sets columns of a row, and returns it.
func with(r legacytest.Row, columns legacytest.Row) legacytest.Row {
	for k, v := range columns {
		r[k] = v
	}
	return r
}

// do changes the cell database.
func (w *world) do(statement string, args ...any) {
	w.Helper()
	change(w, w.cell, statement, args...)
}

func change(t testing.TB, d *legacytest.Database, statement string, args ...any) {
	t.Helper()
	dialect := mysqlDialect
	if d.Kind == legacytest.PostgreSQL {
		dialect = postgresDialect
	}
	if _, err := d.DB.ExecContext(context.Background(), dialect.sql(statement), args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (w *world) load() *Snapshot {
	w.Helper()
	x, err := w.Load(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return x
}

// refresh demands that a refresh gives what a load does.
func (w *world) refresh(since *Snapshot) *Snapshot {
	w.Helper()
	x, err := w.Refresh(w.Context(), since)
	if err != nil {
		w.Fatal(err)
	}
	if diff := differ(x, w.load()); diff != "" {
		w.Errorf("refresh is not load: %s", diff)
	}
	return x
}

// host finds a host by its service's name.
func (x *Snapshot) host(name string) *Host {
	for i := range x.Hosts {
		if x.Hosts[i].ServiceHost == name {
			return &x.Hosts[i]
		}
	}
	return nil
}

func (x *Snapshot) left(id int64) LeftOut {
	for _, l := range x.LeftOut {
		if l.NodeID == id {
			return l
		}
	}
	return LeftOut{}
}

func (x *Snapshot) hostNames() []string {
	var names []string
	for _, h := range x.Hosts {
		names = append(names, h.ServiceHost)
	}
	return names
}

// differ says in what two snapshots of the same rows differ; "" for nothing.
func differ(a, b *Snapshot) string {
	text := func(x *Snapshot) []string {
		var all []string
		for _, h := range x.Hosts {
			f := h.Facts
			h.Facts = nil
			h.service, h.Revision = nil, 0
			all = append(all, fmt.Sprintf("%+v %+v %v %v", h, f.FactTexts, f.Failed, f.Unfilled))
		}
		for _, l := range x.LeftOut {
			all = append(all, fmt.Sprintf("%+v", l))
		}
		for _, s := range x.Services {
			all = append(all, fmt.Sprintf("%+v", s))
		}
		return append(all, fmt.Sprint(x.LeftOutBy, x.CellUUID, x.CellDisabled))
	}
	one, two := text(a), text(b)
	for i := range max(len(one), len(two)) {
		switch {
		case i >= len(one):
			return "nothing, and " + two[i]
		case i >= len(two):
			return one[i] + ", and nothing"
		case one[i] != two[i]:
			return one[i] + "\nand\n" + two[i]
		}
	}
	return ""
}

func mustID(t testing.TB, s string) schedule.ID {
	t.Helper()
	id, err := schedule.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
