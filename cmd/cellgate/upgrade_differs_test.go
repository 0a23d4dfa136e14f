package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Agents that report another allocation ratio than their rows have, or none of the
// aggregates, hold the gate of their cell at SHADOW, and only its: no request asks for
// the zone, and all compared answers may be the same. Who watches the gate, and the
// doctor, read which hosts and both values. When the agents report what the rows say the
// gate opens by itself.
func TestAgentsThatDifferFromTheirRowsHoldTheGate(t *testing.T) {
	t.Parallel() // most of it waits
	plan := upgradePlan{kind: legacytest.MariaDB, hosts: 2, settle: time.Second, compared: 3, refresh: 300 * time.Millisecond}
	u := startUpgrade(t, plan)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { u.beat(ctx) })
	defer func() { cancel(); all.Wait() }()
	const rack = "e0000000-0000-4000-8000-000000000001"
	zone := map[string]string{"availability_zone": "az1", "filter_tenant_id": "tenantA"}
	in := []*agentv1.Aggregate{{Uuid: rack, Name: "rack1", Metadata: zone}}
	first, second := u.cells[0].order()[0], u.cells[0].order()[1]
	u.api.Insert(t, "aggregates", legacytest.Row{"id": 1, "uuid": rack, "name": "rack1"})
	n := 0
	for key, value := range zone {
		n++
		u.api.Insert(t, "aggregate_metadata", legacytest.Row{"id": n, "aggregate_id": 1, "key": key, "value": value})
	}
	u.api.Insert(t, "aggregate_hosts", legacytest.Row{"id": 1, "aggregate_id": 1, "host": first.host})
	// The first lacks the aggregate, the second has half of what its row says.
	second.reports(func(s *agentv1.FullState) { s.Providers[0].Inventories[0].AllocationRatio = 0.5 })
	for i, c := range u.cells {
		for _, k := range c.order() {
			k.upgrade(u.agents[i])
		}
	}
	u.await("the other cells are NATIVE", func(states map[string]*cellgatev1.Gate) bool {
		return states["cell2"].GetState() == cellgatev1.Gate_NATIVE && states["cell3"].GetState() == cellgatev1.Gate_NATIVE
	})
	u.await("the gate waits for both hosts", func(states map[string]*cellgatev1.Gate) bool {
		g := states["cell1"]
		if g.GetState() == cellgatev1.Gate_NATIVE {
			t.Fatalf("the gate is %v", g)
		}
		return g.GetDifferingHosts() == 2 && strings.Contains(strings.Join(g.GetWaitsFor(), "; "), "2 hosts that differ from their rows: "+first.host+": row says zone az1, its agent no zone")
	})
	rows := diagnoses(t, exitRefused, "upgrade", "--config", u.configs[0], "--cell", "cell1")
	must(t, rows, "cell1 capacity", unhealthy, "1 of 2 hosts with an agent differ from their rows; host "+second.host+": row says 8 VCPU (8, ratio 1), its agent reports 4 (8, ratio 0.5)")
	must(t, rows, "cell1 aggregates of agents", unhealthy, "1 of 2 hosts with an agent differ from their rows; host "+first.host+": row says zone az1")
	first.reports(func(s *agentv1.FullState) { s.Aggregates = in })
	u.await("it waits for the second alone", func(states map[string]*cellgatev1.Gate) bool {
		g := states["cell1"]
		return g.GetDifferingHosts() == 1 && g.GetHostDifferences()[0].GetDetail() == "row says 8 VCPU (8, ratio 1), its agent reports 4 (8, ratio 0.5)"
	})
	second.reports(nil)
	u.await("the gate opens", func(states map[string]*cellgatev1.Gate) bool {
		return states["cell1"].GetState() == cellgatev1.Gate_NATIVE
	})
	must(t, diagnoses(t, exitDone, "upgrade", "--config", u.configs[0], "--cell", "cell1"), "cell1 capacity", found, "on 2 hosts")
}

// Agents that report other names than their rows have, or nothing of what they run, hold the
// gate of their cell: Nova would be answered with names that it does not have, and images
// that name an architecture would find no host. No request shows it before.
func TestAgentsOfOtherNamesOrHypervisorsHoldTheGate(t *testing.T) {
	testlong.Only(t, "TestAgentsThatDifferFromTheirRowsHoldTheGate")
	t.Parallel() // most of it waits
	plan := upgradePlan{kind: legacytest.MariaDB, hosts: 2, settle: time.Second, compared: 3, refresh: 300 * time.Millisecond}
	u := startUpgrade(t, plan)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { u.beat(ctx) })
	defer func() { cancel(); all.Wait() }()
	first, second := u.cells[0].order()[0], u.cells[0].order()[1]
	first.reports(func(s *agentv1.FullState) {
		s.ServiceHost, s.Nodename = first.host+".example.org", first.host+".example.org"
	})
	second.reports(func(s *agentv1.FullState) { s.Facts.SupportedInstances = "" })
	for i, c := range u.cells {
		for _, k := range c.order() {
			k.upgrade(u.agents[i])
		}
	}
	wantFirst := `row is of service host "` + first.host + `", its agent reports "` + first.host + `.example.org"; row is of node "` + first.host + `", its agent reports "` + first.host + `.example.org"`
	const wantSecond = "row supports x86_64/kvm/hvm, its agent reports none such"
	u.await("the gate waits for both hosts", func(states map[string]*cellgatev1.Gate) bool {
		g := states["cell1"]
		if g.GetState() == cellgatev1.Gate_NATIVE {
			t.Fatalf("the gate is %v", g)
		}
		told := map[string]string{}
		for _, d := range g.GetHostDifferences() {
			told[d.GetHost()] = d.GetKind().String() + " " + d.GetDetail()
		}
		return g.GetDifferingHosts() == 2 && told[first.host] == "NAMES "+wantFirst && told[second.host] == "HYPERVISOR "+wantSecond
	})
	rows := diagnoses(t, exitRefused, "upgrade", "--config", u.configs[0], "--cell", "cell1")
	must(t, rows, "cell1 names", unhealthy, "1 of 2 hosts with an agent differ from their rows; host "+first.host+": "+wantFirst)
	must(t, rows, "cell1 hypervisors", unhealthy, "1 of 2 hosts with an agent differ from their rows; host "+second.host+": "+wantSecond)
	first.reports(nil)
	second.reports(nil)
	u.await("the gate opens", func(states map[string]*cellgatev1.Gate) bool {
		return states["cell1"].GetState() == cellgatev1.Gate_NATIVE
	})
	rows = diagnoses(t, exitDone, "upgrade", "--config", u.configs[0], "--cell", "cell1")
	must(t, rows, "cell1 names", found, "on 2 hosts")
	must(t, rows, "cell1 hypervisors", found, "on 2 hosts")
}
