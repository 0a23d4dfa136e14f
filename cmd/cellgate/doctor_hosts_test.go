package main

import (
	"fmt"
	"strings"
	"testing"

	"cellgate/gateway/legacy/legacytest"
)

// A nova-compute that is up blocks the gate if no row of compute_nodes is its host. Each is named,
// with what to do. A disabled one does not block.
func TestDoctorUpgradeNamesServicesWithoutAComputeNode(t *testing.T) {
	c := newNovaCell(t, legacytest.MariaDB, 6, (&listingCell{}).registered(1, 2, 3, 4, 5, 6).serve(t))
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
}

// For hosts with old services, the doctor shows whether they have an agent. For hosts without a
// row, it shows their claims and where those instances are now.
func TestDoctorUpgradeSaysWhoSpeaksForAHost(t *testing.T) {
	cell := (&listingCell{}).registered(1, 2, 3, 6, 7, 8, 9)
	for i := range cell.hosts {
		if h := cell.hosts[i]; i > 2 && i != 5 { // host6, host7 and host9 have no agent
			h.AgentVersion, h.Imported = 0, true
		}
	}
	cell.hosts[0].Up, cell.hosts[2].Imported, cell.hosts[4].Instances = true, true, 2
	cell.hosts[6].ServiceHost, cell.hosts[6].Nodename, cell.hosts[6].Instances = "host3", "host3.example", 1
	cell.hosts[0].InstancesUnknown, cell.hosts[1].InstancesUnknown = true, true
	c := newNovaCell(t, legacytest.MariaDB, 4, cell.serve(t))
	c.cell.Exec(t, "UPDATE services SET version = 55 WHERE id IN (1, 2)")
	c.cell.Exec(t, "UPDATE services SET version = 56 WHERE id = 4")
	rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	for _, host := range []string{"host1", "host2"} {
		must(t, rows, "cell1 host "+host, unhealthy, "nova-compute is of version 55, 60 is required; agent version 1")
		if r := rows["cell1 host "+host]; r.Do != "upgrade nova-compute there" {
			t.Errorf("%s: what to do is %q", host, r.Do)
		}
	}
	must(t, rows, "cell1 host host4", unhealthy, "nova-compute is of version 56, 60 is required; agent none")
	if r, there := rows["cell1 host host3"]; there {
		t.Errorf("a host whose agent is heard while Nova's rows speak for it: %+v", r)
	}
	must(t, rows, "cell1 gone host7", warned, "has no row in compute_nodes any more, and 2 claims")
	must(t, rows, "cell1 gone host3", warned, "compute node "+novaHostID(9)+" was registered again as "+novaHostID(3)+", and has 1 claim still")
	if r := rows["cell1 gone host3"]; strings.Contains(r.Do, "evacuate") || !strings.Contains(r.Do, "need nothing") {
		t.Errorf("what to do of another uuid is %q", r.Do)
	}
	must(t, rows, "cell1 instances of agents", warned, "2 hosts whose agent does not know its instances")
	must(t, rows, "cell1 agent of host8", warned, "it is not up, or out of service")
	for name := range rows {
		if strings.Contains(name, "host6") {
			t.Errorf("a host that is gone, and holds nothing, is told of: %s", name)
		}
	}
	c.cell.Exec(t, "UPDATE services SET version = 61")
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 host host4", unhealthy, "no agent reports compute node "+novaHostID(4)+": Nova's rows speak for it, and the gate waits")
}

// Instances without a claim on hosts with agents block the upgrade, and are listed by host. Those
// on hosts without an agent will be imported. A cell that does not know the query is reported.
func TestDoctorUpgradeNamesInstancesWithoutAClaim(t *testing.T) {
	cell := (&listingCell{}).registered(1, 2, 3)
	cell.hosts[1].Imported, cell.hosts[2].Imported, cell.hosts[2].AgentVersion = true, true, 0
	c := newNovaCell(t, legacytest.MariaDB, 3, cell.serve(t))
	for i := 1; i <= 7; i++ {
		c.cell.Insert(t, "instances", c.instance(i, fmt.Sprintf("host%d", 1+i%2)))
		cell.unclaimed = append(cell.unclaimed, fmt.Sprintf("d0000000-0000-4000-8000-%012d", i))
	}
	null := c.instance(8, "host2") // not importable, and not in its agent's report
	null["vcpus"] = nil
	gone := c.instance(9, "host7") // on a host that does not exist
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
	if do := rows["cell1 claims on host2"].Do; !strings.Contains(do, "run a gateway") {
		t.Errorf("what to do where Nova's rows speak for the host is %q", do)
	}
	for name, r := range rows {
		if strings.Contains(r.What, "000000000009") && strings.HasPrefix(name, "cell1 claims") {
			t.Errorf("an instance of no host is named: %s %+v", name, r)
		}
	}
	cell.unasked = true
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 claims", warned, "the cell does not say")
}
