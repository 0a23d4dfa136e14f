package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// measure writes the free disk space, as nova-compute does periodically.
func (k *compute) measure() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _, d := k.has()
	k.cell.write("UPDATE compute_nodes SET updated_at = UTC_TIMESTAMP(), disk_available_least = local_gb - ? WHERE uuid = ?", d+k.other, k.uuid)
}

// runs reports whether an instance is on the compute.
func (k *compute) runs(instance string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.instances[instance] != nil
}

// reserves makes the agent reserve so much disk.
func (k *compute) reserves(gb int32) {
	k.reports(func(s *agentv1.FullState) {
		for _, in := range s.Providers[0].Inventories {
			if in.ResourceClass == "DISK_GB" {
				in.Reserved = gb
			}
		}
	})
}

// Disks are measured only every few seconds, while instances come and go all the time. The gate
// still opens, also if an agent leaves more free than was measured, as Placement does, which does
// not know the measurement. It does not open if an agent reserves more than its row has in use.
func TestMeasuredDisksAreComparedHostByHost(t *testing.T) {
	testlong.Only(t, "the comparison tests of cell")
	t.Parallel() // most of it waits
	const other = 30
	plan := upgradePlan{kind: legacytest.MariaDB, hosts: 4, settle: time.Second, refresh: 300 * time.Millisecond}
	u := startUpgrade(t, plan)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { u.beat(ctx) })
	defer func() { cancel(); all.Wait() }()
	instance := func(n int) string { return fmt.Sprintf("d5000000-0000-4000-8000-%012d", n) }
	for n, c := range u.cells {
		for i, k := range c.order() {
			if n < 2 || i == 0 {
				k.periodic, k.other = true, other
				k.reserves(other)
			}
			k.build(instance(n*100+i), 1, 1024, 20)
			k.measure()
		}
	}
	more, less := u.cells[1].order()[1], u.cells[2].order()[1]
	more.reserves(0)
	less.reserves(50)
	for i, c := range u.cells {
		for _, k := range c.order() {
			k.upgrade(u.agents[i])
		}
	}
	hosts := u.cells[0].order()
	for i, k := range hosts { // each measurement stays for one second of ten
		all.Go(func() {
			hold(ctx, time.Duration(i)*2500*time.Millisecond)
			for n := i; ctx.Err() == nil; {
				k.measure()
				if hold(ctx, time.Second); k.runs(instance(n)) {
					k.destroy(instance(n))
				} else {
					n += 1000
					k.build(instance(n), 1, 1024, 20)
				}
				hold(ctx, 9*time.Second)
			}
		})
	}
	says := func(g *cellgatev1.Gate, text string) bool {
		return g.GetState() == cellgatev1.Gate_SHADOW && strings.Contains(strings.Join(g.GetWaitsFor(), "; "), "1 host that differs from its row: "+text)
	}
	u.await("two cells open and the third does not", func(states map[string]*cellgatev1.Gate) bool {
		if states["cell3"].GetState() == cellgatev1.Gate_NATIVE {
			t.Fatalf("the gate of cell3 is %v", states["cell3"])
		}
		return states["cell1"].GetState() == cellgatev1.Gate_NATIVE && states["cell2"].GetState() == cellgatev1.Gate_NATIVE &&
			says(states["cell3"], less.host+": row has 30 DISK_GB in use, reserved ones included, its agent keeps back 50")
	})
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", u.configs[0], "--cell", "cell3"), "cell3 host "+less.host, unhealthy, "its agent keeps back 50")
	less.reserves(0)
	u.await("it opens", func(states map[string]*cellgatev1.Gate) bool {
		return count(states, cellgatev1.Gate_NATIVE) == 3
	})
}
