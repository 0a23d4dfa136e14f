package main

import (
	"fmt"
	"strings"
	"testing"

	"cellgate/gateway/legacy/legacytest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A nova-compute that is up holds the gate while no row of compute_nodes is its host: each is
// named, with what to do. One that is disabled holds nothing.
func TestDoctorUpgradeNamesServicesWithoutAComputeNode(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 6, (&listingCell{}).registered(1, 2, 3, 4, 5, 6).serve(t))
		for _, change := range []string{
			"UPDATE compute_nodes SET deleted = id WHERE id IN (2, 3, 4)",
			"UPDATE services SET disabled = true WHERE id = 3",
			"UPDATE services SET forced_down = true WHERE id = 4",
			"UPDATE compute_nodes SET free_disk_gb = NULL WHERE id = 5",
			"UPDATE compute_nodes SET uuid = NULL WHERE id = 6",
		} {
			c.cell.Exec(t, change)
		}
		nameless := func(id, version int, host any) legacytest.Row {
			return legacytest.Row{
				"id": id, "host": host, "binary": "nova-compute", "topic": "compute", "report_count": 1, "disabled": false, "forced_down": false, "deleted": 0,
				"version": version, "created_at": c.now, "last_seen_up": c.now,
			}
		}
		c.cell.Insert(t, "services", nameless(70, 61, nil), nameless(71, 55, ""))
		rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
		must(t, rows, "cell1 host host2", unhealthy, "is enabled and up, and has no row in compute_nodes")
		if do := rows["cell1 host host2"].Do; !strings.Contains(do, "--disable host2 nova-compute") {
			t.Errorf("what to do is %q", do)
		}
		must(t, rows, "cell1 host (no host: row 70 of services)", unhealthy, "has no row in compute_nodes")
		must(t, rows, "cell1 host (no host: row 71 of services)", unhealthy, "nova-compute is of version 55")
		for _, id := range []string{"70", "71"} {
			if do := rows["cell1 host (no host: row "+id+" of services)"].Do; do != "openstack compute service delete "+id {
				t.Errorf("what to do of row %s is %q", id, do)
			}
		}
		must(t, rows, "cell1 host host5", unhealthy, "none of its rows in compute_nodes is a host (row 5: not_reported)")
		must(t, rows, "cell1 row 6 of compute_nodes", unhealthy, "bad_uuid")
		for _, host := range []string{"host1", "host3", "host4", "host6"} {
			if d, is := rows["cell1 host "+host]; is {
				t.Errorf("%s has a row, or holds nothing, or its row is told of: %+v", host, d)
			}
		}
	})
}

// Of hosts whose services are old, those that are still their agents' are told apart, and
// those that were taken back, by the dry run too.
func TestDoctorUpgradeSaysWhoSpeaksForAHost(t *testing.T) {
	cell := (&listingCell{}).registered(1, 2, 3)
	cell.hosts[0].Up, cell.hosts[2].Imported = true, true
	cell.registered(6, 7, 8)
	cell.hosts[3].Imported, cell.hosts[4].Imported, cell.hosts[4].Instances = true, true, 2
	cell.registered(9)
	cell.hosts[6].ServiceHost, cell.hosts[6].Nodename, cell.hosts[6].Imported, cell.hosts[6].Instances = "host3", "host3.example", true, 1
	cell.hosts[0].InstancesUnknown, cell.hosts[1].InstancesUnknown = true, true
	c := newNovaCell(t, legacytest.MariaDB, 4, cell.serve(t))
	c.cell.Exec(t, "UPDATE services SET version = 55 WHERE id < 3")
	rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, "cell1 host host1", unhealthy, "the host is still its agent's, which is alive")
	must(t, rows, "cell1 host host2", unhealthy, "the host is still its agent's, which is silent")
	must(t, rows, "cell1 host host3", unhealthy, "was taken back from its agent, version 1")
	must(t, rows, "cell1 host host4", unhealthy, "no request finds it once the cell is NATIVE")
	must(t, rows, "cell1 gone host7", warned, "has no row in compute_nodes any more, and 2 claims")
	must(t, rows, "cell1 gone host3", warned, "compute node "+novaHostID(9)+" was registered again as "+novaHostID(3)+", and has 1 claim still")
	if r := rows["cell1 gone host3"]; strings.Contains(r.Do, "evacuate") || !strings.Contains(r.Do, "need nothing") {
		t.Errorf("what to do of another uuid is %q", r.Do)
	}
	must(t, rows, "cell1 instances of agents", warned, "2 hosts have agents that do not know their instances")
	must(t, rows, "cell1 agent of host8", warned, "it is not up, or out of service")
	for name := range rows {
		if strings.Contains(name, "host6") {
			t.Errorf("a host that is gone, and holds nothing, is told of: %s", name)
		}
	}
	for _, host := range []string{"host1", "host2"} {
		if r := rows["cell1 host "+host]; !strings.Contains(r.Do, "stop its agent") {
			t.Errorf("%s: what to do is %q", host, r.Do)
		}
	}
	text, _, status := typed(t.Context(), "", "import", "--config", c.config, "--cell", "cell1", "--dry-run")
	if status != exitDone {
		t.Fatalf("%d: %s", status, text)
	}
	for _, want := range []string{"hosts: old, left to agents", "agent version 1 speaks for it: stop that", "agent version 1 is silent: a gateway takes the host back soon"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing of %q in %s", want, text)
		}
	}
	if got := strings.Count(text, "host_old_left_to_agent"); got != 2 {
		t.Errorf("%d hosts are old and their agents', want 2: %s", got, text)
	}
	if !strings.Contains(text, "host_changed") { // host3
		t.Errorf("what was taken back is not compared: %s", text)
	}
}

// A resize that waits for its word holds SHADOW by the row of the host that it came from: it
// is named, and what ends it.
func TestDoctorUpgradeNamesMoves(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		cell := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_SHADOW, WaitsFor: []string{"9 of the last 10 comparisons differed, at most 0 of them may"}}}).registered(1, 2)
		c := newNovaCell(t, k, 2, cell.serve(t))
		var all []legacytest.Row
		for i, state := range [][2]any{{"active", nil}, {"resized", nil}, {"active", "resize_migrating"}, {"active", "rebooting"}, {"resized", "resize_reverting"}, {"resized", nil}} {
			row := c.instance(i+1, "host2")
			row["vm_state"], row["task_state"] = state[0], state[1]
			all = append(all, row)
		}
		all[5]["deleted"] = 6
		c.cell.Insert(t, "instances", all...)
		of := func(i int) string { return fmt.Sprintf("cell1 move of %s on host2", all[i-1]["uuid"]) }
		rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
		must(t, rows, "cell1 gate", unhealthy, "comparisons differed")
		must(t, rows, of(2), unhealthy, "neither confirmed nor reverted, and was changed last 1h")
		must(t, rows, of(3), warned, "its task is resize_migrating")
		must(t, rows, of(5), warned, "its task is resize_reverting")
		if do := rows[of(2)].Do; !strings.Contains(do, "openstack server resize confirm "+fmt.Sprint(all[1]["uuid"])) || !strings.Contains(rows["cell1 gate"].Do, "confirm or revert") {
			t.Errorf("what to do is %q, of the gate %q", do, rows["cell1 gate"].Do)
		}
		for _, i := range []int{1, 4, 6} {
			if d, is := rows[of(i)]; is {
				t.Errorf("instance %d is on no move: %+v", i, d)
			}
		}
	})
}

// Instances of rows on agents' hosts that have no claim stand in the way, host by host;
// those of hosts without an agent are on their way, and a cell that does not know the
// question is told of.
func TestDoctorUpgradeNamesInstancesWithoutAClaim(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		cell := (&listingCell{}).registered(1, 2, 3)
		cell.hosts[2].Imported = true
		c := newNovaCell(t, k, 3, cell.serve(t))
		for i := 1; i <= 7; i++ {
			c.cell.Insert(t, "instances", c.instance(i, fmt.Sprintf("host%d", 1+i%2)))
			cell.unclaimed = append(cell.unclaimed, fmt.Sprintf("d0000000-0000-4000-8000-%012d", i))
		}
		null := c.instance(8, "host2") // nobody imports it, and its agent does not list it
		null["vcpus"] = nil
		gone := c.instance(9, "host7") // of a host that there is not
		c.cell.Insert(t, "instances", null, gone, c.instance(10, "host3"), c.instance(11, "host1"))
		for _, i := range []int{8, 9, 10} {
			cell.unclaimed = append(cell.unclaimed, fmt.Sprintf("d0000000-0000-4000-8000-%012d", i))
		}
		rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
		must(t, rows, "cell1 claims on host1", unhealthy, "3 instances of Nova's rows on this agent's host have no claim in the shard")
		must(t, rows, "cell1 claims on host2", unhealthy, "5 instances of Nova's rows")
		must(t, rows, "cell1 claims on host2", unhealthy, "d0000000-0000-4000-8000-000000000001, d0000000-0000-4000-8000-000000000003, d0000000-0000-4000-8000-000000000005, …")
		must(t, rows, "cell1 claims", warned, "1 instance of hosts without an agent")
		if do := rows["cell1 claims on host1"].Do; !strings.Contains(do, "instances_dir") {
			t.Errorf("what to do is %q", do)
		}
		for name, r := range rows {
			if strings.Contains(r.What, "000000000009") && strings.HasPrefix(name, "cell1 claims") {
				t.Errorf("an instance of no host is named: %s %+v", name, r)
			}
		}
		cell.unasked = true
		must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 claims", warned, "the cell does not say")
	})
}
