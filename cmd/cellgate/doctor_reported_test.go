package main

import (
	"strings"
	"testing"

	"cellgate/gateway/legacy/legacytest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Each difference that the cell finds in SHADOW is a failure of its host, with what to do. So are
// hosts that the cell counts but does not name.
func TestDoctorUpgrade_AgentsDifferFromTheirRows_NamesEachHost(t *testing.T) {
	l := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_SHADOW}}).registered(1, 2)
	c := newNovaCell(t, legacytest.MariaDB, 2, l.serve(t))
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 differences", found, "every agent that reports agrees with Nova's rows")
	l.gate.DifferingHosts = 20
	for kind, is := range differenceRemedies {
		l.gate.HostDifferences = append(l.gate.HostDifferences, &cellgatev1.HostDifference{Kind: kind, Host: "host of " + kind.String(), Detail: "it has " + kind.String()})
		if is == "" {
			t.Errorf("%v: nothing is said to do", kind)
		}
	}
	rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, "cell1 differences", unhealthy, "20 hosts with an agent that does not report what Nova's rows say")
	for kind, do := range differenceRemedies {
		check := "cell1 host host of " + kind.String()
		must(t, rows, check, unhealthy, "it has "+kind.String())
		if rows[check].Do != do {
			t.Errorf("%s: it says to do %q", check, rows[check].Do)
		}
	}
	l.gate = &cellgatev1.Gate{State: cellgatev1.Gate_NATIVE}
	if r, there := diagnoses(t, exitDone, "upgrade", "--config", c.config)["cell1 differences"]; there {
		t.Errorf("of a NATIVE cell it says %+v", r)
	}
}

// An agent with a uuid that no row has is a failure in every gate state, because its host exists
// beside the row's host. If the agent is down, or an operator took the host out of service, it is a
// warning.
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
