package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/internal/limits"
	"cellgate/internal/testlong"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// planDrain asks for a plan.
func (w *world) planDrain(hosts ...string) *cellgatev1.PlanDrainResponse {
	w.t.Helper()
	got, err := cellgatev1.NewCapacityClient(w.conn).PlanDrain(context.Background(), &cellgatev1.PlanDrainRequest{Hosts: hosts})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// setState disables a host, or enables it again.
func (w *world) setState(host string, state cellgatev1.HostAdmin_State) {
	w.t.Helper()
	if _, err := w.hosts.UpdateHost(context.Background(), &cellgatev1.UpdateHostRequest{HostUuid: host, AdminState: state, Reason: "a test"}); err != nil {
		w.t.Fatal(err)
	}
}

// buildOn builds a request's instances on a host, and confirms them.
func (w *world) buildOn(host string, req *cellgatev1.SelectDestinationsRequest) {
	w.t.Helper()
	req.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Host: host}
	for i, d := range w.choose(req).GetDestinations() {
		if err := w.confirm(d.GetSelected(), req.GetInstanceUuids()[i]); err != nil {
			w.t.Fatal(err)
		}
	}
}

// drawBuilds builds instances of several shapes and groups on hosts wherever they fit, and gives the request of each.
func (w *world) drawBuilds(r *rand.Rand, seed int) map[string]*cellgatev1.SelectDestinationsRequest {
	built := map[string]*cellgatev1.SelectDestinationsRequest{}
	policies := []string{"", "", "", "anti-affinity", "affinity", "soft-affinity", "soft-anti-affinity"}
	for shape := range 1 + r.IntN(4) {
		policy := policies[r.IntN(len(policies))]
		flavor := &cellgatev1.Flavor{Name: fmt.Sprint("flavor", shape), Vcpus: int32(1 + r.IntN(8)), MemoryMb: int32(1+r.IntN(16)) << 10, RootGb: int32(r.IntN(80))}
		var group *cellgatev1.InstanceGroup
		if policy != "" {
			group = &cellgatev1.InstanceGroup{Uuid: testUUID(0xe, 100*seed+shape), Policy: policy}
			if policy == "anti-affinity" {
				group.MaxServerPerHost = int32(r.IntN(3))
			}
		}
		for range r.IntN(8) {
			id := testUUID(0x1, 1000*seed+len(built))
			req := &cellgatev1.SelectDestinationsRequest{RequestId: id, InstanceUuids: []string{id}, Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{
				RequestSpec: &cellgatev1.RequestSpec{Flavor: flavor, InstanceGroup: group, ProjectId: "p1", Strategy: []string{"spread", "pack"}[r.IntN(2)]},
			}}
			resp, err := w.scheduler.SelectDestinations(context.Background(), req)
			if fault.KindOf(err) == fault.NoValidHost {
				continue
			}
			if err == nil {
				err = w.confirm(resp.GetDestinations()[0].GetSelected(), id)
			}
			if err != nil {
				w.t.Fatalf("seed %d: %v", seed, err)
			}
			if policy == "affinity" { // as after the lease: until then the pin keeps the group where it was built
				arbiter := w.g.claims.Arbiter(group.GetUuid()).Name()
				w.cells[slices.IndexFunc(w.cells, func(c *testCell) bool { return c.name == arbiter })].unpin(group.GetUuid(), resp.GetDestinations()[0].GetSelected().GetClaimId())
			}
			req.RequestId, req.GetRequestSpec().Strategy = "", ""
			built[id] = req
		}
	}
	return built
}

// Each planned move succeeds as a real move to the planned host, which is then one of the best. An instance that the
// plan does not place is refused.
func TestPlanDrain_RandomFleets_MovesSucceedAndTheRestIsRefused(t *testing.T) {
	fleets := testlong.Or(20, 200)
	var drawn []*drawnCell
	var all []*testCell
	for i := range 2 {
		c := newCell(i + 1)
		drawn, all = append(drawn, &drawnCell{testCell: c, hosts: map[string]schedule.Host{}}), append(all, c)
	}
	w := start(t, all, patient)
	ctx := context.Background()
	moved, grouped, unplaced, blocked := 0, 0, 0, 0
	// Where instances are built varies with time, so the rare kind may need more fleets.
	for seed := 0; seed < fleets || blocked == 0 && seed < 200; seed++ {
		r := rand.New(rand.NewPCG(1, uint64(seed)))
		var hosts []string
		for i, c := range drawn {
			var list []schedule.Host
			for n := range 2 + r.IntN(5) {
				h := testHost(100*i+n, 1+r.IntN(2))
				used := int64(r.IntN(8))
				h.Resources[0].Used, h.View.VCPUsUsed = used, used
				list, hosts = append(list, h), append(hosts, h.UUID.String())
			}
			c.report(list)
		}
		built := w.drawBuilds(r, seed)
		r.Shuffle(len(hosts), func(a, b int) { hosts[a], hosts[b] = hosts[b], hosts[a] })
		drained := hosts[:1+r.IntN(2)]
		before := w.liveClaims()
		plan := w.planDrain(drained...)
		if !plan.GetExact() || plan.GetPartial() || plan.GetEnd() != cellgatev1.CapacityEnd_ALL_TRIED || len(plan.GetHosts()) != len(drained) {
			t.Fatalf("seed %d: %v", seed, plan)
		}
		on := int32(0)
		for _, h := range plan.GetHosts() {
			on += h.GetInstances()
		}
		if got := len(plan.GetMoves()) + len(plan.GetUnplaced()); int(on) != got || len(plan.GetStaying()) != 0 || w.liveClaims() != before {
			t.Fatalf("seed %d: %d instances are on the hosts, the plan has %d: %v", seed, on, got, plan)
		}
		for _, h := range drained {
			w.setState(h, cellgatev1.HostAdmin_DISABLED)
		}
		request := func(i *cellgatev1.DrainInstance, to *cellgatev1.Destination) *cellgatev1.SelectDestinationsRequest {
			req := built[i.GetInstanceUuid()]
			req.Operation, req.GetRequestSpec().RequestedDestination = cellgatev1.Operation_LIVE_MIGRATE, to
			return req
		}
		for _, m := range plan.GetMoves() {
			i := m.GetInstance()
			req := request(i, &cellgatev1.Destination{Cell: i.GetCell()})
			req.MaxAlternates = 32
			ranked, err := w.scheduler.ExplainDestinations(ctx, req)
			if err != nil {
				t.Fatalf("seed %d: %v: %v", seed, m, err)
			}
			at := slices.IndexFunc(ranked.GetRanked(), func(h *cellgatev1.RankedHost) bool { return h.GetHostUuid() == m.GetToHostUuid() })
			if at < 0 || ranked.GetRanked()[at].GetWeight() != ranked.GetRanked()[0].GetWeight() {
				t.Fatalf("seed %d: %v is not to a best host: %v", seed, m, ranked.GetRanked())
			}
			resp, err := w.scheduler.SelectDestinations(ctx, request(i, &cellgatev1.Destination{Cell: i.GetCell(), Host: m.GetToServiceHost()}))
			if err != nil {
				t.Fatalf("seed %d: %v: %v", seed, m, err)
			}
			s := resp.GetDestinations()[0].GetSelected()
			if s.GetComputeNodeUuid() != m.GetToHostUuid() {
				t.Fatalf("seed %d: %v went to %s", seed, m, s.GetServiceHost())
			}
			if err := w.confirm(s, i.GetInstanceUuid()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			moved++
			grouped += bit(i.GetGroupUuid() != "")
		}
		for _, u := range plan.GetUnplaced() {
			i := u.GetInstance()
			w.refused(request(i, &cellgatev1.Destination{Cell: i.GetCell()}), fault.NoValidHost)
			sum := int32(0)
			for _, x := range u.GetRefusal().GetRejects() {
				sum += x.GetHosts()
			}
			if sum != u.GetRefusal().GetHosts() || u.GetMessage() == "" {
				t.Fatalf("seed %d: counts do not add up: %v", seed, u)
			}
			unplaced++
			blocked += bit(i.GetGroupPolicy() == "affinity")
		}
		for _, h := range drained {
			w.setState(h, cellgatev1.HostAdmin_ENABLED)
		}
		for _, c := range all {
			for _, claim := range c.live() {
				c.release(claim.GetClaimId(), claim.GetConsumerUuid())
			}
		}
	}
	t.Logf("%d moved, %d of them in groups; %d unplaced, %d of them by affinity", moved, grouped, unplaced, blocked)
	for name, n := range map[string]int{"moves": moved, "moves in groups": grouped, "unplaced": unplaced, "held by affinity": blocked} {
		if n == 0 {
			t.Errorf("%d fleets have no %s", fleets, name)
		}
	}
}

// The largest instance moves first. A service host and a nodename of one host count as one host.
// Instances that cannot move are named.
func TestPlanDrain_OrderNamesAndStaying(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1), testHost(3, 1))}, patient)
	small := ask(1, 1)
	w.buildOn("host001", small)
	large := ask(2, 1)
	large.GetRequestSpec().Flavor.Vcpus = 12
	w.buildOn("host001", large)
	huge := ask(3, 1)
	huge.GetRequestSpec().Flavor.Vcpus = 10
	w.buildOn("host002", huge)
	pending := ask(4, 1)
	pending.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Host: "host001"}
	w.choose(pending)

	plan := w.planDrain("HOST001", "node001")
	if len(plan.GetHosts()) != 1 || plan.GetHosts()[0].GetInstances() != 3 || len(plan.GetHosts()[0].GetAsked()) != 2 {
		t.Fatalf("hosts: %v", plan.GetHosts())
	}
	if m := plan.GetMoves(); len(m) != 2 || m[0].GetInstance().GetInstanceUuid() != testUUID(1, 2) || m[0].GetToServiceHost() != "host003" ||
		m[0].GetInstance().GetResources()["VCPU"] != 12 || m[1].GetInstance().GetServiceHost() != "host001" {
		t.Errorf("moves: %v", m)
	}
	if s := plan.GetStaying(); len(s) != 1 || s[0].GetInstance().GetInstanceUuid() != testUUID(1, 4) || s[0].GetReason() != cellgatev1.StayReason_STAYS_PENDING {
		t.Errorf("staying: %v", s)
	}
	if u := plan.GetMoves()[0].GetInstance().GetUnknown(); !slices.Contains(u, cellgatev1.UnknownNeed_NEED_TRAITS) || slices.Contains(u, cellgatev1.UnknownNeed_NEED_GROUP) {
		t.Errorf("unknown: %v", u)
	}

	// A move under way is not planned again.
	migrate := ask(1, 1)
	migrate.Operation = cellgatev1.Operation_LIVE_MIGRATE
	w.choose(migrate)
	plan = w.planDrain(testUUID(0xa, 1))
	if s := plan.GetStaying(); len(s) != 2 || s[0].GetReason() != cellgatev1.StayReason_STAYS_MOVING && s[1].GetReason() != cellgatev1.StayReason_STAYS_MOVING {
		t.Errorf("staying: %v", s)
	}
}

func TestPlanDrain_DoesNotFit_SaysWhyAndByHowMuch(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)), newCell(2, testHost(3, 4))}, patient)
	for i := range 2 {
		req := ask(10+i, 1)
		req.GetRequestSpec().Flavor.Vcpus = 10
		w.buildOn(fmt.Sprintf("host%03d", 1+i), req)
	}
	plan := w.planDrain("host001")
	if len(plan.GetUnplaced()) != 1 || len(plan.GetMoves()) != 0 {
		t.Fatal(plan)
	}
	u := plan.GetUnplaced()[0]
	if want := "No valid host was found. 0 of 2 hosts: 1 is out of service (assumed to be drained), 1 has too little VCPU"; u.GetMessage() != want {
		t.Errorf("message %q", u.GetMessage())
	}
	near := u.GetRefusal().GetNearest()
	if len(near) != 1 || near[0].GetServiceHost() != "host002" || near[0].GetMisses()[0].GetAsked() != 10 || near[0].GetMisses()[0].GetMost() != 6 {
		t.Errorf("nearest: %v", near)
	}
	if r := u.GetRefusal(); r.GetSmallestChange() != "ask for at most 6 VCPU (asked 10)" || r.GetSmallestOperatorChange() != "" {
		t.Errorf("changes: %q, %q", r.GetSmallestChange(), r.GetSmallestOperatorChange())
	}
}

func TestPlanDrain_AntiAffinity_MembersGoToDifferentHosts(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1), testHost(3, 1), testHost(4, 1))}, patient)
	member := func(n int) *cellgatev1.SelectDestinationsRequest {
		req := ask(n, 1)
		req.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0xe, 1), Policy: "anti-affinity"}
		return req
	}
	for i := range 3 {
		w.buildOn(fmt.Sprintf("host%03d", 1+i), member(1+i))
	}
	plan := w.planDrain("host001", "host002")
	if len(plan.GetMoves()) != 1 || len(plan.GetUnplaced()) != 1 || plan.GetMoves()[0].GetToServiceHost() != "host004" {
		t.Fatalf("one of two members finds a host of its own: %v", plan)
	}
	if u := plan.GetUnplaced()[0]; !slices.ContainsFunc(u.GetRefusal().GetRejects(), func(r *cellgatev1.RejectCount) bool { return r.GetFilter() == schedule.AntiAffinityFilter }) {
		t.Errorf("refused by %v", u.GetRefusal().GetRejects())
	}
}

func TestPlanDrain_NoInstances_IsEmpty(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1))}, patient)
	plan := w.planDrain("host001")
	if len(plan.GetMoves())+len(plan.GetUnplaced())+len(plan.GetStaying()) != 0 || plan.GetEnd() != cellgatev1.CapacityEnd_ALL_TRIED || plan.GetHosts()[0].GetHostUuid() != testUUID(0xa, 1) {
		t.Error(plan)
	}
}

func TestPlanDrain_Limit_CountsWhatWasNotTried(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1))}, patient)
	w.buildOn("host001", ask(1, 4))
	got, err := cellgatev1.NewCapacityClient(w.conn).PlanDrain(context.Background(), &cellgatev1.PlanDrainRequest{Hosts: []string{"host001"}, MaxInstances: 3})
	if err != nil || got.GetEnd() != cellgatev1.CapacityEnd_LIMIT || got.GetUntried() != 1 || len(got.GetMoves()) != 3 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestPlanDrain_UnknownHost_NamesTheFieldAndSuggests(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(22, 1))}, patient)
	client := cellgatev1.NewCapacityClient(w.conn)
	for name, want := range map[string]string{"hots022": `did you mean "host022"?`, testUUID(0xa, 9): "no cell that takes instances has"} {
		got, err := client.PlanDrain(context.Background(), &cellgatev1.PlanDrainRequest{Hosts: []string{"host001", name}})
		e := mustFail(t, got, err, fault.InvalidRequest)
		if len(e.Fields) != 1 || e.Fields[0].Path != "hosts[1]" || !strings.Contains(e.Fields[0].Problem, want) {
			t.Errorf("%s: %v", name, e.Fields)
		}
	}
	got, err := client.PlanDrain(context.Background(), &cellgatev1.PlanDrainRequest{})
	mustFail(t, got, err, fault.InvalidRequest)
}

func TestPlanDrain_DeadCell_IsNamed(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)), newCell(2, testHost(3, 1))}, nil)
	w.buildOn("host001", ask(1, 1))
	w.servers[1].Stop()
	plan := w.planDrain("host001")
	if !plan.GetPartial() || len(plan.GetMoves()) != 1 || plan.GetCells()[1].GetOutcome() != cellgatev1.CellOutcome_UNAVAILABLE || plan.GetCells()[1].GetReason() == "" {
		t.Errorf("the host's own cell answers: %v", plan)
	}
	got, err := cellgatev1.NewCapacityClient(w.conn).PlanDrain(context.Background(), &cellgatev1.PlanDrainRequest{Hosts: []string{"host003"}})
	if e := mustFail(t, got, err, fault.CellUnavailable); !strings.Contains(e.Error(), "cell2") {
		t.Error(e)
	}
}

func TestPlanDrain_OverREST(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1))}, patient)
	w.buildOn("host001", ask(1, 1))
	rec := w.send("POST", "/v1/plan_drain", `{"hosts": ["host001"]}`)
	if body := rec.Body.String(); rec.Code != http.StatusOK || !strings.Contains(body, `"to_service_host":"host002"`) {
		t.Errorf("%d %s", rec.Code, body)
	}
}

// Resources of child providers that a claim holds move to a host that has such a provider free.
func TestPlanDrain_ChildProviders_AreAskedFor(t *testing.T) {
	w := start(t, []*testCell{newCell(1, gpuHost(1), gpuHost(2), testHost(3, 4))}, patient)
	for i := range 2 {
		req := ask(1+i, 1)
		req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"resources1:VGPU": "1"}
		w.buildOn("host001", req)
	}
	taken := ask(3, 1)
	taken.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"resources1:VGPU": "1"}
	w.buildOn("host002", taken)
	plan := w.planDrain("host001")
	if len(plan.GetMoves()) != 1 || plan.GetMoves()[0].GetToServiceHost() != "host002" || plan.GetMoves()[0].GetInstance().GetResources()["VGPU"] != 1 || len(plan.GetUnplaced()) != 1 {
		t.Fatal(plan)
	}
	if r := plan.GetUnplaced()[0].GetRefusal().GetRejects(); !slices.ContainsFunc(r, func(r *cellgatev1.RejectCount) bool { return r.GetFilter() == schedule.TreeFilter }) {
		t.Errorf("rejects: %v", r)
	}
}

// A plan checks the destination for the NUMA cells and devices of a claim.
func TestPlanDrain_Hardware_IsLookedFor(t *testing.T) {
	w := start(t, []*testCell{newCell(1, numaHost(1), numaHost(2), testHost(3, 4))}, func(cfg *Config) {
		patient(cfg)
		cfg.Filters = append(schedule.DefaultFilters(), schedule.NUMAFilter, schedule.PCIFilter)
		cfg.PCIAliases = []rules.PCIAlias{{Name: "gpu", VendorID: "10DE", ProductID: "1db6", DeviceType: "type-PCI"}}
	})
	build := func(n int, host string) {
		r := ask(n, 1)
		r.GetRequestSpec().Image = &cellgatev1.Image{Properties: map[string]string{"hw_numa_nodes": "2"}}
		r.GetRequestSpec().GetFlavor().ExtraSpecs = map[string]string{"pci_passthrough:alias": "gpu:1"}
		w.buildOn(host, r)
	}
	build(1, "host001")
	plan := w.planDrain("host001")
	if len(plan.GetMoves()) != 1 || plan.GetMoves()[0].GetToServiceHost() != "host002" || slices.Contains(plan.GetMoves()[0].GetInstance().GetUnknown(), cellgatev1.UnknownNeed_NEED_HARDWARE) {
		t.Fatal(plan)
	}
	build(2, "host002") // its one device is taken then
	plan = w.planDrain("host001")
	if len(plan.GetUnplaced()) != 1 || plan.GetUnplaced()[0].GetRefusal().GetNearest()[0].GetMisses()[0].GetFilter() != schedule.PCIFilter {
		t.Error(plan)
	}
	// For instances that no request placed, hardware needs are unknown.
	w.cells[0].report(testHost(3, 4), instance(testUUID(1, 7), testUUID(0xa, 3)))
	if i := w.planDrain("host003").GetMoves(); len(i) != 1 || !slices.Contains(i[0].GetInstance().GetUnknown(), cellgatev1.UnknownNeed_NEED_HARDWARE) {
		t.Error(i)
	}
}

// With Nova's spec an instance goes to a host with the required traits. The hosts that the spec forces or ignores are
// for its first boot, and do not count.
func TestPlanDrain_WithSpecs_HeedsWhatClaimsDoNotKeep(t *testing.T) {
	golden := testHost(3, 1)
	golden.Traits = []string{"CUSTOM_GOLD"}
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 4), golden)}, patient)
	w.buildOn("host001", ask(1, 2))
	spec := novaAsk(t, 1, func(spec, flavor map[string]any) {
		flavor["extra_specs"] = map[string]any{"trait:CUSTOM_GOLD": "required"}
		spec["force_hosts"], spec["ignore_hosts"] = []any{"host001"}, []any{"host003"}
	}).GetNovaRequestSpec()
	none := novaAsk(t, 1, func(_, flavor map[string]any) {
		flavor["extra_specs"] = map[string]any{"trait:CUSTOM_NOWHERE": "required"}
	}).GetNovaRequestSpec()
	client := cellgatev1.NewCapacityClient(w.conn)
	plan, err := client.PlanDrain(t.Context(), &cellgatev1.PlanDrainRequest{Hosts: []string{"host001"}, Specs: []*cellgatev1.InstanceSpec{
		{InstanceUuid: testUUID(1, 1), NovaRequestSpec: spec}, {InstanceUuid: testUUID(1, 2), NovaRequestSpec: none}, {InstanceUuid: testUUID(1, 99), NovaRequestSpec: none},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.GetMoves()) != 1 || plan.GetMoves()[0].GetToServiceHost() != "host003" || len(plan.GetMoves()[0].GetInstance().GetUnknown()) != 0 {
		t.Fatal(plan)
	}
	if u := plan.GetUnplaced(); len(u) != 1 || !strings.Contains(u[0].GetMessage(), "2 lack trait CUSTOM_NOWHERE") {
		t.Errorf("unplaced: %v", u)
	}
	got, err := client.PlanDrain(t.Context(), &cellgatev1.PlanDrainRequest{Hosts: []string{"host001"}, Specs: []*cellgatev1.InstanceSpec{{InstanceUuid: testUUID(1, 1), NovaRequestSpec: nested(limits.NovaDepth + 1)}}})
	if e := mustFail(t, got, err, fault.InvalidRequest); len(e.Fields) != 1 || e.Fields[0].Path != "specs[0].nova_request_spec" {
		t.Error(e)
	}
	// A spec that cannot be read does not spoil the plan.
	odd := novaAsk(t, 1, func(spec, _ map[string]any) { spec["flavor"] = "x" }).GetNovaRequestSpec()
	plan, err = client.PlanDrain(t.Context(), &cellgatev1.PlanDrainRequest{Hosts: []string{"host001"}, Specs: []*cellgatev1.InstanceSpec{{InstanceUuid: testUUID(1, 1), NovaRequestSpec: odd}}})
	if err != nil || len(plan.GetMoves()) != 1 || len(plan.GetUnplaced()) != 1 || !strings.Contains(plan.GetUnplaced()[0].GetMessage(), "flavor") {
		t.Error(plan, err)
	}
}
