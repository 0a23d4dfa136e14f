package placement_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/cell"
	"cellgate/internal/celltest"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const cellUUID = "cccccccc-0000-4000-8000-000000000001"

// id returns uuids that sort by number.
func id(kind byte, n int) string { return fmt.Sprintf("%c0000000-0000-4000-8000-%012d", kind, n) }

func provider(n int) string { return id('a', n) }
func consumer(n int) string { return id('b', n) }

// world is a cell that the tests write to as a gateway does.
type world struct {
	*testing.T
	celltest.Cell
	store *pebbleshard.Store
}

func start(t *testing.T) *world {
	t.Helper()
	store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: "one", CellUUID: cellUUID, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, celltest.On(t, store, "one", cellUUID), store}
}

// puts writes hosts as another replica would, and waits until the cell has them.
func (w *world) puts(hosts ...shard.Host) {
	w.Helper()
	lane, err := w.store.OpenLane(w.Context(), "other")
	if err != nil {
		w.Fatal(err)
	}
	var ops []shard.Op
	for _, h := range hosts {
		ops = append(ops, shard.Op{PutHost: &shard.PutHost{Host: h}})
	}
	a, err := lane.Apply(w.Context(), ops)
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range a.Outcomes {
		if o.Refusal != nil {
			w.Fatalf("refused: %+v", o.Refusal)
		}
	}
	for {
		got, err := w.Scheduler.ListHosts(w.Context(), &cellv1.ListHostsRequest{HostUuid: hosts[len(hosts)-1].UUID, PageSize: 1})
		if err != nil {
			w.Fatal(err)
		}
		if len(got.GetHosts()) > 0 {
			return
		}
		runtime.Gosched()
	}
}

// writes checks the reason for which a write is refused, or "" if it must succeed.
func (w *world) writes(want shard.PlacementReason, req *cellv1.WritePlacementRequest) {
	w.Helper()
	got, err := w.Placement.WritePlacement(w.Context(), req)
	if err != nil || got.GetRefusal().GetReason() != string(want) {
		w.Fatalf("%v: %v, %v; want %q", req, got, err, want)
	}
}

func created(n int, disk int64, change ...func(*cellv1.ProviderChange)) *cellv1.ProviderChange {
	c := &cellv1.ProviderChange{Uuid: provider(n), Create: true, Name: new(fmt.Sprintf("host%d", n)), Inventories: &cellv1.PlacementInventories{
		Inventories: []*cellv1.PlacementInventory{{ResourceClass: "DISK_GB", Total: disk, MinUnit: 1, MaxUnit: disk, StepSize: 1, AllocationRatio: 1}},
	}}
	for _, f := range change {
		f(c)
	}
	return c
}

func given(n int, on string, disk int64) *cellv1.ConsumerChange {
	return &cellv1.ConsumerChange{Uuid: consumer(n), AnyGeneration: true, ProjectId: "p", UserId: "u", ConsumerType: "INSTANCE", Allocations: []*cellv1.PlacementAllocation{
		{ProviderUuid: on, ResourceClass: "DISK_GB", Amount: disk},
	}}
}

// lists gives the uuids of all pages.
func (w *world) lists(req *cellv1.ListProvidersRequest) (uuids []string) {
	w.Helper()
	for {
		got, err := w.Placement.ListProviders(w.Context(), req)
		if err != nil {
			w.Fatal(err)
		}
		for _, p := range got.GetProviders() {
			uuids = append(uuids, p.GetUuid())
		}
		if !got.GetMore() {
			return uuids
		}
		req.After = uuids[len(uuids)-1]
	}
}

func (w *world) demands(what string, got, want any) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

func host(n int, imported bool) shard.Host {
	h := shard.Host{
		UUID: provider(n), ServiceHost: fmt.Sprintf("host%d", n), NodeName: fmt.Sprintf("host%d", n), Imported: imported, BootID: "b", StateVersion: 1,
		HypervisorType: "QEMU", Facts: &shard.Facts{SupportedInstances: `[["x86_64", "kvm", "hvm"]]`},
		Providers: []shard.Provider{{UUID: provider(n), Name: fmt.Sprintf("host%d", n)}},
	}
	for class, total := range map[string]int64{"VCPU": 8, "MEMORY_MB": 1024, "DISK_GB": 100} {
		h.Providers[0].Inventories = append(h.Providers[0].Inventories, shard.Inventory{ResourceClass: class, Total: total, MinUnit: 1, MaxUnit: total, StepSize: 1, AllocationRatio: 1})
	}
	slices.SortFunc(h.Providers[0].Inventories, func(a, b shard.Inventory) int { return int(a.Total - b.Total) })
	return h
}

func TestTreeSource_ImportedIsHidden_AgentsIsShownAndRefused(t *testing.T) {
	w := start(t)
	w.puts(host(1, false))
	w.demands("an agent's tree", w.lists(&cellv1.ListProvidersRequest{}), []string{provider(1)})
	w.writes(shard.AgentTree, &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{{Uuid: provider(1), Traits: &cellv1.PlacementNames{}}}})
	w.writes(shard.DuplicateProvider, &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(1, 5)}})
	w.writes(shard.AgentTree, &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(2, 5, func(c *cellv1.ProviderChange) { c.ParentUuid = new(provider(1)) })}})
	w.writes("", &cellv1.WritePlacementRequest{Consumers: []*cellv1.ConsumerChange{given(1, provider(1), 7)}}) // Nova's to write

	w = start(t)
	w.puts(host(1, true))
	w.demands("an import's tree", w.lists(&cellv1.ListProvidersRequest{}), []string(nil))
	w.writes(shard.ProviderNotFound, &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{{Uuid: provider(1), Traits: &cellv1.PlacementNames{}}}})
	w.writes(shard.ProviderNotFound, &cellv1.WritePlacementRequest{Consumers: []*cellv1.ConsumerChange{given(1, provider(1), 7)}})
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{{Uuid: provider(1), Create: true, Name: new("host1")}}})
	w.demands("once nova-compute has created it", w.lists(&cellv1.ListProvidersRequest{}), []string{provider(1)})
}

func TestListProviders_Filters(t *testing.T) {
	w := start(t)
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{
		created(1, 10, func(c *cellv1.ProviderChange) { c.Traits = &cellv1.PlacementNames{Names: []string{"CUSTOM_A"}} }),
		created(2, 10, func(c *cellv1.ProviderChange) { c.ParentUuid = new(provider(1)) }),
		created(3, 20, func(c *cellv1.ProviderChange) { c.Aggregates = &cellv1.PlacementNames{Names: []string{"g"}} }),
	}})
	w.writes("", &cellv1.WritePlacementRequest{Consumers: []*cellv1.ConsumerChange{given(1, provider(3), 15)}})
	w.writes(shard.DuplicateProvider, &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(4, 1, func(c *cellv1.ProviderChange) { c.Name = new("host2") })}})
	for _, c := range []struct {
		what string
		req  *cellv1.ListProvidersRequest
		want []int
	}{
		{"all", &cellv1.ListProvidersRequest{}, []int{1, 2, 3}},
		{"uuids", &cellv1.ListProvidersRequest{Uuids: []string{provider(3), provider(1), provider(9)}}, []int{1, 3}},
		{"name", &cellv1.ListProvidersRequest{Name: "host2"}, []int{2}},
		{"the tree of a child", &cellv1.ListProvidersRequest{InTree: provider(2)}, []int{1, 2}},
		{"trait", &cellv1.ListProvidersRequest{Traits: &cellv1.NameFilter{AnyOf: []*cellv1.PlacementNames{{Names: []string{"CUSTOM_B", "CUSTOM_A"}}}}}, []int{1}},
		{"forbidden trait", &cellv1.ListProvidersRequest{Traits: &cellv1.NameFilter{Forbidden: []string{"CUSTOM_A"}}}, []int{2, 3}},
		{"aggregate", &cellv1.ListProvidersRequest{Aggregates: &cellv1.NameFilter{AnyOf: []*cellv1.PlacementNames{{Names: []string{"g"}}}}}, []int{3}},
		{"what is free", &cellv1.ListProvidersRequest{Resources: map[string]int64{"DISK_GB": 6}}, []int{1, 2}},
		{"what fits", &cellv1.ListProvidersRequest{Resources: map[string]int64{"DISK_GB": 5}}, []int{1, 2, 3}},
		{"a class that nobody has", &cellv1.ListProvidersRequest{Resources: map[string]int64{"VCPU": 1}}, nil},
	} {
		var want []string
		for _, n := range c.want {
			want = append(want, provider(n))
		}
		w.demands(c.what, w.lists(c.req), want)
	}
}

// TestPages_MoreThanOne_HaveEachOnce: 900 providers and consumers are three pages.
func TestPages_MoreThanOne_HaveEachOnce(t *testing.T) {
	w := start(t)
	req := &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(1, 900)}}
	providers, consumers := []string{provider(1)}, []string(nil)
	for n := 1; n <= 900; n++ {
		if n > 1 {
			req.Providers = append(req.Providers, created(n, 1, func(c *cellv1.ProviderChange) { c.ParentUuid = new(provider(1)) }))
			providers = append(providers, provider(n))
		}
		req.Consumers = append(req.Consumers, given(n, provider(1), 1))
		consumers = append(consumers, consumer(n))
	}
	w.writes("", req)
	w.demands("providers", w.lists(&cellv1.ListProvidersRequest{}), providers)
	for _, ask := range []*cellv1.ListConsumersRequest{{ProviderUuid: provider(1)}, {Uuids: consumers}} {
		var got []string
		for more := true; more; {
			page, err := w.Placement.ListConsumers(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page.GetConsumers() {
				got = append(got, c.GetUuid())
			}
			more, ask.After = page.GetMore(), got[len(got)-1]
		}
		w.demands("consumers", got, consumers)
	}
}

func TestSumUsages_ByTypeAndUser(t *testing.T) {
	w := start(t)
	other := given(2, provider(1), 3)
	other.UserId, other.ConsumerType = "v", "MIGRATION"
	foreign := given(3, provider(1), 4)
	foreign.ProjectId = "q"
	w.writes("", &cellv1.WritePlacementRequest{
		Providers: []*cellv1.ProviderChange{created(1, 10)}, Consumers: []*cellv1.ConsumerChange{given(1, provider(1), 2), other, foreign},
	})
	for user, want := range map[string]string{"": "INSTANCE 2, MIGRATION 3, ", "u": "INSTANCE 2, ", "nobody": ""} {
		got, err := w.Placement.SumUsages(t.Context(), &cellv1.SumUsagesRequest{ProjectId: "p", UserId: user})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, u := range got.GetUsages() {
			text += fmt.Sprintf("%s %d, ", u.GetConsumerType(), u.GetResources()["DISK_GB"])
			w.demands("consumers", len(u.GetConsumers()), 1)
		}
		w.demands("usages of user "+user, text, want)
	}
}

// Trees that are cached between searches follow changes of their rows.
func TestFindCandidates_AfterEachWrite_AreOfTheRowsThen(t *testing.T) {
	w := start(t)
	finds := func(want ...int) {
		t.Helper()
		got, err := w.Placement.FindCandidates(t.Context(), &cellv1.FindCandidatesRequest{Groups: []*cellv1.CandidateGroup{{Resources: map[string]int64{"DISK_GB": 4}}}})
		if err != nil {
			t.Fatal(err)
		}
		var found, wanted []string
		for _, c := range got.GetCandidates() {
			found = append(found, c.GetAllocations()[0].GetProviderUuid())
		}
		for _, n := range want {
			wanted = append(wanted, provider(n))
		}
		slices.Sort(found)
		w.demands("candidates", found, wanted)
	}
	finds()
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(1, 5), created(2, 5)}})
	finds(1, 2)
	w.writes("", &cellv1.WritePlacementRequest{Consumers: []*cellv1.ConsumerChange{given(1, provider(1), 2)}})
	finds(2)
	w.writes("", &cellv1.WritePlacementRequest{Consumers: []*cellv1.ConsumerChange{{Uuid: consumer(1), AnyGeneration: true}}})
	finds(1, 2)
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{{Uuid: provider(2), Delete: true}}})
	finds(1)
	if _, err := w.Placement.FindCandidates(t.Context(), &cellv1.FindCandidatesRequest{SameSubtrees: []*cellv1.PlacementNames{{Names: []string{"_A"}}}}); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("a subtree of a group that there is not: %v", err)
	}
}

func TestChangeName_RegisteredUsedDeleted(t *testing.T) {
	w := start(t)
	changes := func(del, wantCreated bool, want shard.PlacementReason) {
		t.Helper()
		got, err := w.Placement.ChangeName(t.Context(), &cellv1.ChangeNameRequest{Kind: "TRAIT", Name: "CUSTOM_A", Delete: del})
		if err != nil || got.GetCreated() != wantCreated || got.GetRefusal().GetReason() != string(want) {
			t.Errorf("delete %v: %v, %v; want %v and %q", del, got, err, wantCreated, want)
		}
	}
	has := func(names ...string) {
		t.Helper()
		got, err := w.Placement.ListNames(t.Context(), &cellv1.ListNamesRequest{})
		if err != nil || !slices.Equal(got.GetTraits(), names) || len(got.GetClasses()) > 0 {
			t.Errorf("names %v, %v; want %v", got, err, names)
		}
	}
	has()
	changes(false, true, "")
	changes(false, false, "")
	has("CUSTOM_A")
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(1, 5, func(c *cellv1.ProviderChange) { c.Traits = &cellv1.PlacementNames{Names: []string{"CUSTOM_A"}} })}})
	changes(true, false, shard.TraitInUse)
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{{Uuid: provider(1), Traits: &cellv1.PlacementNames{}}}})
	changes(true, false, "")
	changes(true, false, shard.TraitNotFound)
	has()
}

func TestWritePlacement_BadInput_NamesTheField(t *testing.T) {
	w := start(t)
	for what, req := range map[string]*cellv1.WritePlacementRequest{
		"raise":        {Providers: []*cellv1.ProviderChange{created(1, 5, func(c *cellv1.ProviderChange) { c.Raise = -1 })}},
		"create":       {Providers: []*cellv1.ProviderChange{created(1, 5, func(c *cellv1.ProviderChange) { c.Delete = true })}},
		"stands twice": {Providers: []*cellv1.ProviderChange{created(1, 5)}, Consumers: []*cellv1.ConsumerChange{given(1, provider(1), 1), given(1, provider(1), 1)}},
		"amount":       {Providers: []*cellv1.ProviderChange{created(1, 5)}, Consumers: []*cellv1.ConsumerChange{given(1, provider(1), -1)}},
	} {
		_, err := w.Placement.WritePlacement(t.Context(), req)
		if fault.KindOf(err) != fault.InvalidRequest {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.demands("nothing is left", w.lists(&cellv1.ListProvidersRequest{}), []string(nil))
	w.writes(shard.ParentNotFound, &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(1, 5, func(c *cellv1.ProviderChange) { c.ParentUuid = new(provider(2)) })}})
	w.writes(shard.ConsumerNotFound, &cellv1.WritePlacementRequest{Consumers: []*cellv1.ConsumerChange{{Uuid: consumer(1), AnyGeneration: true, MustExist: true}}})
}

// A client reads at one replica what it has just written at another one, however seldom that reads the journal.
func TestUpToDate_WrittenAtAnotherReplica_IsRead(t *testing.T) {
	w := start(t)
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(1, 100)}})
	other := celltest.Run(t, celltest.Config{Name: "one", UUID: cellUUID, Replica: "r2", Store: w.store, Change: func(c *cell.Config) { c.TailEvery = time.Hour }})
	w.writes("", &cellv1.WritePlacementRequest{Providers: []*cellv1.ProviderChange{created(2, 100)}})
	for _, write := range []*cellv1.WritePlacementRequest{
		{Consumers: []*cellv1.ConsumerChange{given(1, provider(2), 5)}},
		{Providers: []*cellv1.ProviderChange{{Uuid: provider(2), Name: new("renamed")}}},
	} {
		if got, err := other.Placement.WritePlacement(t.Context(), write); err != nil || got.GetRefusal() != nil {
			t.Errorf("a write of a provider that the other replica has made: %v, %v", got, err)
		}
	}
	w.writes("", &cellv1.WritePlacementRequest{Consumers: []*cellv1.ConsumerChange{given(2, provider(1), 5)}})
	held, err := other.Placement.ListConsumers(t.Context(), &cellv1.ListConsumersRequest{Uuids: []string{consumer(2)}})
	if err != nil || len(held.GetConsumers()) != 1 {
		t.Errorf("what the other replica wrote for a consumer: %v, %v", held, err)
	}
}
