package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/gateway/legacy/legacytest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Agents that report another capacity, or other aggregates, than Nova has of their hosts
// are a failure each, with how many there are, the first of them and what to do; a
// warning once the cell is NATIVE.
func TestDoctorUpgradeComparesAgentsWithTheirRows(t *testing.T) {
	k := legacytest.MariaDB
	l := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY}}).registered(1, 2, 3)
	c := newNovaCell(t, k, 3, l.serve(t))
	const rack = "e0000000-0000-4000-8000-000000000001"
	rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 capacity", found, "every agent reports what Nova's rows say, on 3 hosts")
	must(t, rows, "cell1 aggregates of agents", found, "on 3 hosts")
	c.api.Insert(t, "aggregates", legacytest.Row{"id": 1, "uuid": rack, "name": "rack1"})
	c.api.Insert(t, "aggregate_metadata", legacytest.Row{"id": 1, "aggregate_id": 1, "key": "availability_zone", "value": "az1"}, legacytest.Row{"id": 2, "aggregate_id": 1, "key": "filter_tenant_id", "value": "tenantA"})
	c.api.Insert(t, "aggregate_hosts", legacytest.Row{"id": 1, "aggregate_id": 1, "host": "host1"}, legacytest.Row{"id": 2, "aggregate_id": 1, "host": "host2"})
	l.hosts[1].Aggregates = []*cellgatev1.HostAggregate{{Uuid: rack, Name: "rack1", Metadata: map[string]string{"availability_zone": "az1", "filter_tenant_id": "tenantA"}}}
	l.hosts[2].Inventories[0].AllocationRatio = 4
	l.hosts[1].Inventories[1].Reserved = 9000
	rows = diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, "cell1 capacity", unhealthy, "2 of 3 hosts with an agent differ from their rows; host host2: row has 8192 MEMORY_MB in use, reserved ones included, its agent reserves 9000")
	must(t, rows, "cell1 host host3", noted, "row says 256 VCPU (32, ratio 8), its agent reports 128 (32, ratio 4)")
	must(t, rows, "cell1 aggregates of agents", unhealthy, "1 of 3 hosts with an agent differ from their rows; host host1: row says zone az1, its agent no zone")
	l.gate.State = cellgatev1.Gate_NATIVE
	rows = diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 capacity", warned, "2 of 3 hosts")
	must(t, rows, "cell1 aggregates of agents", warned, "1 of 3 hosts")
}

// Agents that report other names or another hypervisor than their rows have are a failure
// each, with both values. What no filter in force reads is a warning, and so is a cell that
// does not say what its agents report.
func TestDoctorUpgradeComparesNamesAndHypervisors(t *testing.T) {
	for _, k := range []legacytest.Kind{legacytest.MariaDB, legacytest.PostgreSQL} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			l := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY}}).registered(1, 2, 3)
			c := newNovaCell(t, k, 3, l.serve(t))
			rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
			must(t, rows, "cell1 names", found, "on 3 hosts")
			must(t, rows, "cell1 hypervisors", found, "on 3 hosts")
			l.hosts[1].ServiceHost = "host2.example.org"
			l.hypervisors = map[string]*cellv1.Hypervisor{novaHostID(1): {Type: "QEMU", SupportedInstances: `[["x86_64", "qemu", "hvm"]]`}}
			rows = diagnoses(t, exitRefused, "upgrade", "--config", c.config)
			must(t, rows, "cell1 names", unhealthy, `1 of 3 hosts with an agent differ from their rows; host host2: row is of service host "host2", its agent reports "host2.example.org"`)
			must(t, rows, "cell1 hypervisors", unhealthy, "1 of 3 hosts with an agent differ from their rows; host host1: row says hypervisor version 6.2.0, its agent none; row supports x86_64/kvm/hvm, its agent reports none such; its agent reports that it supports x86_64/qemu/hvm")
			if do := rows["cell1 names"].Do; !strings.Contains(do, "service_host and nodename") || !strings.Contains(do, "host.json") {
				t.Errorf("it says to do %q", do)
			}
			l.hosts[1].ServiceHost = "host2"
			conf := filepath.Join(t.TempDir(), "nova.conf")
			if err := os.WriteFile(conf, []byte("[filter_scheduler]\nenabled_filters = ComputeFilter\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(c.config)
			if err == nil {
				err = os.WriteFile(c.config, append(text, "  nova_conf: ["+conf+"]\n"...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			rows = diagnoses(t, exitDone, "upgrade", "--config", c.config)
			must(t, rows, "cell1 hypervisors", found, "on 3 hosts")
			must(t, rows, "cell1 hypervisors, unread", warned, "1 of 3 hosts with an agent differ from their rows; host host1: row says hypervisor version 6.2.0")
		})
	}
}

// An agent with a uuid that no row has is a failure, in every state of the gate: its host
// stands beside the one that the row is of. One that is down, or that an operator took out
// of service, is a warning.
func TestDoctorUpgradeFailsForAgentsWithoutARow(t *testing.T) {
	l := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_NATIVE}}).registered(1, 2, 9)
	c := newNovaCell(t, legacytest.MariaDB, 2, l.serve(t))
	const check = "cell1 agent of host2"
	stranger := l.hosts[2]
	stranger.ServiceHost, stranger.Nodename, stranger.Up = "host2", "host2.example", true
	rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, check, unhealthy, "has registered compute node "+novaHostID(9)+", of which there is no row in compute_nodes: it is a host of its own, with all that its machine has, and gets instances")
	must(t, rows, check, unhealthy, "the row of that machine is compute node "+novaHostID(2))
	if do := rows[check].Do; !strings.Contains(do, "cellgate hosts disable "+novaHostID(9)+" --reason") {
		t.Errorf("it says to do %q", do)
	}
	l.gate.State = cellgatev1.Gate_LEGACY
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), check, unhealthy, "no request finds it while the rows answer; a gateway that reads them makes it count as disabled")
	stranger.Admin = &cellgatev1.HostAdmin{State: cellgatev1.HostAdmin_ENABLED, Nova: "disabled in Nova"}
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), check, unhealthy, "it counts as disabled in Nova, and gets no new instance")
	for name, harmless := range map[string]func(){
		"down":           func() { stranger.Up = false },
		"disabled":       func() { stranger.Enabled = false },
		"by an operator": func() { stranger.Admin = &cellgatev1.HostAdmin{State: cellgatev1.HostAdmin_DISABLED} },
	} {
		stranger.Up, stranger.Enabled, stranger.Admin = true, true, &cellgatev1.HostAdmin{State: cellgatev1.HostAdmin_ENABLED}
		must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), check, unhealthy, "of which there is no row")
		harmless()
		t.Log(name)
		must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), check, warned, "it is not up, or out of service")
	}
}
