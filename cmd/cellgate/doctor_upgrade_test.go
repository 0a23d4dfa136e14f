package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/gateway/legacy/legacytest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Everything that blocks the upgrade is named, with what to do.
func TestDoctorUpgrade(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 9, (&listingCell{}).registered(1, 3, 4, 5, 6, 7).serve(t))
		conf := filepath.Join(t.TempDir(), "nova.conf")
		if err := os.WriteFile(conf, []byte("[filter_scheduler]\nenabled_filters = ComputeFilter,CoreFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		command := []string{"upgrade", "--config", c.config, "--nova-conf", conf}
		for _, change := range []string{
			"UPDATE services SET version = 55 WHERE id = 2",
			"UPDATE services SET version = NULL, forced_down = true WHERE id = 3",
			"UPDATE services SET host = 'HOST4' WHERE id = 4",
			"UPDATE services SET disabled = true WHERE id = 9",
			"UPDATE compute_nodes SET uuid = NULL WHERE id = 5",
			"UPDATE compute_nodes SET cpu_allocation_ratio = NULL, ram_allocation_ratio = 0.0 WHERE id = 1",
		} {
			c.cell.Exec(t, change)
		}
		c.api.Exec(t, "DELETE FROM host_mappings WHERE id = 6")
		lost := c.instance(2, "host1")
		lost["node"] = "elsewhere"
		null := c.instance(3, "host1")
		null["vcpus"] = nil
		c.cell.Insert(t, "instances", c.instance(1, "host1"), lost, null)

		rows := diagnoses(t, exitRefused, command...)
		must(t, rows, "filters of nova.conf", warned, "CoreFilter is redundant")
		must(t, rows, "cell1 host host2", unhealthy, "nova-compute is of version 55, 60 is required; agent none; last seen ")
		must(t, rows, "cell1 host host3", warned, "nova-compute is of version 0, 60 is required; agent version 1")
		must(t, rows, "cell1 host host3", warned, "it does not block the gate: it is forced down")
		must(t, rows, "cell1 host host8", unhealthy, "no agent reports compute node "+novaHostID(8))
		must(t, rows, "cell1 row 4 of compute_nodes", warned, "no live nova-compute service has exactly this host")
		must(t, rows, "cell1 host HOST4", unhealthy, "(row 4: no_service)")
		must(t, rows, "cell1 row 5 of compute_nodes", unhealthy, "bad_uuid")
		must(t, rows, "cell1 row 6 of compute_nodes", unhealthy, "unmapped")
		must(t, rows, "cell1 cpu_allocation_ratio", noted, "is NULL or 0.0 in 1 row, and counts as 4 there")
		must(t, rows, "cell1 instance d0000000-0000-4000-8000-000000000002 on host1", unhealthy, `its node "elsewhere"`)
		must(t, rows, "cell1 instance d0000000-0000-4000-8000-000000000003 on host1", warned, "is NULL")
		if _, there := rows["cell1 host host9"]; there {
			t.Error("a disabled host needs no agent")
		}
		for name, r := range rows {
			if (r.Status == unhealthy || r.Status == warned) && r.Do == "" {
				t.Errorf("%s: nothing says what to do: %+v", name, r)
			}
		}
		if out, _, status := typed(t.Context(), "", append([]string{"doctor"}, command...)...); status != exitRefused || !strings.Contains(out, "WHAT TO DO") || !strings.Contains(out, "nova-manage cell_v2 discover_hosts") {
			t.Errorf("%d: %s", status, out)
		}
	})
}

func TestDoctorUpgrade_DatabaseOfAnotherCell_Fails(t *testing.T) {
	c := newNovaCell(t, legacytest.MariaDB, 2, (&listingCell{}).registered(1, 2).serve(t))
	c.api.Exec(t, "UPDATE host_mappings SET cell_id = 2")
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 legacy database", unhealthy, "no row of compute_nodes is a host of the cell, which has 2 hosts")
}

// The conditions that a gate waits for are shown, and so is a pin. A host without an agent that
// does not block the gate is no failure.
func TestDoctorUpgrade_LegacyCell_ShowsItsGate(t *testing.T) {
	cell := (&listingCell{}).registered(1, 2)
	cell.gate = &cellgatev1.Gate{
		State: cellgatev1.Gate_SHADOW, Reason: "all are new", WaitsFor: []string{"every condition holds since then"},
	}
	c := newNovaCell(t, legacytest.MariaDB, 3, cell.serve(t))
	c.cell.Exec(t, "UPDATE services SET forced_down = true WHERE id = 3")
	rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 gate", noted, "is SHADOW: all are new; it waits for every condition holds since then")
	must(t, rows, "cell1 host host3", warned, "it does not block the gate: it is forced down")
	cell.gate = &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY, Pin: cellgatev1.Gate_LEGACY, PinReason: "rack 7", WaitsFor: []string{"an operator holds it at LEGACY"}}
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 gate", noted, "pinned: rack 7")
	cell.gate.Pin = cellgatev1.Gate_STATE_UNSPECIFIED
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 gate", noted, "is LEGACY")
	cell.gate = nil
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 gate", noted, "there is none yet")
}

// Nothing blocks the upgrade. A database of services that does not answer does.
func TestDoctorUpgradeIsContent(t *testing.T) {
	k := legacytest.MariaDB
	c := newNovaCell(t, k, 3, (&listingCell{}).registered(1, 2, 3).serve(t))
	rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 services", found, "every one that counts is of version 60 or above")
	must(t, rows, "cell1 agents", found, "have registered all of 3 enabled hosts")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = created_at WHERE id = 3")
	rows = diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 agents", found, "have registered all of 2 enabled hosts that are up")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = CURRENT_TIMESTAMP WHERE id = 3")
	must(t, rows, "cell1 instances", found, "0 instances")
	must(t, rows, "cell1 claims", found, "each of 0 instances has one")
	if r, there := rows["cell1 instances of agents"]; there {
		t.Errorf("all agents know their instances: %+v", r)
	}
	alone := filepath.Join(t.TempDir(), "alone.yaml")
	text := strings.Replace(strings.Replace(readFile(t, c.config), "required_version", "legacy_only: true, required_version", 1), fmt.Sprintf(", replicas: [%q]", c.replica), "", 1)
	if err := os.WriteFile(alone, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, diagnoses(t, exitDone, "upgrade", "--config", alone), "cell1 scheduler", noted, "is legacy_only")
	if _, text, status := typed(t.Context(), "", "import", "--config", alone, "--cell", "cell1"); status != exitUsage || !strings.Contains(text, "is legacy_only") {
		t.Errorf("an import into memory: %d %s", status, text)
	}
	c.cell.Exec(t, "UPDATE services SET last_seen_up = created_at")
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 legacy database", unhealthy, "a copy that is behind, nobody writes to it")
	if _, text, status := typed(t.Context(), "", "import", "--config", c.config, "--cell", "cell1"); status == exitDone || !strings.Contains(text, "nothing is imported from it") {
		t.Errorf("an import from a copy that is behind: %d %s", status, text)
	}
	c.cell.Exec(t, "DROP TABLE services")
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 legacy database", unhealthy, "(schema)")
	if _, _, status := typed(t.Context(), "", "doctor", "upgrade", "--config", c.config, "--cell", "cell7"); status != exitUsage {
		t.Errorf("a cell that is not there: %d", status)
	}
}
