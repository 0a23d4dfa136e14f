package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Agents whose files have other allocation ratios than the rows, and no aggregates, do not hold the
// gate: aggregates and ratios are Nova's in every state. In NATIVE, placements follow when Nova
// changes them. The different ratio is a finding.
func TestNativeCell_NovaAggregatesAndRatiosChange_PlacementsFollow(t *testing.T) {
	t.Parallel() // most of it waits
	plan := upgradePlan{kind: legacytest.MariaDB, hosts: 2, settle: time.Second, refresh: 300 * time.Millisecond}
	u := startUpgrade(t, plan)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { u.beat(ctx) })
	defer func() { cancel(); all.Wait() }()
	const rack = "e0000000-0000-4000-8000-000000000001"
	first, second := u.cells[0].order()[0], u.cells[0].order()[1]
	second.reports(func(s *agentv1.FullState) { s.Providers[0].Inventories[0].AllocationRatio = 0.5 })
	for i, c := range u.cells {
		for _, k := range c.order() {
			k.upgrade(u.agents[i])
		}
	}
	u.await("the gates open", func(states map[string]*cellgatev1.Gate) bool {
		return count(states, cellgatev1.Gate_NATIVE) == 3
	})
	follows := func(what string, done func() bool) {
		t.Helper()
		began := time.Now()
		u.await(what, func(map[string]*cellgatev1.Gate) bool { return done() })
		t.Logf("%s: %v after Nova's row", what, time.Since(began).Round(time.Millisecond))
	}
	isIn := func(zone string) func() bool { return func() bool { return u.placesIn(zone) == first.host } }

	if got := u.placesIn("az1"); got != "" {
		t.Fatalf("before the zone is there, %s has it", got)
	}
	u.api.Insert(t, "aggregates", legacytest.Row{"id": 1, "uuid": rack, "name": "rack1"})
	u.api.Insert(t, "aggregate_metadata", legacytest.Row{"id": 1, "aggregate_id": 1, "key": "availability_zone", "value": "az1"})
	u.api.Insert(t, "aggregate_hosts", legacytest.Row{"id": 1, "aggregate_id": 1, "host": first.host})
	follows("a host that is added is placed on by its zone", isIn("az1"))
	u.api.Exec(t, "UPDATE aggregate_metadata SET value = 'az2' WHERE id = 1")
	follows("the zone is another one", func() bool { return u.placesIn("az1") == "" && isIn("az2")() })
	u.api.Exec(t, "DELETE FROM aggregate_hosts WHERE id = 1")
	follows("a host that is removed has no zone", func() bool { return u.placesIn("az2") == "" })

	ratio := func(want float64) func() bool {
		return func() bool {
			i := u.host(second).GetInventories()
			return len(i) > 0 && i[0].GetAllocationRatio() == want
		}
	}
	follows("the ratio is that of the row", ratio(1))
	u.cells[0].write("UPDATE compute_nodes SET cpu_allocation_ratio = 4, updated_at = UTC_TIMESTAMP() WHERE uuid = ?", second.uuid)
	follows("the ratio is another one", ratio(4))
}

// placesIn gives the host that an instance in a zone would be placed on, "" for none.
func (u *upgradeSystem) placesIn(zone string) string {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), testwait.Limit)
	defer cancel()
	out, err := cellgatev1.NewSchedulerClient(u.conns[0]).SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		RequestId: uuid.NewString(), InstanceUuids: []string{uuid.NewString()}, DryRun: true,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: 64, RootGb: 1}, ProjectId: "demo", AvailabilityZone: zone,
		}},
	})
	if err != nil {
		return ""
	}
	return out.GetDestinations()[0].GetSelected().GetServiceHost()
}

// Agents whose reports have other names than their rows, or no hypervisor, hold the gate of their
// cell. Otherwise Nova would get names that it does not have, and images that require an
// architecture would find no host. No earlier request would show it.
func TestAgentsOfOtherNamesOrHypervisorsHoldTheGate(t *testing.T) {
	testlong.Only(t, "TestNativeCell_NovaAggregatesAndRatiosChange_PlacementsFollow")
	t.Parallel() // most of it waits
	plan := upgradePlan{kind: legacytest.MariaDB, hosts: 2, settle: time.Second, refresh: 300 * time.Millisecond}
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
		details := map[string]string{}
		for _, d := range g.GetHostDifferences() {
			details[d.GetHost()] = d.GetKind().String() + " " + d.GetDetail()
		}
		return g.GetDifferingHosts() == 2 && details[first.host] == "NAMES "+wantFirst && details[second.host] == "HYPERVISOR "+wantSecond
	})
	rows := diagnoses(t, exitRefused, "upgrade", "--config", u.configs[0], "--cell", "cell1")
	must(t, rows, "cell1 differences", unhealthy, "2 hosts with an agent")
	must(t, rows, "cell1 host "+first.host, unhealthy, wantFirst)
	must(t, rows, "cell1 host "+second.host, unhealthy, wantSecond)
	first.reports(nil)
	second.reports(nil)
	u.await("the gate opens", func(states map[string]*cellgatev1.Gate) bool {
		return states["cell1"].GetState() == cellgatev1.Gate_NATIVE
	})
	diagnoses(t, exitDone, "upgrade", "--config", u.configs[0], "--cell", "cell1")
}
