package cell

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/proposals"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// coldReplica returns a replica that loads its table until resume is called. Another replica,
// other, has registered the shard's hosts of 8 VCPUs.
func coldReplica(t *testing.T, hosts int, change ...func(*Config)) (cold, other *testCell, store *coldStore, resume func()) {
	t.Helper()
	shared := newStore(t)
	other = start(t, shared, named("other"))
	for n := range hosts {
		other.register(plainState(n, 8))
	}
	store = newColdStore(shared)
	cold = launch(t, store, append([]func(*Config){named("cold")}, change...)...)
	cold.await(cold.cell.phase.open)
	<-store.begun
	return cold, other, store, func() {
		close(store.resume)
		cold.await(cold.cell.Ready())
	}
}

func (r *testCell) summary() *cellv1.GetSummaryResponse {
	r.t.Helper()
	s, err := r.cells.GetSummary(context.Background(), &cellv1.GetSummaryRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// A replica that is loading answers and reports that it loads. It commits claims, and finds the
// claims that a request already has.
func TestAReplicaAnswersWhileItLoads(t *testing.T) {
	cold, other, _, resume := coldReplica(t, 4)
	s := cold.summary()
	if !s.GetLoading() || s.GetCellUuid() != cellUUID || len(s.GetLargest()) > 0 || s.GetMachineTime() == nil {
		t.Errorf("the summary is %v", s)
	}
	report, ok := cold.cell.Health().Ready()
	if !ok || !strings.Contains(fmt.Sprint(report.Checks), "being loaded") {
		t.Errorf("health: %+v", report)
	}
	p := cold.propose(query(3))
	if p.GetHosts() != 4 || p.GetPassed() != 4 || p.GetTruncated() || len(wiretest.Hosts(p)) != 4 {
		t.Fatalf("it proposes %v", p)
	}
	cold.must(newClaim("k1", 1, 1, 8))
	other.must(newClaim("k2", 2, 2, 8))
	again := query(3)
	again.ConsumerUuids = []string{consumerUUID(1), consumerUUID(2)}
	p = cold.propose(again)
	if p.GetHosts() != 4 || p.GetPassed() != 2 || len(p.GetClaims()) != 2 || len(p.GetClaimOrigins()) != 2 {
		t.Errorf("after two claims it proposes %v", p)
	}
	if r := p.GetRejects(); len(r) != 1 || r[0].GetHosts() != 2 || r[0].GetFilter() != proposals.ShardFilter {
		t.Errorf("rejects: %v", r)
	}
	list, err := cold.cells.ListClaims(t.Context(), &cellv1.ListClaimsRequest{})
	if err != nil || len(list.GetClaims()) != 2 {
		t.Errorf("it lists %v, %v", list, err)
	}
	if _, err := cold.cells.ListHosts(t.Context(), &cellv1.ListHostsRequest{}); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("it lists hosts: %v", err)
	}
	if bad := cold.propose(&cellv1.Query{Limit: 0, Placement: query(1).GetPlacement()}); bad.GetFailure().GetReason() != string(fault.InvalidRequest) {
		t.Errorf("a bad query gives %v", bad)
	}
	resume()
	if s := cold.summary(); s.GetLoading() || s.GetTotals().GetHosts() != 4 || s.GetTotals().GetClaimsPending() != 2 {
		t.Errorf("loaded, the summary is %v", s)
	}
	if p := cold.propose(again); p.GetPassed() != 2 || len(p.GetClaims()) != 2 {
		t.Errorf("loaded, it proposes %v", p)
	}
}

// A replica that is loading does not know what hosts report, so it releases nothing on the condition that a host does
// not report the instance.
func TestRelease_UnlessReportedWhileLoading_IsRefused(t *testing.T) {
	cold, other, _, resume := coldReplica(t, 2)
	other.must(newClaim("k1", 1, 1, 1), confirm("k1", 1))
	if got := cold.unlessReported("k1", 1); got != fault.CellUnavailable {
		t.Errorf("refused as %q", got)
	}
	resume()
}

// Without a HostFinder the replica cannot answer. It is not ready until its table is loaded.
func TestAReplicaWithoutAFilterServesOnceItIsLoaded(t *testing.T) {
	store := newColdStore(newStore(t))
	cold := launch(t, struct{ shard.Store }{store}, named("cold"))
	cold.await(cold.cell.phase.open)
	<-store.begun
	_, err := cold.cells.GetSummary(t.Context(), &cellv1.GetSummaryRequest{})
	_, claims := cold.cells.ClaimBatch(t.Context(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k", 1, 1, 1)}})
	if fault.KindOf(err) != fault.CellUnavailable || fault.KindOf(claims) != fault.CellUnavailable {
		t.Errorf("a summary: %v; a claim: %v", err, claims)
	}
	if bad := cold.failing(); !slices.Equal(bad, []string{"table"}) {
		t.Errorf("%v fail", bad)
	}
	close(store.resume)
	cold.await(cold.cell.Ready())
	cold.summary()
}

// The rounds of one request see one version, even if the table finishes loading between them.
func TestALaterRoundIsAnsweredFromTheSameHosts(t *testing.T) {
	cold, other, _, resume := coldReplica(t, 4)
	first := cold.propose(query(3))
	later := query(3)
	later.TableVersion = first.GetTableVersion()
	later.TentativePlacements = []*cellv1.TentativePlacement{{HostUuid: hostUUID(1), InstanceUuid: consumerUUID(9)}, {HostUuid: hostUUID(1), InstanceUuid: consumerUUID(8)}}
	other.must(newClaim("k2", 2, 2, 8))
	for _, when := range []string{"while it loads", "loaded"} {
		if p := cold.propose(later); p.GetPassed() != 3 || p.GetTableVersion() != first.GetTableVersion() {
			t.Errorf("%s: %v", when, p)
		}
		if when == "while it loads" {
			resume()
		}
	}
	if p := cold.propose(query(3)); p.GetPassed() != 3 || p.GetTableVersion() == first.GetTableVersion() {
		t.Errorf("a new request: %v", p)
	}
}

// If there are more hosts than the replica may search, it searches some and reports the answer as
// truncated. If none of these pass, it returns an error. Requests get different hosts.
func TestACutAnswerSaysSo(t *testing.T) {
	cold, _, store, _ := coldReplica(t, 12, func(c *Config) { c.ColdHosts = 5 })
	seen := map[string]bool{}
	for seed := range uint64(20) {
		q := query(1)
		q.Seed = seed
		p := cold.propose(q)
		if !p.GetTruncated() || p.GetPassed() != 5 || p.GetHosts() != 5 {
			t.Fatalf("it proposes %v", p)
		}
		seen[fmt.Sprint(p.GetCandidates())] = true
	}
	if len(seen) < 4 {
		t.Errorf("20 requests saw %d sets of hosts", len(seen))
	}
	q := query(1)
	q.Placement = serialized(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, ForceHosts: []string{"nobody"},
	})
	if p := cold.propose(q); p.GetFailure().GetReason() != string(fault.CellUnavailable) {
		t.Errorf("none of some: %v", p)
	}
	for _, asked := range store.searches() {
		if asked.Limit != 5 || !asked.Rows {
			t.Errorf("the shard was asked for %+v", asked)
		}
	}
	if n := cold.metric("cellgate_cell_cold_queries_total", "cut"); n != 20 {
		t.Errorf("%v cut answers were counted", n)
	}
	if n := cold.metric("cellgate_cell_cold_queries_total", "refused"); n != 1 {
		t.Errorf("%v refused ones were counted", n)
	}
}

// metric returns the sum of a counter.
func (r *testCell) metric(name, label string) (sum float64) {
	r.t.Helper()
	all, err := r.telemetry.Gatherer().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// A query that depends on hosts other than those that the shard finds is refused, not guessed.
func TestWhatALoadingReplicaCannotJudge(t *testing.T) {
	cold, _, _, resume := coldReplica(t, 2)
	vcpu := []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}
	numa := &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{Cpus: 1, MemoryMb: 1}}}
	for name, p := range map[string]*cellv1.Placement{
		"a group":        {Group: &cellv1.Group{Uuid: hostUUID(7), Policy: "anti-affinity"}},
		"NUMA":           {Nova: &cellv1.NovaRequest{Numa: numa}},
		"devices":        {Nova: &cellv1.NovaRequest{PciRequests: []*cellv1.PciRequest{{Count: 1}}}},
		"disabled hosts": {Rules: &cellv1.Rules{Filters: []string{schedule.ResourceFilter}}},
		"a rebuild":      {Nova: &cellv1.NovaRequest{Rebuild: true}},
		"strict_nova":    {Rules: &cellv1.Rules{Filters: schedule.DefaultFilters(), Options: &cellv1.Options{StrictNova: true}}},
		"same_host": {
			Rules: &cellv1.Rules{Filters: append(schedule.DefaultFilters(), schedule.SameHostFilter)},
			Nova:  &cellv1.NovaRequest{Hints: []*cellv1.NovaHint{{Name: "same_host", Values: []string{consumerUUID(1)}}}},
		},
	} {
		p.Resources = vcpu
		if got := cold.propose(&cellv1.Query{Limit: 1, Placement: serialized(p)}); got.GetFailure().GetReason() != string(fault.CellUnavailable) {
			t.Errorf("%s: %v", name, got)
		}
	}
	hard := newClaim("k1", 1, 1, 1)
	hard.GetClaim().Guest = &cellv1.Guest{Numa: numa, JudgeNuma: true}
	// The shard checks the hardware of claims, with or without a table.
	soft := newClaim("k2", 2, 1, 1)
	soft.GetClaim().Guest = &cellv1.Guest{Numa: numa}
	out := cold.do(hard, soft)
	if out[0].GetRefusal().GetFilter() != schedule.NUMAFilter || out[1].GetRefusal() != nil {
		t.Errorf("claims of hardware: %v", out)
	}
	resume()
}

// Everything that is committed while the shard is read is in the table afterwards, from every lane,
// whatever state the read saw.
func TestNothingIsLostWhileTheTableIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		other := start(t, shared, named("other"))
		for n := range 6 {
			other.register(plainState(n, 8))
		}
		other.must(newClaim("k1", 1, 1, 2), newClaim("k2", 2, 2, 2), newClaim("k3", 3, 3, 2))
		store := newColdStore(shared)
		cold := launch(t, store, named("cold"))
		<-store.begun // the read has begun
		cold.must(newClaim("k4", 4, 4, 4), release("k1", 1))
		shared.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			applied, err := commit()
			if err != nil {
				return applied, err
			}
			return shard.Applied{}, errUnknown
		})
		cold.do(newClaim("k5", 5, 5, 5))
		shared.hook(nil)
		cold.must(confirm("k4", 4), newClaim("k6", 6, 0, 1))
		other.must(release("k2", 2), newClaim("k7", 7, 2, 7), confirm("k3", 3))
		close(store.resume)
		cold.await(cold.cell.Ready())
		cold.must(newClaim("k8", 8, 3, 1))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		fresh := start(t, shared, named("fresh"))
		got, want := cold.cell.versions.Current(), fresh.cell.versions.Current()
		if !reflect.DeepEqual(shownHosts(got), shownHosts(want)) {
			t.Errorf("the table has\n%+v, the shard\n%+v", shownHosts(got), shownHosts(want))
		}
		for n := range 9 {
			id, err := schedule.ParseID(consumerUUID(n))
			if err != nil {
				t.Fatal(err)
			}
			if g, w := places(got, id), places(want, id); !slices.Equal(g, w) {
				t.Errorf("consumer %d is at %v, in the shard at %v", n, g, w)
			}
		}
		if live := len(cold.cell.rows.LiveClaims()); live != 6 {
			t.Errorf("%d claims are live, want 6", live)
		}
	})
}

// Callers place instances while the table is loaded, and do not notice the end of the load. Each
// gets an answer, and exactly what fits is claimed.
func TestCallersGoThroughTheEndOfTheLoad(t *testing.T) {
	const hosts, callers, each = 5, 6, 12
	cold, other, store, _ := coldReplica(t, hosts)
	var all sync.WaitGroup
	var lock sync.Mutex
	placed, full, half := map[string]int{}, 0, make(chan struct{})
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				n := caller*each + i
				q := query(1)
				q.Seed = uint64(n)
				for try := 0; ; try++ {
					out, err := cold.cells.ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{q}})
					if err != nil || out.GetProposals()[0].GetFailure() != nil {
						t.Errorf("caller %d: %v, %v", caller, out, err)
						return
					}
					p := out.GetProposals()[0]
					if p.GetPassed() == 0 {
						lock.Lock()
						full++
						lock.Unlock()
						break
					}
					op := newClaim(fmt.Sprintf("k%d-%d", n, try), n, 0, 1)
					op.GetClaim().HostUuid = wiretest.Hosts(p)[0]
					op.GetClaim().Allocations[0].ProviderUuid = op.GetClaim().GetHostUuid()
					claimed, err := cold.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{op}})
					if err != nil {
						t.Error(err)
						return
					}
					if claimed.GetOutcomes()[0].GetRefusal() == nil {
						lock.Lock()
						placed[op.GetClaim().GetClaimId()]++
						if len(placed) == hosts*8/2 {
							close(half)
						}
						lock.Unlock()
						break
					}
				}
			}
		})
	}
	<-half
	close(store.resume)
	all.Wait()
	cold.await(cold.cell.Ready())
	if len(placed) != hosts*8 || full != callers*each-hosts*8 {
		t.Errorf("%d placed, %d told that it is full; %d VCPU for %d", len(placed), full, hosts*8, callers*each)
	}
	live := 0
	for _, r := range []*testCell{cold, other} {
		if err := r.cell.journal.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		live = len(r.cell.rows.LiveClaims())
		if p := r.propose(query(1)); live != len(placed) || p.GetPassed() != 0 {
			t.Errorf("%s knows %d claims of %d, and proposes %v", r.cell.cfg.Replica, live, len(placed), p)
		}
	}
	if n := len(store.searches()); n == 0 || n > callers*each {
		t.Errorf("%d searches", n)
	}
}

// Callers with equal queries share searches of the shard. Each caller sees everything that was
// committed before it asked. A shard that takes too long is not asked any more.
func TestSearchesAreSharedAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cold, other, store, _ := coldReplica(t, 3)
		pass := make(chan struct{})
		store.hook(func(ctx context.Context, _ shard.HostQuery) error {
			select {
			case <-pass:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		var all sync.WaitGroup
		want := int32(3)
		ask := func(n int) {
			for range n {
				all.Go(func() {
					if p := cold.propose(query(8)); p.GetPassed() != want {
						t.Errorf("%v", p)
					}
				})
			}
		}
		ask(1)
		synctest.Wait()
		if n := len(store.searches()); n != 1 {
			t.Errorf("%d searches for one", n)
		}
		// ColdAtOnce searches run at once. Later callers share one that waits.
		ask(1)
		synctest.Wait()
		ask(1)
		synctest.Wait()
		ask(20)
		synctest.Wait()
		if n := len(store.searches()); n != replica.ColdAtOnce {
			t.Errorf("%d searches at once", n)
		}
		close(pass)
		all.Wait()
		if n := len(store.searches()); n != replica.ColdAtOnce+1 {
			t.Errorf("%d searches for %d callers", n, 23)
		}
		other.must(newClaim("k1", 1, 1, 1))
		want = 2
		ask(1)
		all.Wait()

		pass = make(chan struct{})
		for range replica.ColdTries {
			if p := cold.propose(query(8)); p.GetFailure().GetReason() != string(fault.CellUnavailable) {
				t.Errorf("a shard that does not answer: %v", p)
			}
		}
		if _, err := cold.cells.GetSummary(t.Context(), &cellv1.GetSummaryRequest{}); fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("after that: %v", err)
		}
		if bad := cold.failing(); !slices.Equal(bad, []string{"table"}) {
			t.Errorf("%v fail", bad)
		}
	})
}
