package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// An agent's report misses an instance that Nova's rows have on its host, so others would be placed
// on its room. The gate of its cell waits in SHADOW and names the instance, and so does the doctor.
// Other cells do not wait. When the agent reports the instance, the gate opens by itself.
func TestAnAgentThatDoesNotListAnInstanceHoldsTheGate(t *testing.T) {
	testlong.Only(t, "the gate tests of cell, and TestDoctorUpgradeNamesInstancesWithoutAClaim")
	t.Parallel() // most of it waits
	plan := upgradePlan{kind: legacytest.MariaDB, hosts: 2, settle: time.Second, refresh: 300 * time.Millisecond}
	u := startUpgrade(t, plan)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { u.beat(ctx) })
	defer func() { cancel(); all.Wait() }()
	const instance = "d1000000-0000-4000-8000-000000000001"
	k := u.cells[0].order()[1]
	k.build(instance, 2, 2048, 10)
	u.await("the importer has brought the instance's claim", func(map[string]*cellgatev1.Gate) bool {
		claim, err := cellgatev1.NewClaimsClient(u.conns[0]).GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: instance})
		return err == nil && claim.GetClaim().GetState() == cellgatev1.ClaimState_CONFIRMED
	})
	k.lists(instance)
	out := u.cells[1].order()[0]
	out.service("disabled = true, disabled_reason = 'HW failure'")
	for i, c := range u.cells {
		for _, k := range c.order() {
			k.upgrade(u.agents[i])
		}
	}
	u.await("the other cells are NATIVE", func(states map[string]*cellgatev1.Gate) bool {
		return states["cell2"].GetState() == cellgatev1.Gate_NATIVE && states["cell3"].GetState() == cellgatev1.Gate_NATIVE
	})
	u.keptFrom(out)
	differs := "Nova has instance " + instance + " on it, its agent does not list that"
	want := "1 host that differs from its row: " + k.host + ": " + differs
	u.await("the gate waits for the instance alone", func(states map[string]*cellgatev1.Gate) bool {
		g := states["cell1"]
		if g.GetState() == cellgatev1.Gate_NATIVE {
			t.Fatalf("the gate is %v", g)
		}
		waits := strings.Join(g.GetWaitsFor(), "; ")
		// All other conditions have held for longer than required.
		return g.GetState() == cellgatev1.Gate_SHADOW && waits == want && g.GetRegistered() == 2
	})
	rows := diagnoses(t, exitRefused, "upgrade", "--config", u.configs[0], "--cell", "cell1")
	must(t, rows, "cell1 host "+k.host, unhealthy, differs)
	must(t, rows, "cell1 gate", noted, "it waits for "+want)
	k.lists("")
	u.await("the gate opens", func(states map[string]*cellgatev1.Gate) bool {
		return states["cell1"].GetState() == cellgatev1.Gate_NATIVE
	})
	must(t, diagnoses(t, exitDone, "upgrade", "--config", u.configs[0], "--cell", "cell1"), "cell1 claims", found, "each of ")
}
