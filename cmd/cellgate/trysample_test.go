package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/try"
	"cellgate/internal/mariatest"
)

var updateSample = flag.Bool("update-sample", false, "write samples/nova.sql.gz anew")

// trySample is a dump of a cell's and the API's database of a cloud of 1,000 hosts.
const trySample = "../../samples/nova.sql.gz"

// The README's example: every host counts, and requests are placed again.
func TestTry_BundledSample_PlacesItsRequestsAgain(t *testing.T) {
	mariatest.Start(t) // skips if there is no MariaDB
	if *updateSample {
		writeSample(t)
	}
	out, stderr, status := typed(t.Context(), "", "try", "--dump", trySample, "-o", "json")
	var r tryReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDone {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, stderr)
	}
	if r.Hosts != 999 || r.Disabled != 20 || r.Down != 10 || r.Instances != 4993 || r.NotCounted != 7 || len(r.Odd) != 8 || len(r.Flavors) != 6 || len(r.Replays) != 20 {
		t.Errorf("%d hosts, %d disabled, %d down, %d instances, %d not counted, %d odd rows, %d flavors, %d requests",
			r.Hosts, r.Disabled, r.Down, r.Instances, r.NotCounted, len(r.Odd), len(r.Flavors), len(r.Replays))
	}
	// One request is for a zone whose only host is now disabled. One instance was migrated to
	// another zone.
	if s := r.Summary; s.Placed != 19 || s.Best < 15 || s.Refused != 1 || s.Unread != 0 {
		t.Errorf("placed again: %+v: %+v", s, r.Replays)
	}
	for _, x := range r.Replays {
		if (x.Rejected != "") != (x.Problem == "" && x.Rank == 0) {
			t.Errorf("%s: Nova's host %s has rank %d and does not pass %q", x.Instance, x.Nova, x.Rank, x.Rejected)
		}
	}
	if !slices.ContainsFunc(r.Replays, func(x try.Replay) bool { return x.Rejected == "ComputeFilter(down)" }) {
		t.Errorf("no host of Nova's is said to be down: %+v", r.Replays)
	}
}

// sampleFlavor is a flavor of the sample, and how many of 10 instances have it.
type sampleFlavor struct {
	name                string
	vcpus, memory, disk int
	of10                int
}

var sampleFlavors = []sampleFlavor{
	{"m1.small", 1, 2048, 20, 4},
	{"m1.medium", 2, 4096, 40, 3},
	{"m1.large", 4, 8192, 80, 2},
	{"r1.large", 4, 32768, 80, 1},
	{"m1.huge", 64, 262144, 400, 0},
	{"g1.small", 4, 8192, 40, 0},
}

// sampleCloud places instances one after the other as Nova does by default: by free VCPUs, memory
// and disk, each normalized to 0…1 over the hosts that pass.
type sampleCloud struct {
	zones []string
	free  [3][]int
	in    []int // zone, by host
}

// place returns the index of an instance's host in a zone. A zone below 0 means any.
func (c *sampleCloud) place(zone int, f sampleFlavor) int {
	var pass []int
	for h, in := range c.in {
		if in == zone || zone < 0 && c.zones[in] != "edge" && (h+1)%50 != 0 {
			pass = append(pass, h)
		}
	}
	weights := make([]float64, len(pass))
	for _, free := range c.free {
		least, most := free[pass[0]], free[pass[0]]
		for _, h := range pass {
			least, most = min(least, free[h]), max(most, free[h])
		}
		for i, h := range pass {
			weights[i] += float64(free[h]-least) / float64(max(most-least, 1))
		}
	}
	best := pass[slices.Index(weights, slices.Max(weights))]
	for n, amount := range []int{f.vcpus, f.memory, f.disk} {
		c.free[n][best] -= amount
	}
	return best
}

// sampleSpec returns an instance's RequestSpec, as Nova stores it.
func sampleSpec(t *testing.T, uuid, zone string, f sampleFlavor) string {
	var spec map[string]any
	if err := json.Unmarshal([]byte(novaSpec(t, "001-tiny")), &spec); err != nil {
		t.Fatal(err)
	}
	data := spec["nova_object.data"].(map[string]any)
	data["instance_uuid"], data["availability_zone"] = uuid, nil
	if zone != "" {
		data["availability_zone"] = zone
	}
	flavor := data["flavor"].(map[string]any)["nova_object.data"].(map[string]any)
	flavor["name"], flavor["vcpus"], flavor["memory_mb"], flavor["root_gb"] = f.name, f.vcpus, f.memory, f.disk
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writeSample creates the databases and dumps them. A scheduler has placed the instances in order.
// Of those with a spec, one is in a zone whose only host is now disabled, and one was
// force-migrated to another zone than it asked for.
func writeSample(t *testing.T) {
	const hosts, count, specced = 1000, 5000, 40
	server := mariatest.Start(t)
	c := newNovaCell(t, legacytest.MariaDB, hosts, "127.0.0.1:1")
	createTrialTables(c)
	c.api.Exec(t, "DELETE FROM flavors; DELETE FROM flavor_extra_specs; INSERT INTO flavor_extra_specs VALUES (1, 6, 'resources:VGPU', '1')")
	for i, f := range sampleFlavors {
		c.api.Insert(t, "flavors", legacytest.Row{"id": i + 1, "name": f.name, "vcpus": f.vcpus, "memory_mb": f.memory, "root_gb": f.disk, "ephemeral_gb": 0, "swap": 0})
	}
	c.api.Exec(t, "UPDATE cell_mappings SET database_connection = '{scheme}://{username}:{password}@db1/"+path.Base(c.cell.URL)+"?charset=utf8' WHERE id = 1")
	c.cell.Exec(t, "UPDATE services SET disabled = true WHERE id % 50 = 0")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = last_seen_up - INTERVAL 1 HOUR WHERE id % 100 = 7")
	c.cell.Exec(t, "UPDATE compute_nodes SET uuid = NULL WHERE id = 13")
	random := rand.New(rand.NewPCG(1, 1))
	cloud := &sampleCloud{zones: []string{"az1", "az2", "az3", "edge"}, free: [3][]int{make([]int, hosts), make([]int, hosts), make([]int, hosts)}, in: make([]int, hosts)}
	for n, zone := range cloud.zones {
		c.api.Insert(t, "aggregates", legacytest.Row{"id": n + 1, "uuid": fmt.Sprintf("a0000000-0000-4000-8000-%012d", 901+n), "name": zone})
		c.api.Insert(t, "aggregate_metadata", legacytest.Row{"id": n + 1, "key": "availability_zone", "value": zone, "aggregate_id": n + 1})
	}
	var members, instances, specs []legacytest.Row
	for h := range hosts {
		cloud.in[h] = h % 3
		if h == hosts-1 {
			cloud.in[h] = 3
		}
		members = append(members, legacytest.Row{"id": h + 1, "host": fmt.Sprintf("host%d", h+1), "aggregate_id": 1 + cloud.in[h]})
	}
	for id := 1; id <= count; id++ {
		part := random.IntN(10)
		at := slices.IndexFunc(sampleFlavors, func(f sampleFlavor) bool { part -= f.of10; return part < 0 })
		f, zone, asked := sampleFlavors[at], -1, ""
		if random.IntN(5) < 2 {
			zone = random.IntN(3)
		}
		if id == count-7 {
			zone = 3
		}
		if zone >= 0 {
			asked = cloud.zones[zone]
		}
		if id == count-12 {
			zone, asked = 1, "az1"
		}
		row := c.instance(id, fmt.Sprintf("host%d", cloud.place(zone, f)+1))
		row["vcpus"], row["memory_mb"], row["root_gb"], row["instance_type_id"] = f.vcpus, f.memory, f.disk, at+1
		instances = append(instances, row)
		if id > count-specced {
			specs = append(specs, legacytest.Row{"id": len(specs) + 1, "instance_uuid": row["uuid"], "spec": sampleSpec(t, row["uuid"].(string), asked, f)})
		}
	}
	c.api.Insert(t, "aggregate_hosts", members...)
	c.cell.Insert(t, "instances", instances...)
	c.cell.Exec(t, `UPDATE compute_nodes c JOIN (SELECT host, SUM(vcpus) v, SUM(memory_mb) m, SUM(root_gb) d FROM instances GROUP BY host) i ON i.host = c.host
SET vcpus_used = v, memory_mb_used = 512 + m, free_ram_mb = 65024 - m, local_gb_used = d, free_disk_gb = 1000 - d, disk_available_least = 1000 - d`)
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
