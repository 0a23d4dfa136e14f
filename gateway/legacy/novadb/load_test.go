package novadb

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/schedule"
)

func TestLoad(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 20)
		w.api.Insert(t, "aggregates", legacytest.Row{"id": 1, "uuid": otherUUID, "name": "rack"}, legacytest.Row{"id": 2, "uuid": cellUUID, "name": "zone"})
		w.api.Insert(t, "aggregate_hosts", legacytest.Row{"host": "host3", "aggregate_id": 2}, legacytest.Row{"host": "host3", "aggregate_id": 1}, legacytest.Row{"host": "elsewhere", "aggregate_id": 1})
		w.api.Insert(t, "aggregate_metadata", legacytest.Row{"aggregate_id": 2, "key": "availability_zone", "value": "az1"})
		w.do("UPDATE services SET disabled = ?, disabled_reason = 'broken fan' WHERE id = 4", true)
		w.do("UPDATE services SET forced_down = ? WHERE id = 5", true)
		w.do("UPDATE services SET last_seen_up = ? WHERE id = 6", w.now.Add(-time.Hour))
		x := w.load()

		if !x.Full || x.CellUUID != cellUUID || len(x.Hosts) != 20 || len(x.LeftOut) != 0 || x.Read.ComputeNodes != 20 || len(x.Services) != 20 {
			t.Fatalf("%+v", x)
		}
		if d := x.At.Sub(w.now); d < 0 || d > time.Minute || x.Took <= 0 {
			t.Errorf("read at %v, the server's time was %v; took %v", x.At, w.now, x.Took)
		}
		h := x.host("host3")
		if h.UUID != mustID(t, uuid(3)) || h.NodeName != "host3.example" || h.Cell != cellUUID || h.NodeID != 3 || h.ServiceID != 3 || h.Disabled || h.Down {
			t.Errorf("%+v", h)
		}
		want := schedule.View{
			VCPUsTotal: 32, VCPUsUsed: 4, CPURatio: 8, TotalRAMMB: 65536, FreeRAMMB: 57344, RAMRatio: 1.2, TotalDiskGB: 1000, DiskRatio: 1,
			DiskUsedMB: 100 * 1024, FreeDiskMB: 800 * 1024, HypervisorVersion: 6002000, NumInstances: 3, NumIOOps: 1,
		}
		if h.View != want {
			t.Errorf("view %+v, want %+v", h.View, want)
		}
		if h.Facts.HostIP != "10.0.0.4" || !h.Facts.HasAddress() {
			t.Errorf("address %q", h.Facts.HostIP)
		}
		aggregates := []schedule.Aggregate{{UUID: otherUUID, Name: "rack", Metadata: map[string]string{}}, {UUID: cellUUID, Name: "zone", Metadata: map[string]string{"availability_zone": "az1"}}}
		if !reflect.DeepEqual(h.Aggregates, aggregates) {
			t.Errorf("aggregates %+v", h.Aggregates)
		}
		if h := x.host("host4"); !h.Disabled || h.Down || x.Services[3].DisabledReason != "broken fan" {
			t.Errorf("a disabled one: %+v", h)
		}
		for _, n := range []string{"host5", "host6"} {
			if !x.host(n).Down {
				t.Errorf("%s is up", n)
			}
		}
		if !x.Up(x.Hosts[0].service, x.At.Add(10*time.Minute), time.Minute) {
			t.Error("a host is down though nobody wrote a heartbeat since")
		}
	})
}

// An aggregate without a uuid of its own, which the schema allows, has one that is always
// the same.
func TestAnAggregateWithoutAUUID(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 2)
		w.api.Insert(t, "aggregates", legacytest.Row{"id": 7, "uuid": nil, "name": "old"}, legacytest.Row{"id": 8, "uuid": otherUUID, "name": "new"}, legacytest.Row{"id": 9, "uuid": nil, "name": "of others"})
		w.api.Insert(t, "aggregate_hosts", legacytest.Row{"host": "host1", "aggregate_id": 7}, legacytest.Row{"host": "host1", "aggregate_id": 8}, legacytest.Row{"host": "elsewhere", "aggregate_id": 9})
		const made = "3a110c74-bce2-531d-9373-e2f902238004"
		x := w.load()
		if got := x.host("host1").Aggregates; len(got) != 2 || got[0].UUID != made || got[0].Name != "old" || got[1].UUID != otherUUID {
			t.Errorf("%+v", got)
		}
		// Row 8 has no host of this cell any more, but its uuid still counts as taken. So the uuid that stands for
		// row 10 is the same in every cell.
		w.api.Insert(t, "aggregates", legacytest.Row{"id": 10, "uuid": otherUUID, "name": "copy"}, legacytest.Row{"id": 11, "uuid": "rack-7", "name": "by hand"},
			legacytest.Row{"id": 12, "uuid": "D0000000000000000000000000000001", "name": "upper"}, legacytest.Row{"id": 13, "uuid": "", "name": "empty"})
		change(t, w.api, "DELETE FROM aggregate_hosts WHERE aggregate_id = 8")
		for _, id := range []int{10, 11, 12, 13} {
			w.api.Insert(t, "aggregate_hosts", legacytest.Row{"host": "host2", "aggregate_id": id})
		}
		x = w.refresh(x)
		var uuids []string
		for _, a := range x.host("host2").Aggregates {
			uuids = append(uuids, a.UUID)
		}
		if want := []string{aggregateUUID(10), aggregateUUID(11), "d0000000-0000-0000-0000-000000000001", aggregateUUID(13)}; !slices.Equal(uuids, want) {
			t.Errorf("%q, want %q", uuids, want)
		}
	})
}

// The rules of rows: what a row may have, and what becomes of it.
func TestTrapsOfRows(t *testing.T) {
	view := func(f func(v schedule.View) bool) func(*Host) bool { return func(h *Host) bool { return f(h.View) } }
	tests := []struct {
		name    string
		columns legacytest.Row
		is      func(*Host) bool // nil: left out
		reason  Reason
		column  string
	}{
		{
			name: "ratios NULL: configured, then initial, then the default", columns: legacytest.Row{"cpu_allocation_ratio": nil, "ram_allocation_ratio": nil, "disk_allocation_ratio": nil},
			is: view(func(v schedule.View) bool { return v.CPURatio == 3 && v.RAMRatio == 1.7 && v.DiskRatio == 1 }),
		},
		{
			name: "ratios 0.0", columns: legacytest.Row{"cpu_allocation_ratio": 0.0, "ram_allocation_ratio": 0.0, "disk_allocation_ratio": 0.0},
			is: view(func(v schedule.View) bool { return v.CPURatio == 3 && v.RAMRatio == 1.7 && v.DiskRatio == 1 }),
		},
		{name: "a ratio of its own", columns: legacytest.Row{"cpu_allocation_ratio": 16.1}, is: view(func(v schedule.View) bool { return v.CPURatio == 16.1 })},
		{name: "negative free memory", columns: legacytest.Row{"free_ram_mb": -512}, is: view(func(v schedule.View) bool { return v.FreeRAMMB == -512 })},
		{name: "least disk below free", columns: legacytest.Row{"disk_available_least": 7}, is: view(func(v schedule.View) bool { return v.FreeDiskMB == 7*1024 })},
		{name: "least disk above free", columns: legacytest.Row{"disk_available_least": 5000}, is: view(func(v schedule.View) bool { return v.FreeDiskMB == 900*1024 })},
		{name: "least disk NULL", columns: legacytest.Row{"disk_available_least": nil}, is: view(func(v schedule.View) bool { return v.FreeDiskMB == 900*1024 })},
		{name: "least disk negative", columns: legacytest.Row{"disk_available_least": -3}, is: view(func(v schedule.View) bool { return v.FreeDiskMB == -3*1024 })},
		{name: "never updated", columns: legacytest.Row{"updated_at": nil}, is: func(h *Host) bool { return true }},
		{name: "no times at all", columns: legacytest.Row{"updated_at": nil, "created_at": nil}, is: func(h *Host) bool { return true }},
		{name: "stats without keys", columns: legacytest.Row{"stats": "{}"}, is: view(func(v schedule.View) bool { return v.NumInstances == 0 && v.NumIOOps == 0 && v.FailedBuilds == 0 })},
		{name: "ancient: host NULL, service_id has it", columns: legacytest.Row{"host": nil, "service_id": 2}, is: func(h *Host) bool { return h.ServiceHost == "host2" && h.ServiceID == 2 }},
		{name: "ancient: its service is gone", columns: legacytest.Row{"host": nil, "service_id": 99}, reason: NoHost, column: "host"},
		{name: "host and service_id NULL", columns: legacytest.Row{"host": nil}, reason: NoHost, column: "host"},
		{name: "not reported", columns: legacytest.Row{"free_disk_gb": nil, "free_ram_mb": nil, "stats": nil}, reason: NotReported, column: "free_disk_gb"},
		{name: "free memory NULL", columns: legacytest.Row{"free_ram_mb": nil}, reason: NullColumn, column: "free_ram_mb"},
		{name: "stats NULL", columns: legacytest.Row{"stats": nil}, reason: NullColumn, column: "stats"},
		{name: "stats no JSON", columns: legacytest.Row{"stats": "{'num_instances'"}, reason: Unreadable, column: "stats"},
		{name: "stats no number", columns: legacytest.Row{"stats": `{"io_workload": "many"}`}, reason: Unreadable, column: "stats"},
		{name: "supported_instances NULL", columns: legacytest.Row{"supported_instances": nil}, reason: NullColumn, column: "supported_instances"},
		{name: "supported_instances no JSON", columns: legacytest.Row{"supported_instances": "kvm"}, reason: Unreadable, column: "supported_instances"},
		{name: "metrics no JSON", columns: legacytest.Row{"metrics": "]"}, reason: Unreadable, column: "metrics"},
		{name: "numa_topology no JSON", columns: legacytest.Row{"numa_topology": "{"}, reason: Unreadable, column: "numa_topology"},
		{name: "negative total", columns: legacytest.Row{"memory_mb": -1}, reason: NegativeTotal, column: "memory_mb"},
		{name: "no uuid", columns: legacytest.Row{"uuid": nil}, reason: BadUUID, column: "uuid"},
		{name: "no node name", columns: legacytest.Row{"hypervisor_hostname": nil}, reason: NoNode, column: "hypervisor_hostname"},
		{name: "no service", columns: legacytest.Row{"host": "host77"}, reason: NoService},
	}
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, len(tests)+1, func(c *Config) {
			c.Ratios = Ratios{CPU: 3, InitialCPU: 9, InitialRAM: 1.7}
		})
		// Each change is to a row of its own, so that it concerns one row only.
		for i, tt := range tests {
			for _, c := range slices.Sorted(maps.Keys(tt.columns)) {
				w.do(fmt.Sprintf("UPDATE compute_nodes SET %s = ? WHERE id = %d", c, i+2), tt.columns[c])
			}
		}
		x := w.load()
		out := 0
		for i, tt := range tests {
			id := int64(i + 2)
			at := slices.IndexFunc(x.Hosts, func(h Host) bool { return h.NodeID == id })
			l := x.left(id)
			// Nova still has the compute node of a row that is no host because of its values.
			unusable := slices.Contains([]Reason{NotReported, NullColumn, Unreadable, NegativeTotal, NoNode}, tt.reason)
			if named := x.Unusable[id]; len(named) > 1 || unusable != (len(named) == 1 && named[0] == mustID(t, uuid(int(id)))) {
				t.Errorf("%s: the unusable rows of its service are %v", tt.name, named)
			}
			switch {
			case tt.is == nil:
				out++
				if at >= 0 || l.Reason != tt.reason || l.Column != tt.column || tt.reason != "" && x.LeftOutBy[tt.reason] == 0 {
					t.Errorf("%s: left out %+v (a host: %t), want %s by %s", tt.name, l, at >= 0, tt.reason, tt.column)
				}
			case at < 0:
				t.Errorf("%s: left out: %+v", tt.name, l)
			case !tt.is(&x.Hosts[at]):
				t.Errorf("%s: %+v", tt.name, x.Hosts[at])
			}
		}
		if len(x.LeftOut) != out || len(x.Hosts) != len(tests)+1-out {
			t.Errorf("%d hosts and %d left out of %d rows; %d are to be out", len(x.Hosts), len(x.LeftOut), len(tests)+1, out)
		}
		w.refresh(x)
	})
}

// A row that a cell would not take is no host, and has a reason, until the row changes.
func TestHostsThatCannotBeImported(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		asked := 0
		w := newWorld(t, k, 5, func(c *Config) {
			c.Importable = func(h *schedule.Host) (column, problem string) {
				if asked++; h.View.VCPUsTotal == 77 {
					return "vcpus", "is an odd number"
				}
				return "", ""
			}
		})
		w.do("UPDATE compute_nodes SET vcpus = 77 WHERE id = 2")
		var members, pairs, many []legacytest.Row
		for id := 1; id <= 257; id++ {
			many = append(many, legacytest.Row{"id": id, "uuid": uuid(id), "name": fmt.Sprint(id)})
			members = append(members, legacytest.Row{"host": "host3", "aggregate_id": id})
			pairs = append(pairs, legacytest.Row{"aggregate_id": 1, "key": fmt.Sprint("k", id), "value": "v"})
		}
		w.api.Insert(t, "aggregates", many...)
		w.api.Insert(t, "aggregate_metadata", pairs...)
		w.api.Insert(t, "aggregate_hosts", append(members, legacytest.Row{"host": "host4", "aggregate_id": 1}, legacytest.Row{"host": "host5", "aggregate_id": 2})...)
		x := w.load()
		if got := x.hostNames(); !slices.Equal(got, []string{"host1", "host5"}) || x.LeftOutBy[NotImportable] != 3 {
			t.Errorf("hosts %v, left out %v", got, x.LeftOut)
		}
		for id, want := range map[int64]LeftOut{
			2: {Column: "vcpus", Detail: "is an odd number"},
			3: {Detail: "it is in 257 aggregates, a cell takes a host in 256 at most"},
			4: {Detail: "its aggregate " + uuid(1) + " has 257 pairs of metadata, a cell takes 256 at most"},
		} {
			if l := x.left(id); l.Reason != NotImportable || l.Column != want.Column || l.Detail != want.Detail {
				t.Errorf("row %d: %+v", id, l)
			}
		}
		before := asked
		x = w.load()
		if asked-before != 5 {
			t.Errorf("%d hosts were asked for in a fresh load of 5", asked-before)
		}
		change(t, w.api, "DELETE FROM aggregate_metadata WHERE id = 1")
		change(t, w.api, "DELETE FROM aggregate_hosts WHERE host = 'host3' AND aggregate_id = 9")
		w.do("UPDATE compute_nodes SET vcpus = 8, updated_at = ? WHERE id = 2", w.now)
		if x = w.refresh(x); len(x.Hosts) != 5 || len(x.LeftOut) != 0 {
			t.Errorf("once all is corrected: %v, left out %v", x.hostNames(), x.LeftOut)
		}
	})
}

func TestLeftOutIsBoundedAndCounted(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 10, func(c *Config) { c.MaxLeftOut = 3 })
		w.do("UPDATE compute_nodes SET free_disk_gb = NULL WHERE id > 2")
		x := w.load()
		if len(x.LeftOut) != 3 || x.LeftOutBy[NotReported] != 8 || len(x.Hosts) != 2 || len(x.Unusable) != 8 {
			t.Errorf("%d listed, %v, %d hosts", len(x.LeftOut), x.LeftOutBy, len(x.Hosts))
		}
	})
}

// With KeepUnreadable, rows that cannot be read are hosts with the values that Nova gives them.
func TestKeepUnreadable(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 3, func(c *Config) { c.KeepUnreadable = true })
		w.do("UPDATE compute_nodes SET stats = NULL WHERE id = 1")
		w.do("UPDATE compute_nodes SET free_disk_gb = NULL WHERE id = 2")
		x := w.load()
		if len(x.Hosts) != 3 || x.Hosts[0].Facts.Failed["stats"] == "" || !x.Hosts[1].Facts.Unfilled || len(x.Hosts[2].Facts.Failed) != 0 {
			t.Errorf("%+v, left out %v", x.hostNames(), x.LeftOut)
		}
	})
}

func TestMappings(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 5)
		change(t, w.api, "DELETE FROM host_mappings WHERE host = 'host2'")
		change(t, w.api, "UPDATE host_mappings SET cell_id = 2 WHERE host = 'host3'")
		change(t, w.api, "UPDATE host_mappings SET host = 'HOST4' WHERE host = 'host4'")
		x := w.load()
		for id, what := range map[int64]string{2: "nowhere", 3: "to another cell"} {
			if r := x.left(id).Reason; r != Unmapped {
				t.Errorf("a host that is mapped %s: %q", what, r)
			}
		}
		// Nova looks a mapping up by SQL: MySQL finds a name that differs in case.
		if mapped := x.host("host4") != nil; mapped != (k == legacytest.MariaDB) {
			t.Errorf("a mapping of HOST4 on %s: host4 is mapped: %t", k, mapped)
		}
	})
}

// Services are joined in Nova by a dictionary: with case, on MySQL too.
func TestHostNamesAreComparedWithCase(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 3)
		w.do("UPDATE services SET host = 'Host2' WHERE id = 2")
		if l := w.load().left(2); l.Reason != NoService || l.Detail != "no live nova-compute service has exactly this host" {
			t.Errorf("%+v", l)
		}
	})
}

// The hosts of the sample: every row is a host or is named.
func TestSample(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		cell := legacytest.NewCell(t, k.Shared(t))
		cell.Sample(t)
		r, err := Open(t.Context(), Config{Cell: "cell1", CellUUID: cellUUID, Database: Database{URL: cell.URL}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		x, err := r.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d hosts, %d services, left out %v of %d rows", len(x.Hosts), len(x.Services), x.LeftOutBy, x.Read.ComputeNodes)
		if got != "47 hosts, 50 services, left out map[not_reported:2] of 49 rows" {
			t.Error(got)
		}
		if !slices.ContainsFunc(x.Services, func(s Service) bool { return s.Version < 16 }) {
			t.Error("no service is as old as those of the sample")
		}
	})
}
