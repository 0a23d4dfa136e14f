package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/try"
	"cellgate/gateway/placement"
	"cellgate/internal/mariatest"
	"cellgate/samples"
)

// apiTables are the tables of Nova's API database that only cellgate try reads.
const apiTables = `CREATE TABLE flavors (id INTEGER, name VARCHAR(255), vcpus INTEGER, memory_mb INTEGER, root_gb INTEGER, ephemeral_gb INTEGER, swap INTEGER);
CREATE TABLE flavor_extra_specs (id INTEGER, flavor_id INTEGER, {key} VARCHAR(255), value VARCHAR(255));
CREATE TABLE request_specs (id INTEGER, instance_uuid VARCHAR(36), spec TEXT);
INSERT INTO flavors VALUES (1, 'm1.small', 2, 2048, 20, 0, 0), (2, 'm1.huge', 200, 2048, 20, 0, 0), (3, 'm1.nowhere', 2, 2048, 20, 0, 0), (4, 'm1.swap', 1, 512, NULL, NULL, 204800);
INSERT INTO flavor_extra_specs VALUES (1, 3, 'trait:CUSTOM_NOWHERE', 'required');`

func TestTry_CellAndAPIDatabase_SaysWhatFitsAndPlacesRequestsAgain(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 4, "127.0.0.1:1")
		c.cell.Insert(t, "instances", c.instance(1, "host1"), c.instance(2, "host2"), c.instance(4, "host4"))
		c.cell.Exec(t, "UPDATE services SET disabled = true WHERE id = 3")
		c.cell.Exec(t, "UPDATE compute_nodes SET uuid = NULL WHERE id = 4")
		c.cell.Exec(t, "UPDATE compute_nodes SET cpu_allocation_ratio = 1e30 WHERE id < 3") // no limit
		createTrialTables(c)
		spec := novaSpec(t, "001-tiny")
		c.api.Insert(t, "request_specs", legacytest.Row{"id": 1, "instance_uuid": "d0000000-0000-4000-8000-000000000001", "spec": spec},
			legacytest.Row{"id": 2, "instance_uuid": "d0000000-0000-4000-8000-000000000002", "spec": "{"},
			legacytest.Row{"id": 3, "instance_uuid": "d0000000-0000-4000-8000-000000000009", "spec": spec})
		html := filepath.Join(t.TempDir(), "report.html")
		args := []string{"try", "--database", c.cell.URL, "--api-database", c.api.URL, "--cell-uuid", novaCellUUID, "--html", html}
		out, stderr, status := typed(t.Context(), "", append(args, "-o", "json")...)
		var r tryReport
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDone {
			t.Fatalf("status %d, %v\n%s%s", status, err, out, stderr)
		}
		if r.Hosts != 3 || r.Available != 2 || r.Disabled != 1 || r.Instances != 2 || r.NotCounted != 1 || r.Skipped != 1 || len(r.Odd) != 2 || !strings.Contains(r.Odd[1].What, "host4.example") || !strings.Contains(r.Odd[0].What, "bad_uuid") || r.Odd[0].Do == "" {
			t.Errorf("the fleet: %+v, odd %+v", r.Report, r.Odd)
		}
		// 34 instances of 2048 MiB fit on a host with 65536 MiB * 1.2, of which 8192 are used; and 4 instances with
		// 200 GB of swap on one with 1000 GB, of which 100 are used.
		if len(r.Flavors) != 4 || r.Flavors[3].Fits != 8 || r.Flavors[3].DiskGB != 200 || r.Flavors[0].Fits != 0 || r.Flavors[1].Fits != 0 || r.Flavors[2].Fits != 68 || !strings.Contains(r.Flavors[1].Problem, "2 lack trait CUSTOM_NOWHERE") || !strings.Contains(r.Flavors[0].Problem, "200 VCPU is more than the max_unit") || r.Flavors[0].Refusal == nil {
			t.Errorf("what fits: %+v", r.Flavors)
		}
		if len(r.Replays) != 2 || r.Replays[0].Problem == "" || r.Replays[1].Nova != "host1" || r.Replays[1].Problem == "" && (r.Replays[1].Passed != 2 || r.Replays[1].Chosen == "" || r.Replays[1].Rank == 0) {
			t.Errorf("placed again: %+v", r.Replays)
		}
		if r.Replays[1].Problem != "" {
			t.Errorf("nothing is chosen: %s", r.Replays[1].Problem)
		}
		if page := readFile(t, html); !strings.Contains(page, "<td>m1.small</td>") || !strings.Contains(page, "bad_uuid") || !strings.Contains(page, "<td>host1</td>") {
			t.Errorf("the report is\n%s", page)
		}
		out, _, status = typed(t.Context(), "", args[:len(args)-2]...)
		if status != exitDone || !strings.Contains(out, "3 hosts: 2 available, 1 disabled, 0 down; 2 instances, and 1 not counted") || !strings.Contains(out, "1 of 2 placed again") {
			t.Errorf("status %d\n%s", status, out)
		}
	})
}

// placementTables are the tables of Placement's database that cellgate try reads.
const placementTables = `CREATE TABLE resource_providers (id INTEGER, uuid VARCHAR(36), parent_provider_id INTEGER);
CREATE TABLE resource_classes (id INTEGER, name VARCHAR(255));
CREATE TABLE traits (id INTEGER, name VARCHAR(255));
CREATE TABLE resource_provider_traits (resource_provider_id INTEGER, trait_id INTEGER);
CREATE TABLE inventories (id INTEGER, resource_provider_id INTEGER, resource_class_id INTEGER, total INTEGER, reserved INTEGER, min_unit INTEGER, max_unit INTEGER, step_size INTEGER, allocation_ratio FLOAT);
CREATE TABLE allocations (id INTEGER, resource_provider_id INTEGER, consumer_id VARCHAR(36), resource_class_id INTEGER, used INTEGER);
INSERT INTO resource_providers VALUES (1, '` + hostOne + `', NULL), (2, 'e0000000-0000-4000-8000-000000000001', 1);
INSERT INTO resource_classes VALUES (0, 'VCPU'), (1, 'MEMORY_MB'), (2, 'DISK_GB'), (10, 'VGPU');
INSERT INTO traits VALUES (1, 'HW_CPU_X86_AVX2');
INSERT INTO resource_provider_traits VALUES (1, 1);
INSERT INTO inventories VALUES (1, 1, 0, 32, 0, 1, 32, 1, 4.0), (2, 1, 1, 65536, 0, 1, 65536, 1, 1.0), (3, 1, 2, 1000, 0, 1, 1000, 1, 1.0), (4, 2, 10, 4, 0, 1, 4, 1, 1.0);
INSERT INTO allocations VALUES (1, 1, '` + instanceOne + `', 0, 126), (2, 2, '` + instanceOne + `', 10, 1);`

const (
	hostOne     = "a0000000-0000-4000-8000-000000000001"
	instanceOne = "d0000000-0000-4000-8000-000000000001"
)

// The dumps are from yesterday. Hosts are up or down as they were then, and their inventories are
// Placement's.
func TestTry_Dumps_AreReadInAServerOfTheirOwn(t *testing.T) {
	server := mariatest.Start(t)
	c := newNovaCell(t, legacytest.MariaDB, 3, "127.0.0.1:1")
	c.cell.Insert(t, "instances", c.instance(1, "host1"))
	c.cell.Exec(t, "UPDATE services SET last_seen_up = last_seen_up - INTERVAL 24 HOUR, created_at = created_at - INTERVAL 24 HOUR")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = last_seen_up - INTERVAL 1 HOUR WHERE id = 3")
	createTrialTables(c)
	c.api.Insert(t, "request_specs", legacytest.Row{"id": 1, "instance_uuid": instanceOne, "spec": novaSpec(t, "001-tiny")})
	c.api.Exec(t, "UPDATE cell_mappings SET database_connection = '{scheme}://u:p@h/"+path.Base(c.cell.URL)+"?charset=utf8' WHERE id = 1")
	placement := server.NewDatabase(t)
	server.Exec(t, "USE "+placement+"; "+placementTables+`INSERT INTO resource_providers VALUES (3, 'e0000000-0000-4000-8000-000000000009', NULL);
INSERT INTO traits VALUES (2, 'MISC_SHARES_VIA_AGGREGATE'); INSERT INTO resource_provider_traits VALUES (3, 2);
INSERT INTO inventories VALUES (5, 3, 2, 9000, 0, 1, 9000, 1, 1.0);`)
	args := []string{"try", "-o", "json"}
	for _, name := range []string{path.Base(c.cell.URL), path.Base(c.api.URL), placement} {
		text, err := exec.Command("mariadb-dump", "--no-defaults", "--socket="+server.Socket(), "--user=root", "--databases", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("utf8mb4_uca1400_ai_ci"), []byte("utf8mb4_0900_ai_ci"))
		// mysqldump writes the transactions of a server that numbers them.
		text = append([]byte("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77,\n4e11fa47-71ca-11e1-9e33-c80aa9429562:1-5';\n"), text...)
		args = append(args, "--dump", zipped(t, text))
	}
	out, stderr, status := typed(t.Context(), "", args...)
	var r tryReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDone {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, stderr)
	}
	// Placement has no provider for host2 and host3. host1 has 128 VCPUs, of which 126 are used,
	// and a VGPU.
	if r.Hosts != 1 || r.Available != 1 || len(r.Unprovided) != 2 || len(r.Odd) != 3 || !strings.Contains(r.Odd[2].What, "shares DISK_GB") || r.Instances != 1 {
		t.Errorf("the fleet: %+v", r.Report)
	}
	if !r.At.Equal(c.now.Add(-24 * time.Hour)) {
		t.Errorf("services are seen at %v, the newest heartbeat was at %v", r.At, c.now.Add(-24*time.Hour))
	}
	if r.Classes[0] != (try.Class{Name: "VCPU", Used: 126, Capacity: 128}) || r.Flavors[2].Fits != 1 {
		t.Errorf("what fits: %+v, %+v", r.Classes, r.Flavors)
	}
	if len(r.Replays) != 1 || r.Replays[0].Chosen != "host1" || r.Replays[0].Rank != 1 {
		t.Errorf("placed again: %+v", r.Replays)
	}
}

// Placement's API gives the same result as its database.
func TestTry_PlacementAPI_ProvidesHosts(t *testing.T) {
	c := newNovaCell(t, legacytest.MariaDB, 2, "127.0.0.1:1")
	c.cell.Insert(t, "instances", c.instance(1, "host1"))
	createTrialTables(c)
	c.api.Insert(t, "request_specs", legacytest.Row{"id": 1, "instance_uuid": instanceOne, "spec": novaSpec(t, "001-tiny")})
	amount := func(total int64, ratio float64) placement.Inventory {
		return placement.Inventory{Total: total, MinUnit: 1, MaxUnit: total, StepSize: 1, AllocationRatio: ratio}
	}
	const child = "e0000000-0000-4000-8000-000000000001"
	handler := placement.New(placement.Config{TrustLoopback: true}, placement.Deps{Log: slog.New(slog.DiscardHandler), Backend: placementOf{
		providers: []*placement.Provider{
			{UUID: hostOne, Name: "host1", RootUUID: hostOne, Traits: []string{"HW_CPU_X86_AVX2"}, Inventories: map[string]placement.Inventory{
				"VCPU": amount(32, 4), "MEMORY_MB": amount(65536, 1), "DISK_GB": amount(1000, 1),
			}},
			{UUID: child, Name: "gpu", RootUUID: hostOne, ParentUUID: hostOne, Inventories: map[string]placement.Inventory{"VGPU": amount(4, 1)}},
		},
		consumers: []*placement.Consumer{{UUID: instanceOne, Allocations: placement.Allocations{hostOne: {"VCPU": 126}, child: {"VGPU": 1}}}},
	}})
	server := httptest.NewServer(handler)
	defer server.Close()
	args := []string{"try", "--database", c.cell.URL, "--api-database", c.api.URL, "--cell-uuid", novaCellUUID, "-o", "yaml", "--placement"}
	out, stderr, status := typed(t.Context(), "", append(args, server.URL, "--noauth")...)
	var r struct {
		Hosts      int         `yaml:"hosts"`
		Unprovided []string    `yaml:"unprovided"`
		Classes    []try.Class `yaml:"classes"`
		Replays    []struct {
			Chosen string `yaml:"chosen"`
			Rank   int    `yaml:"rank"`
		} `yaml:"replays"`
	}
	if err := yaml.Unmarshal([]byte(out), &r); err != nil || status != exitDone {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, stderr)
	}
	if r.Hosts != 1 || len(r.Unprovided) != 1 || !slices.Contains(r.Classes, try.Class{Name: "VCPU", Used: 126, Capacity: 128}) {
		t.Errorf("the fleet: %+v", r)
	}
	if len(r.Replays) != 1 || r.Replays[0].Chosen != "host1" || r.Replays[0].Rank != 1 {
		t.Errorf("placed again: %+v", r.Replays)
	}
	for want, more := range map[string][]string{
		"OS_AUTH_URL, OS_USERNAME":                           {server.URL},
		"no answer from the Placement at http://127.0.0.1:1": {"http://127.0.0.1:1", "--noauth"},
		"--placement: stands in the place":                   {server.URL, "--placement-database", "mysql://u@h/p"},
	} {
		if _, stderr, status := typed(t.Context(), "", append(args, more...)...); status == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d: %s", more, status, stderr)
		}
	}
}

// placementOf is a read-only Placement.
type placementOf struct {
	placement.Backend
	providers []*placement.Provider
	consumers []*placement.Consumer
}

func (p placementOf) Providers(_ context.Context, q placement.ProviderQuery) (all []*placement.Provider, _ error) {
	for _, one := range p.providers {
		if q.UUIDs == nil || slices.Contains(q.UUIDs, one.UUID) {
			all = append(all, one)
		}
	}
	return all, nil
}

func (p placementOf) Consumers(_ context.Context, q placement.ConsumerQuery) (all []*placement.Consumer, _ error) {
	for _, one := range p.consumers {
		if _, holds := one.Allocations[q.Provider]; holds {
			all = append(all, one)
		}
	}
	return all, nil
}

// A database that nobody writes to may be a stopped replica with old data.
func TestTry_SilentDatabase_WarnsAndSaysTheAge(t *testing.T) {
	c := newNovaCell(t, legacytest.MariaDB, 2, "127.0.0.1:1")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = last_seen_up - INTERVAL 5 HOUR, created_at = created_at - INTERVAL 5 HOUR")
	out, stderr, status := typed(t.Context(), "", "try", "--database", c.cell.URL)
	out = strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"2 hosts: 2 available", "the newest heartbeat of", "any service is 5h0m", "give the database that Nova writes to"} {
		if status != exitDone || !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in\n%s%s", status, want, out, stderr)
		}
	}
}

// Nova keeps request specs without the members of their server groups, and reads these anew. A group that was deleted
// does not count.
func TestTry_ServerGroups_HaveTheirMembers(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 3, "127.0.0.1:1")
		createTrialTables(c)
		c.api.Exec(t, "CREATE TABLE instance_groups (id INTEGER, uuid VARCHAR(36))")
		c.api.Exec(t, "CREATE TABLE instance_group_member (id INTEGER, group_id INTEGER, instance_uuid VARCHAR(255))")
		apart, together, deleted := "96000000-0000-4000-8000-000000000001", "96000000-0000-4000-8000-000000000002", "96000000-0000-4000-8000-000000000003"
		c.api.Insert(t, "instance_groups", legacytest.Row{"id": 1, "uuid": apart}, legacytest.Row{"id": 2, "uuid": together})
		uuid := func(i int) string { return c.instance(i, "")["uuid"].(string) }
		c.api.Insert(t, "instance_group_member", legacytest.Row{"id": 1, "group_id": 1, "instance_uuid": uuid(1)}, legacytest.Row{"id": 2, "group_id": 1, "instance_uuid": uuid(2)},
			legacytest.Row{"id": 3, "group_id": 2, "instance_uuid": uuid(3)}, legacytest.Row{"id": 4, "group_id": 2, "instance_uuid": uuid(2)})
		c.cell.Insert(t, "instances", c.instance(1, "host1"), c.instance(2, "host2"), c.instance(3, "host3"), c.instance(4, "host1"))
		spec := func(i int, group, policy string) legacytest.Row {
			var spec map[string]any
			if err := json.Unmarshal([]byte(novaSpec(t, "001-tiny")), &spec); err != nil {
				t.Fatal(err)
			}
			data := spec["nova_object.data"].(map[string]any)
			data["scheduler_hints"] = map[string]any{"group": []string{group}}
			data["instance_group"] = map[string]any{
				"nova_object.name": "InstanceGroup", "nova_object.namespace": "nova", "nova_object.version": "1.11",
				"nova_object.data": map[string]any{"uuid": group, "policy": policy, "policies": []string{policy}, "members": nil, "hosts": nil, "_rules": map[string]any{}},
			}
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			return legacytest.Row{"id": i, "instance_uuid": uuid(i), "spec": string(text)}
		}
		c.api.Insert(t, "request_specs", spec(4, deleted, "affinity"), spec(3, together, "affinity"), spec(1, apart, "anti-affinity"))
		args := []string{"try", "--database", c.cell.URL, "--api-database", c.api.URL, "--cell-uuid", novaCellUUID, "-o", "json"}
		run := func() (passed []int, odd results) {
			out, stderr, status := typed(t.Context(), "", args...)
			var r tryReport
			if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDone {
				t.Fatalf("status %d, %v\n%s%s", status, err, out, stderr)
			}
			for _, x := range r.Replays {
				passed = append(passed, x.Passed)
			}
			return passed, r.Odd
		}
		if passed, odd := run(); !slices.Equal(passed, []int{3, 1, 2}) || len(odd) > 0 {
			t.Errorf("%v hosts passed, odd %+v", passed, odd)
		}
		c.api.Exec(t, "DROP TABLE instance_group_member")
		if passed, odd := run(); len(passed) != 3 || len(odd) != 1 || !strings.Contains(odd[0].What, "without the other members of their server groups") {
			t.Errorf("%v hosts passed, odd %+v", passed, odd)
		}
	})
}

// With a long report_interval, Nova's own service_down_time tells who is down.
func TestTry_ServiceDownTimeOfNovaConf_Counts(t *testing.T) {
	c := newNovaCell(t, legacytest.MariaDB, 2, "127.0.0.1:1")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = last_seen_up - INTERVAL 2 MINUTE WHERE id = 2")
	conf := novaConfFile(t, "[DEFAULT]\nservice_down_time = 600\n")
	for want, args := range map[string][]string{"1 available, 0 disabled, 1 down": nil, "2 available, 0 disabled, 0 down": {"--nova-conf", conf}} {
		if out, stderr, status := typed(t.Context(), "", append([]string{"try", "--database", c.cell.URL}, args...)...); status != exitDone || !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in\n%s%s", status, want, out, stderr)
		}
	}
}

// zipped writes a text into a new compressed file and returns its path.
func zipped(t *testing.T, text []byte) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.sql.gz")
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(text)
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestTry_NoDump_SaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"PGDMP\x01\x0e": "pg_restore -f dump.sql",
		"hello":         "is no dump of mariadb-dump, mysqldump or pg_dump",
		"-- MariaDB dump\n/*!40101 SET NAMES utf8 */;\nCREATE TABLE `x` (`y` int);\n": "has rows in compute_nodes: dump1",
	} {
		if strings.HasPrefix(text, "--") {
			mariatest.Start(t) // skips if there is no MariaDB
		}
		_, stderr, status := typed(t.Context(), "", "try", "--dump", zipped(t, []byte(text)))
		if status == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("%.10q: status %d: %s", text, status, stderr)
		}
	}
}

func createTrialTables(c *novaCell) {
	c.Helper()
	key := "key"
	if c.api.Kind == legacytest.MariaDB {
		key = "`key`"
	}
	for _, s := range strings.Split(strings.TrimSuffix(apiTables, ";"), ";\n") {
		c.api.Exec(c, strings.ReplaceAll(s, "{key}", key))
	}
}

// novaSpec is the RequestSpec of a bundled sample, as JSON.
func novaSpec(t *testing.T, name string) string {
	t.Helper()
	all, err := samples.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if spec := s.Request.GetNovaRequestSpec(); s.Name == name && spec != nil {
			text, err := spec.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Fatalf("no sample %s with a RequestSpec of Nova's", name)
	return ""
}

func TestTry_SeveralCellsAndNoUUID_SaysSo(t *testing.T) {
	c := newNovaCell(t, legacytest.MariaDB, 1, "127.0.0.1:1")
	_, stderr, status := typed(t.Context(), "", "try", "--database", c.cell.URL, "--api-database", c.api.URL)
	if status != exitRefused || !strings.Contains(stderr, "--cell-uuid: say which") || !strings.Contains(stderr, novaCellUUID+" (cell1), ") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestTry_WithoutDatabase_IsWrongUsage(t *testing.T) {
	if _, stderr, status := typed(t.Context(), "", "try"); status != exitUsage || !strings.Contains(stderr, "--database") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// If a user has no rights on tables that only cellgate try reads, the result is partial, with the
// statement that grants the right.
func TestTry_WithoutRightsOnTables_IsPartialAndNamesTheGrant(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 2, "127.0.0.1:1")
		c.cell.Exec(t, "UPDATE compute_nodes SET uuid = NULL")
		createTrialTables(c)
		user := "trial" + strings.ToLower(string(k)) + c.now.Format("150405")
		tables := []string{"cell_mappings", "host_mappings", "aggregates", "aggregate_hosts", "aggregate_metadata"}
		grant := "GRANT SELECT ON flavors TO " + user + ";"
		if k == legacytest.MariaDB {
			at := user + "@'127.0.0.1'"
			c.cell.Exec(t, "CREATE USER "+at+"; GRANT SELECT ON * TO "+at)
			for _, table := range tables {
				c.api.Exec(t, "GRANT SELECT ON "+table+" TO "+at)
			}
			t.Cleanup(func() { c.cell.Exec(t, "DROP USER "+at) })
			grant = "GRANT SELECT ON " + path.Base(c.api.URL) + ".flavors TO '" + user + "'@'127.0.0.1';"
		} else {
			c.cell.Exec(t, "CREATE USER "+user+"; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+user)
			c.api.Exec(t, "GRANT SELECT ON "+strings.Join(tables, ", ")+" TO "+user)
			t.Cleanup(func() {
				for _, d := range []*legacytest.Database{c.cell, c.api} {
					d.Exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM "+user)
				}
				c.cell.Exec(t, "DROP USER "+user)
			})
		}
		as := strings.NewReplacer("//root@", "//"+user+"@", "//postgres@", "//"+user+"@").Replace
		args := []string{"try", "--database", as(c.cell.URL), "--api-database", as(c.api.URL), "--cell-uuid", novaCellUUID}
		out, stderr, status := typed(t.Context(), "", append(args, "-o", "json")...)
		var r struct {
			Unread []try.Unread `json:"unread"`
			Left   []struct {
				Reason string `json:"reason"`
			} `json:"left_out"`
			Took time.Duration `json:"took_ns"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDone || len(r.Unread) != 3 || r.Unread[0].Grant != grant || len(r.Left) != 2 || r.Took == 0 {
			t.Fatalf("status %d, %v, %+v, want %s\n%s%s", status, err, r, grant, out, stderr)
		}
		out, _, _ = typed(t.Context(), "", args...)
		for _, want := range []string{"2: is no host (bad_uuid)", "table request_specs", "table flavors", "flavor_extra_specs"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

// A dump may have only some tables of the API database.
func TestTry_APIDatabaseWithoutFlavorsAndSpecs_NamesTheTables(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 2, "127.0.0.1:1")
		out, stderr, status := typed(t.Context(), "", "try", "--database", c.cell.URL, "--api-database", c.api.URL, "--cell-uuid", novaCellUUID)
		if status != exitDone || !strings.Contains(out, "2 hosts: 2 available") {
			t.Fatalf("status %d\n%s%s", status, out, stderr)
		}
		words := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{"3: is not in the API", "the whole API database", "table flavors", "flavor_extra_specs", "table request_specs"} {
			if !strings.Contains(words, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

func TestTry_DatabaseThatIsAway_NamesItsFlagAndAddress(t *testing.T) {
	c := newNovaCell(t, legacytest.MariaDB, 1, "127.0.0.1:1")
	for _, at := range []struct {
		want string
		args []string
	}{
		{"--database mysql://127.0.0.1:1/nova: the cell database of try cannot be reached", []string{"--database", "mysql://u@127.0.0.1:1/nova"}},
		{"--api-database mysql://127.0.0.1:1/nova_api: ", []string{"--database", c.cell.URL, "--api-database", "mysql://u:secret@127.0.0.1:1/nova_api"}},
		{"--placement-database postgres://127.0.0.1:1/placement: ", []string{"--database", c.cell.URL, "--placement-database", "postgres://u:secret@127.0.0.1:1/placement"}},
	} {
		_, stderr, status := typed(t.Context(), "", append([]string{"try"}, at.args...)...)
		if status != exitRefused || !strings.Contains(stderr, at.want) || !strings.Contains(stderr, "connection refused") || strings.Contains(stderr, "secret") {
			t.Errorf("%v: status %d: %s", at.args, status, stderr)
		}
	}
}

func TestTry_PasswordInAURL_NamesTheFlag(t *testing.T) {
	_, stderr, status := typed(t.Context(), "", "try", "--database", "mysql://u:secret@127.0.0.1:1/nova")
	if status != exitUsage || !strings.Contains(stderr, "--database: has a password") || strings.Contains(stderr, "secret") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestTryKinds_RowsOfAKind_AreOneRow(t *testing.T) {
	var r tryReport
	for i := range 7 {
		r.Odd = append(r.Odd, diagnose(warned, fmt.Sprintf("is no host (bad_uuid): host%d", i), "do").named(fmt.Sprintf("row %d", i))...)
	}
	r.Odd = append(r.Odd, diagnose(warned, "may not be read", "grant").named("table flavors")...)
	got := r.Kinds()
	want := []oddKind{
		{What: "7: is no host (bad_uuid): host0", Do: "do", Rows: "row 0, row 1, row 2, row 3, row 4, and 2 more"},
		{What: "may not be read", Do: "grant", Rows: "table flavors"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
