package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/samples"
)

// apiTables are the tables of Nova's API database that only a trial reads.
const apiTables = `CREATE TABLE flavors (id INTEGER, name VARCHAR(255), vcpus INTEGER, memory_mb INTEGER, root_gb INTEGER, ephemeral_gb INTEGER);
CREATE TABLE request_specs (id INTEGER, instance_uuid VARCHAR(36), spec TEXT);
INSERT INTO flavors VALUES (1, 'm1.small', 2, 2048, 20, 0), (2, 'm1.huge', 200, 2048, 20, 0);`

func TestTry_CellAndAPIDatabase_SaysWhatFitsAndPlacesRequestsAgain(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 4, "127.0.0.1:1")
		c.cell.Insert(t, "instances", c.instance(1, "host1"), c.instance(2, "host2"))
		c.cell.Exec(t, "UPDATE services SET disabled = true WHERE id = 3")
		c.cell.Exec(t, "UPDATE compute_nodes SET uuid = NULL WHERE id = 4")
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
		if r.Hosts != 3 || r.Available != 2 || r.Disabled != 1 || r.Instances != 2 || len(r.Odd) != 1 || !strings.Contains(r.Odd[0].What, "bad_uuid") || r.Odd[0].Do == "" {
			t.Errorf("the fleet: %+v, odd %+v", r.Report, r.Odd)
		}
		// Of a host with 65536 MiB * 1.2, 8192 in use, 34 instances of 2048 MiB fit.
		if len(r.Flavors) != 2 || r.Flavors[0].Fits != 0 || r.Flavors[1].Fits != 68 {
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
		if status != exitDone || !strings.Contains(out, "3 hosts: 2 available, 1 disabled, 0 down; 2 instances") || !strings.Contains(out, "1 of 2 placed again") {
			t.Errorf("status %d\n%s", status, out)
		}
	})
}

func createTrialTables(c *novaCell) {
	c.Helper()
	for _, s := range strings.Split(strings.TrimSuffix(apiTables, ";"), ";\n") {
		c.api.Exec(c, s)
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

func TestTry_WithoutDatabase_IsWrongUsage(t *testing.T) {
	if _, stderr, status := typed(t.Context(), "", "try"); status != exitUsage || !strings.Contains(stderr, "--database") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
