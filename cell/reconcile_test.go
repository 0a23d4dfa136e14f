package cell

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	hostagent "cellgate/agent"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// The tests' times: a comparison every 5 s, a finding after 30 s, a release after 2 min.
const (
	lookEvery, findAfter, releaseAfter = 5 * time.Second, 30 * time.Second, 2 * time.Minute
	// found and gone are times after which the finding and the release must have happened.
	found, gone = findAfter + 3*lookEvery, releaseAfter + 3*lookEvery
)

func soon(c *Config) {
	c.ReconcileInterval, c.ReconcileGrace, c.ReconcileRelease = lookEvery, findAfter, releaseAfter
}

// machine is a host with a real agent, which reports to replicas.
type machine struct {
	t        testing.TB
	n        int
	vcpus    int32
	replicas []*testCell
	host     *hostagent.Host
	// runs are the host's instances, with their VCPUs.
	runs map[int]int32
	// down: the agent does not run.
	down bool
	stop func()
}

// boot starts a host of so many VCPUs, without instances, and its agent.
func boot(t testing.TB, n int, vcpus int32, replicas ...*testCell) *machine {
	m := &machine{t: t, n: n, vcpus: vcpus, replicas: replicas, runs: map[int]int32{}}
	m.start()
	t.Cleanup(func() { m.stop() })
	return m
}

func (m *machine) state() *agentv1.FullState {
	s := plainState(m.n, m.vcpus)
	for n, vcpus := range m.runs {
		s.Instances = append(s.Instances, &agentv1.Instance{InstanceUuid: consumerUUID(n), Usages: []*agentv1.Usage{
			{ProviderUuid: hostUUID(m.n), ResourceClass: "VCPU", Amount: vcpus},
		}})
	}
	return s
}

// start begins an incarnation of the agent.
func (m *machine) start() {
	m.host = hostagent.NewHost(m.state())
	m.resume()
}

// resume connects the agent's current incarnation, which has no stream.
func (m *machine) resume() {
	m.down = false
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for _, r := range m.replicas {
		rep := hostagent.NewReporter(hostagent.ReporterDeps{Client: r.hosts, Replica: r.cell.cfg.Replica}, m.host)
		ended.Go(func() { _ = rep.Run(ctx) })
	}
	m.stop = func() { cancel(); ended.Wait() }
	calm()
}

// run starts an instance on the host. With 0 VCPUs it ends the instance.
func (m *machine) run(instance int, vcpus int32) {
	if m.runs[instance] = vcpus; vcpus == 0 {
		delete(m.runs, instance)
	}
	m.host.Put(m.state())
	calm()
}

// calm waits until all work in progress is done.
func calm() { time.Sleep(time.Second); synctest.Wait() }

func (r *testCell) findings() *cellv1.ListFindingsResponse {
	r.t.Helper()
	out, err := r.cells.ListFindings(context.Background(), &cellv1.ListFindingsRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// stand checks the kinds of the unresolved findings, and returns them.
func (r *testCell) stand(want ...cellgatev1.Finding_Kind) []*cellgatev1.Finding {
	r.t.Helper()
	var stand []*cellgatev1.Finding
	for _, f := range r.findings().GetFindings() {
		if f.GetRepairedAt() == nil {
			stand = append(stand, f)
		}
	}
	same := len(stand) == len(want)
	for i := range want {
		same = same && stand[i].GetKind() == want[i]
	}
	if !same {
		r.t.Fatalf("findings are %v, want %v", stand, want)
	}
	return stand
}

// repaired returns the repaired findings of a kind.
func (r *testCell) repaired(kind cellgatev1.Finding_Kind) (list []*cellgatev1.Finding) {
	r.t.Helper()
	for _, f := range r.findings().GetFindings() {
		if f.GetRepairedAt() != nil && f.GetKind() == kind {
			list = append(list, f)
		}
	}
	return list
}

// claimStateIn is a claim's state in the shard.
func claimStateIn(t testing.TB, store shard.Store, id string) shard.ClaimState {
	t.Helper()
	page, err := store.FindClaims(context.Background(), shard.ClaimQuery{ClaimIDs: []string{id}, Ended: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Claims) == 0 {
		return ""
	}
	return page.Claims[0].State
}

const (
	orphaned     = cellgatev1.Finding_ORPHANED_CLAIM
	withoutClaim = cellgatev1.Finding_UNCLAIMED_INSTANCE
	elsewhere    = cellgatev1.Finding_CLAIMED_ELSEWHERE
)

// An instance has ended on its host, but nobody released its claim.
func TestTheClaimOfAnInstanceThatWentIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one, two := start(t, store, named("r1"), soon), start(t, store, named("r2"), soon)
		m := boot(t, 1, 8, one, two)
		one.must(newClaim("k1", 1, 1, 3), confirm("k1", 1), newClaim("k2", 2, 1, 1), confirm("k2", 2))
		m.run(1, 3)
		m.run(2, 1)
		time.Sleep(found)
		one.stand()
		m.run(1, 0)
		time.Sleep(findAfter - 2*lookEvery)
		one.stand()
		time.Sleep(5 * lookEvery)
		for _, r := range []*testCell{one, two} {
			f := r.stand(orphaned)[0]
			if f.GetClaimId() != "k1" || f.GetConsumerUuid() != consumerUUID(1) || f.GetServiceHost() != "host-00001" || !strings.Contains(f.GetRepair(), "reconcile_release") {
				t.Errorf("found %v", f)
			}
		}
		if s := claimStateIn(t, store, "k1"); s != shard.Confirmed {
			t.Errorf("before its time the claim is %s", s)
		}
		time.Sleep(gone)
		if a, b := claimStateIn(t, store, "k1"), claimStateIn(t, store, "k2"); a != shard.Released || b != shard.Confirmed {
			t.Errorf("the claims are %s and %s", a, b)
		}
		did := 0
		for _, r := range []*testCell{one, two} {
			r.stand()
			for _, f := range r.repaired(orphaned) {
				if did++; f.GetClaimId() != "k1" || f.GetRepair() != "released" {
					t.Errorf("repaired %v", f)
				}
			}
		}
		if did != 1 {
			t.Errorf("%d replicas released it", did)
		}
	})
}

// A claim is kept if its host has not reported that the instance ended, or may be wrong.
func TestAClaimWhoseInstanceMayBeThereStays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		cause  func(r *testCell, m *machine)
		claims int
		why    string
	}{
		"it was never there": {
			cause:  func(r *testCell, m *machine) { r.must(newClaim("k1", 1, 1, 1), confirm("k1", 1)) },
			claims: 1, why: "no report ever had",
		},
		"it went while the agent did not run": {
			cause: func(r *testCell, m *machine) {
				r.must(newClaim("k1", 1, 1, 1), confirm("k1", 1))
				m.run(1, 1)
				m.stop()
				delete(m.runs, 1)
				m.start()
			},
			claims: 1, why: "no report of this incarnation",
		},
		"more than half went at once": {
			cause: func(r *testCell, m *machine) {
				for n := 1; n <= 6; n++ {
					id := fmt.Sprintf("k%d", n)
					r.must(newClaim(id, n, 1, 1), confirm(id, n))
					m.run(n, 1)
				}
				clear(m.runs)
				m.run(6, 1)
			},
			claims: 5, why: "more than half",
		},
		"repairs are off": {
			change: func(c *Config) { c.ReconcileReportOnly = true },
			cause: func(r *testCell, m *machine) {
				r.must(newClaim("k1", 1, 1, 1), confirm("k1", 1))
				m.run(1, 1)
				m.run(1, 0)
			},
			claims: 1, why: "reconcile_repair",
		},
		"its host fell silent": {
			cause: func(r *testCell, m *machine) {
				r.must(newClaim("k1", 1, 1, 1), confirm("k1", 1))
				m.run(1, 1)
				m.run(1, 0)
				time.Sleep(found)
				m.stop()
			},
			claims: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				change := []func(*Config){soon}
				if c.change != nil {
					change = append(change, c.change)
				}
				r := start(t, store, change...)
				m := boot(t, 1, 8, r)
				c.cause(r, m)
				time.Sleep(5 * releaseAfter)
				want := make([]cellgatev1.Finding_Kind, c.claims)
				for i := range want {
					want[i] = orphaned
				}
				for _, f := range r.stand(want...) {
					if !strings.Contains(f.GetRepair(), c.why) || claimStateIn(t, store, f.GetClaimId()) != shard.Confirmed {
						t.Errorf("found %v", f)
					}
				}
			})
		})
	}
}

// An agent that does not know its instances causes no findings about them.
func TestUnknownInstancesAreNoFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		m := boot(t, 1, 8, r)
		s := plainState(1, 8)
		s.InstancesUnknown = true
		m.host.Put(s)
		calm()
		r.must(newClaim("k1", 1, 1, 1), confirm("k1", 1))
		time.Sleep(5 * releaseAfter)
		r.stand()
		if out := r.findings(); out.GetHosts() != 1 || out.GetHostsCompared() != 0 || out.GetLookedAt() == nil {
			t.Errorf("looked at %v", out)
		}
	})
}

// While an instance moves, it has two claims, and the source host may not run it.
func TestMovesAreNoFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, soon)
		a, b := boot(t, 1, 8, r), boot(t, 2, 8, r)
		r.must(newClaim("k1", 1, 1, 1), confirm("k1", 1))
		a.run(1, 1)
		long := moving("k2", 2)
		long.GetClaim().Ttl.Seconds = 3600
		r.must(long)
		a.run(1, 0)
		time.Sleep(4 * releaseAfter)
		r.stand()
		if s := claimStateIn(t, store, "k1"); s != shard.Confirmed {
			t.Errorf("the source is %s", s)
		}
		b.run(1, 1)
		time.Sleep(found)
		r.stand()
		if s := claimStateIn(t, store, "k1"); s != shard.Released {
			t.Errorf("after the arrival the source is %s", s)
		}
		// A migration holds the source of the next one.
		r.must(transfer("k2", 1, 9))
		b.run(1, 0)
		time.Sleep(gone)
		r.stand()
		if s := claimStateIn(t, store, "k2"); s != shard.Confirmed {
			t.Errorf("a migration's claim is %s", s)
		}
	})
}

// A claim is released while its instance runs. Without adoption, the host's room would be given
// twice.
func TestAnInstanceWithoutAClaimIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, soon)
		m := boot(t, 1, 8, r)
		r.must(newClaim("k1", 1, 1, 5), confirm("k1", 1))
		m.run(1, 5)
		r.must(release("k1", 1))
		calm()
		if p := r.propose(query(8)); p.GetPassed() != 1 {
			t.Fatalf("nothing is charged, and %d hosts pass", p.GetPassed())
		}
		time.Sleep(found + lookEvery)
		r.stand()
		if f := r.repaired(withoutClaim); len(f) != 1 || f[0].GetConsumerUuid() != consumerUUID(1) || f[0].GetRepair() == "" {
			t.Errorf("repaired %v", f)
		}
		if p := r.propose(query(4)); p.GetPassed() != 0 {
			t.Errorf("beside the adopted instance %d hosts pass", p.GetPassed())
		}
	})
}

// Another claim is held under the instance's uuid, so nothing can be adopted beside it.
func TestAnInstanceThatHoldsAnothersClaimIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		m := boot(t, 1, 8, r)
		r.must(newClaim("k1", 1, 1, 5), confirm("k1", 1), transfer("k1", 1, 2))
		m.run(2, 1)
		time.Sleep(2 * found)
		if f := r.stand(withoutClaim)[0]; f.GetConsumerUuid() != consumerUUID(2) || f.GetOtherClaimId() != "k1" || f.GetRepair() != "" {
			t.Errorf("found %v", f)
		}
	})
}

func TestAnInstanceOnTwoHostsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		a, b := boot(t, 1, 8, r), boot(t, 2, 8, r)
		r.must(newClaim("k1", 1, 1, 2), confirm("k1", 1))
		a.run(1, 2)
		b.run(1, 2)
		time.Sleep(found)
		if f := r.stand(elsewhere)[0]; f.GetHostUuid() != hostUUID(2) || f.GetOtherHostUuid() != hostUUID(1) || f.GetOtherClaimId() != "k1" {
			t.Errorf("found %v", f)
		}
		b.run(1, 0)
		time.Sleep(found)
		r.stand()
	})
}

// A host that is removed takes its findings with it, even those that only its agent's report could resolve.
func TestFindings_HostIsRemoved_AreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		a, b := boot(t, 1, 8, r), boot(t, 2, 8, r)
		r.must(newClaim("k1", 1, 1, 2), confirm("k1", 1))
		a.run(1, 2)
		b.run(1, 2)
		time.Sleep(found)
		r.stand(elsewhere)
		b.stop()
		time.Sleep(found)
		r.stand(elsewhere) // nobody knows whether the instance is still there
		if _, err := r.cells.RemoveHost(t.Context(), &cellv1.RemoveHostRequest{HostUuid: hostUUID(2), Reason: "scrapped"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(found)
		r.stand()
	})
}

// The Placement API may give a consumer several claims: of a shared storage, or of two hosts while it is evacuated.
func TestFindings_ClaimsOfThePlacementAPI_AreNotDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		a, b := boot(t, 1, 8, r), boot(t, 2, 8, r)
		on := func(n int, class string) shard.RootAllocations {
			return shard.RootAllocations{HostUUID: hostUUID(n), Allocations: []shard.Used{{ProviderUUID: hostUUID(n), ResourceClass: class, Amount: 1}}}
		}
		disk := []shard.Inventory{{ResourceClass: "DISK_GB", Total: 9, MinUnit: 1, MaxUnit: 9, StepSize: 1, AllocationRatio: 1}}
		out, err := r.cell.queue.DoOne(t.Context(), shard.Op{WritePlacement: &shard.WritePlacement{
			Providers: []shard.ProviderWrite{{UUID: hostUUID(3), HostUUID: hostUUID(3), Create: true, Name: new("storage"), Inventories: &disk}},
			Consumers: []shard.ConsumerWrite{
				{UUID: consumerUUID(1), AnyGeneration: true, Allocations: []shard.RootAllocations{on(1, "VCPU"), on(3, "DISK_GB")}},
				{UUID: consumerUUID(2), AnyGeneration: true, Allocations: []shard.RootAllocations{on(1, "VCPU"), on(2, "VCPU")}},
			},
		}}, false)
		if err != nil || out.Refusal != nil {
			t.Fatal(out, err)
		}
		a.run(1, 1)
		a.run(2, 1)
		b.run(2, 1)
		time.Sleep(found)
		r.stand()
	})
}

// Adopted instances may use more than the host has, and a report may reduce the inventory.
func TestMoreInUseThanThereIsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		m := boot(t, 1, 8, r)
		m.run(1, 7)
		m.run(2, 3)
		time.Sleep(found)
		f := r.stand(cellgatev1.Finding_OVERCOMMITTED)[0]
		if f.GetResourceClass() != "VCPU" || f.GetProviderUuid() != hostUUID(1) || !strings.Contains(f.GetDetail(), "10 are in use of 8") || !strings.Contains(f.GetDetail(), "2 were adopted") {
			t.Errorf("found %v", f)
		}
	})
}

func TestOtherAmountsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		m := boot(t, 1, 8, r)
		r.must(newClaim("k1", 1, 1, 2), confirm("k1", 1))
		m.run(1, 3)
		time.Sleep(found)
		if f := r.stand(cellgatev1.Finding_AMOUNTS_DIFFER)[0]; f.GetDetail() != "the host reports 3 VCPU, the claim has 2 VCPU" || f.GetClaimId() != "k1" {
			t.Errorf("found %v", f)
		}
	})
}

// A restart forgets the findings, and finds them again.
func TestFindingsComeBackAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, soon)
		m := boot(t, 1, 8, r)
		r.must(newClaim("k1", 1, 1, 2), confirm("k1", 1))
		m.run(1, 2)
		m.run(1, 0)
		time.Sleep(found)
		r.stand(orphaned)
		m.stop()
		r.stop()
		next := start(t, store, soon)
		m.replicas = []*testCell{next}
		m.start()
		next.stand()
		time.Sleep(5 * releaseAfter)
		if f := next.stand(orphaned)[0]; !strings.Contains(f.GetDetail(), "does not report it any more") {
			t.Errorf("found %v", f)
		}
	})
}

// Moves from other cells are reported once the hosts' reports have confirmed them.
func TestMove_ToAHost_IsSentToTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		m := boot(t, 1, 8, r)
		for n := 1; n <= 3; n++ {
			op := newClaim(fmt.Sprintf("k%d", n), n, 1, 1)
			op.GetClaim().MovesClaimId, op.GetClaim().MovesCell = fmt.Sprintf("old-%d", n), []string{"", "cell2", "cell2", "cell1"}[n]
			r.must(op)
		}
		m.run(1, 1)
		m.run(3, 1)
		time.Sleep(found)
		if in := r.findings().GetMovedIn(); len(in) != 1 || in[0].GetClaimId() != "k1" || in[0].GetFromCell() != "cell2" || in[0].GetFromClaimId() != "old-1" || in[0].GetConsumerUuid() != consumerUUID(1) {
			t.Errorf("moved in: %v", in)
		}
	})
}

// The grace of a move is in store time, which may stay ahead of the machine's clock for good.
func TestMove_StoreTimeAhead_IsReportedAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := pebbleshard.OpenMem(pebbleshard.Options{
			Cell: "cell1", CellUUID: cellUUID, Log: slog.New(slog.DiscardHandler), Clock: func() time.Time { return time.Now().Add(24 * time.Hour) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		r := start(t, store, soon)
		defer r.stop()
		m := boot(t, 1, 8, r)
		defer m.stop()
		op := newClaim("k1", 1, 1, 1)
		op.GetClaim().MovesClaimId, op.GetClaim().MovesCell = "old-1", "cell2"
		r.must(op)
		m.run(1, 1)
		time.Sleep(findAfter - 3*lookEvery)
		if in := r.findings().GetMovedIn(); len(in) != 0 {
			t.Errorf("within the grace: %v", in)
		}
		time.Sleep(found)
		if in := r.findings().GetMovedIn(); len(in) != 1 {
			t.Errorf("moved in: %v", in)
		}
	})
}

// A replica that cannot compare from its start on is late, too.
func TestReconcile_NoRoundYet_AgeGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), func(c *Config) { c.ReconcileInterval = time.Hour })
		time.Sleep(40 * time.Minute)
		if _, _, age := r.cell.reconcile.Reading(); age.Round(time.Minute) != 40*time.Minute {
			t.Errorf("not compared for %v", age)
		}
	})
}

func TestFindingsAreCountedByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		m := boot(t, 1, 8, r)
		r.must(newClaim("k1", 1, 1, 2), confirm("k1", 1), newClaim("k2", 2, 1, 2), confirm("k2", 2))
		m.run(3, 8)
		time.Sleep(found)
		by, compared, age := r.cell.reconcile.Reading()
		if by["orphaned_claim"] != 2 || by["overcommitted"] != 1 || len(by) != 2 || compared != 1 || age > lookEvery {
			t.Errorf("counted %v of %d hosts, %v ago", by, compared, age)
		}
		if !proto.Equal(r.findings().GetFindings()[0].GetSince(), r.stand(orphaned, orphaned, cellgatev1.Finding_OVERCOMMITTED)[0].GetSince()) {
			t.Error("a finding's time changes")
		}
	})
}
