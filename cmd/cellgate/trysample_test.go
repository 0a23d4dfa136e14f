package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/mariatest"
	"cellgate/samples"
)

var special = regexp.MustCompile(`trait:|CUSTOM_|VGPU|"force_(hosts|nodes)": ?\["|required_traits|member_of|aggregates"`)

var updateSample = flag.Bool("update-sample", false, "write samples/nova.sql.gz anew")

// trySample has a cell's and the API's database of a cloud of 1,000 hosts.
const trySample = "../../samples/nova.sql.gz"

// The README's example: every host counts, and requests are placed again.
func TestTry_BundledSample_PlacesItsRequestsAgain(t *testing.T) {
	mariatest.Start(t) // skipped where there is none
	if *updateSample {
		writeSample(t)
	}
	out, stderr, status := typed(t.Context(), "", "try", "--dump", trySample, "-o", "json")
	var r tryReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDone {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, stderr)
	}
	if r.Hosts != 999 || r.Disabled != 20 || r.Down != 10 || r.Instances != 3996 || len(r.Odd) != 1 || len(r.Flavors) != 6 || len(r.Replays) != 20 {
		t.Errorf("%d hosts, %d disabled, %d down, %d instances, %d odd rows, %d flavors, %d requests", r.Hosts, r.Disabled, r.Down, r.Instances, len(r.Odd), len(r.Flavors), len(r.Replays))
	}
	placed := 0
	for _, x := range r.Replays {
		if x.Problem == "" && x.Chosen != "" {
			placed++
		}
	}
	if placed < 10 { // the others ask for what these hosts do not have
		t.Errorf("%d requests are placed: %+v", placed, r.Replays)
	}
}

// writeSample makes the databases and dumps them.
func writeSample(t *testing.T) {
	const hosts, each = 1000, 4
	server := mariatest.Start(t)
	c := newNovaCell(t, legacytest.MariaDB, hosts, "127.0.0.1:1")
	createTrialTables(c)
	c.api.Exec(t, "DELETE FROM flavors; DELETE FROM flavor_extra_specs; INSERT INTO flavors VALUES (1, 'm1.small', 1, 2048, 20, 0), (2, 'm1.medium', 2, 4096, 40, 0), (3, 'm1.large', 4, 8192, 80, 0), (4, 'r1.large', 4, 32768, 80, 0), (5, 'm1.huge', 64, 262144, 400, 0), (6, 'g1.small', 4, 8192, 40, 0)")
	c.api.Exec(t, "INSERT INTO flavor_extra_specs VALUES (1, 6, 'resources:VGPU', '1')")
	c.api.Exec(t, "UPDATE cell_mappings SET database_connection = '{scheme}://{username}:{password}@db1/"+path.Base(c.cell.URL)+"?charset=utf8' WHERE id = 1")
	c.cell.Exec(t, "UPDATE services SET disabled = true WHERE id % 50 = 0")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = last_seen_up - INTERVAL 1 HOUR WHERE id % 100 = 7")
	c.cell.Exec(t, "UPDATE compute_nodes SET uuid = NULL WHERE id = 13")
	for az := 1; az <= 3; az++ {
		c.api.Insert(t, "aggregates", legacytest.Row{"id": az, "uuid": fmt.Sprintf("a0000000-0000-4000-8000-%012d", 900+az), "name": fmt.Sprintf("az%d", az)})
		c.api.Insert(t, "aggregate_metadata", legacytest.Row{"id": az, "key": "availability_zone", "value": fmt.Sprintf("az%d", az), "aggregate_id": az})
	}
	var members, instances, specs []legacytest.Row
	for i := 1; i <= hosts; i++ {
		members = append(members, legacytest.Row{"id": i, "host": fmt.Sprintf("host%d", i), "aggregate_id": 1 + i%3})
		for k := range each {
			instances = append(instances, c.instance((i-1)*each+k+1, fmt.Sprintf("host%d", i)))
		}
	}
	c.api.Insert(t, "aggregate_hosts", members...)
	c.cell.Insert(t, "instances", instances...)
	all, err := samples.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		spec := s.Request.GetNovaRequestSpec()
		if spec == nil || len(specs) == 40 {
			continue
		}
		text, err := spec.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if special.Match(text) {
			continue // these computes have no traits and devices
		}
		n := len(specs) + 1
		specs = append(specs, legacytest.Row{"id": n, "instance_uuid": fmt.Sprintf("d0000000-0000-4000-8000-%012d", n*97), "spec": string(text)})
	}
	c.api.Insert(t, "request_specs", specs...)
	f, err := os.Create(trySample)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	dump := exec.CommandContext(t.Context(), "mariadb-dump", "--no-defaults", "--socket="+server.Socket(), "--user=root", "--skip-dump-date", "--databases", path.Base(c.cell.URL), path.Base(c.api.URL))
	dump.Stdout = z
	if err := errors.Join(dump.Run(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d request specs, at %s", len(specs), c.now.Format(time.DateTime))
}
