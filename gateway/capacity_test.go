package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cellgate/gateway/rules"
	"cellgate/gateway/selection"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// countFitting counts naively what EstimateCapacity counts: one scheduler over all hosts places the shapes in turn.
func countFitting(t *rapid.T, hosts []schedule.Host, shapes []*cellgatev1.CapacityShape, seed uint64, most int) (counts []int, placed int, last *schedule.Proposal) {
	by, err := rules.Compile(rules.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := schedule.NewTable().Edit()
	for _, h := range hosts {
		e.PutHost(h)
	}
	table := e.Table()
	counts = make([]int, len(shapes))
	bound := make([]string, len(shapes)) // the host of the first member, under hard affinity
	for {
		for i, s := range shapes {
			request, _, err := by.Translation.Compile(selection.SpecOf(s.GetRequestSpec()))
			if err != nil {
				t.Fatal(err)
			}
			for range max(1, s.GetShare()) {
				if g := request.Group; g != nil && g.Policy == schedule.Affinity && bound[i] != "" && len(g.Hosts) > 0 {
					g.Hosts = []string{bound[i]}
				}
				use := by.For(s.GetRequestSpec().GetStrategy())
				p, err := table.Propose(&schedule.Query{Request: &request, Rules: use, Seed: seed, Limit: 1})
				if err != nil {
					t.Fatal(err)
				}
				if len(p.Candidates) == 0 || placed == most {
					return counts, placed, p
				}
				request.Group = request.OfNewMembers().Group
				e := table.Edit()
				e.Place(schedule.TentativePlacement{Host: p.Candidates[0].Host, Instance: testID(0xf, placed)}, &request, use)
				table = e.Table()
				counts[i]++
				placed++
				bound[i] = cmp.Or(bound[i], p.Candidates[0].ServiceHost)
			}
		}
	}
}

// drawShape draws a shape; hosts are those that its group may name.
func drawShape(t *rapid.T, i int, hosts []string) *cellgatev1.CapacityShape {
	spec := &cellgatev1.RequestSpec{
		Flavor: &cellgatev1.Flavor{
			Name: fmt.Sprint("flavor", i), Vcpus: int32(rapid.IntRange(1, 8).Draw(t, "vcpus")),
			MemoryMb: int32(rapid.IntRange(1, 16).Draw(t, "ram") * 1024), RootGb: int32(rapid.IntRange(1, 80).Draw(t, "disk")),
		},
		Strategy: rapid.SampledFrom([]string{"", "spread", "pack", "balanced", "nova"}).Draw(t, "strategy"),
	}
	if policy := rapid.SampledFrom([]string{"", "", "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"}).Draw(t, "policy"); policy != "" {
		spec.InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0xe, i), Policy: policy, MaxServerPerHost: int32(rapid.IntRange(0, 1).Draw(t, "per host") * 3)}
		if policy != "anti-affinity" {
			spec.InstanceGroup.MaxServerPerHost = 0
		}
		if policy == "affinity" && rapid.Bool().Draw(t, "hosts named") {
			spec.InstanceGroup.Hosts = rapid.SliceOfNDistinct(rapid.SampledFrom(hosts), 1, 3, rapid.ID[string]).Draw(t, "hosts of the group")
		}
	}
	return &cellgatev1.CapacityShape{
		Spec: &cellgatev1.CapacityShape_RequestSpec{RequestSpec: spec}, Share: int32(rapid.IntRange(0, 3).Draw(t, "share")),
	}
}

// However the hosts are split into cells, the estimate equals what one scheduler over all hosts places one by one.
func TestEstimate_RandomFleets_EqualsPlacingOneByOne(t *testing.T) {
	const cells = 4
	var drawn []*drawnCell
	var all []*testCell
	for i := range cells {
		c := newCell(i + 1)
		drawn, all = append(drawn, &drawnCell{testCell: c, hosts: map[string]schedule.Host{}}), append(all, c)
	}
	w := start(t, all, patient)
	client := cellgatev1.NewCapacityClient(w.conn)
	runs, mixed, full, grouped := 0, 0, 0, 0
	setChecks(t, 20, 200)
	rapid.Check(t, func(t *rapid.T) {
		runs++
		var hosts []schedule.Host
		split, names := make([][]schedule.Host, cells), []string{"elsewhere", "nowhere", "far"}
		for i := range rapid.IntRange(1, 12).Draw(t, "hosts") {
			c := rapid.IntRange(0, cells-1).Draw(t, "cell")
			h := testHost(100*c+i, rapid.IntRange(1, 2).Draw(t, "size"))
			h.View.NumIOOps = int64(rapid.IntRange(0, 3).Draw(t, "io"))
			used := int64(rapid.IntRange(0, 12).Draw(t, "used"))
			h.Resources[0].Used, h.View.VCPUsUsed = used, used
			h.Resources[1].Used, h.View.FreeRAMMB = used*4096, h.View.FreeRAMMB-used*4096
			h.Cell = drawn[c].uuid
			hosts, split[c], names = append(hosts, h), append(split[c], h), append(names, h.ServiceHost)
		}
		for i, c := range drawn {
			c.report(split[i])
		}
		req := &cellgatev1.EstimateCapacityRequest{Mode: rapid.SampledFrom([]cellgatev1.CapacityMode{cellgatev1.CapacityMode_EACH, cellgatev1.CapacityMode_MIX}).Draw(t, "mode")}
		for i := range rapid.IntRange(1, 3).Draw(t, "shapes") {
			req.Shapes = append(req.Shapes, drawShape(t, i, names))
		}
		most := 100_000
		if req.GetMode() == cellgatev1.CapacityMode_MIX && rapid.Bool().Draw(t, "limited") {
			most = rapid.IntRange(1, 20).Draw(t, "most")
			req.MaxInstances = int32(most)
		}
		got, err := client.EstimateCapacity(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		if !got.GetExact() || got.GetPartial() {
			t.Fatalf("exact %v, partial %v", got.GetExact(), got.GetPartial())
		}
		groups := [][]*cellgatev1.CapacityShape{req.GetShapes()}
		if req.GetMode() == cellgatev1.CapacityMode_EACH {
			groups = nil
			for _, s := range req.GetShapes() {
				groups = append(groups, []*cellgatev1.CapacityShape{s})
			}
		}
		at := 0
		for _, shapes := range groups {
			counts, placed, last := countFitting(t, hosts, shapes, got.GetSeed(), most)
			for i := range shapes {
				s := got.GetShapes()[at]
				at++
				if int(s.GetInstances()) != counts[i] {
					t.Fatalf("shape %d: %d, one by one %d\n%v", at, s.GetInstances(), counts[i], got)
				}
				sum, inCells := int32(0), int32(0)
				for _, r := range s.GetRejects() {
					sum += r.GetHosts()
				}
				for _, c := range s.GetCells() {
					inCells += c.GetInstances()
				}
				if sum != s.GetHosts() || inCells != s.GetInstances() || s.GetMessage() == "" {
					t.Fatalf("shape %d: counts do not add up: %v", at, s)
				}
				if s.GetEnd() == cellgatev1.CapacityEnd_FULL && last.Passed > 0 || s.GetEnd() == cellgatev1.CapacityEnd_LIMIT && placed < most {
					t.Fatalf("shape %d: ended by %s", at, s.GetEnd())
				}
				full += bit(s.GetEnd() == cellgatev1.CapacityEnd_FULL && s.GetInstances() > 0)
				grouped += bit(s.GetInstances() > 1 && shapes[i].GetRequestSpec().GetInstanceGroup() != nil)
			}
			mixed += bit(len(shapes) > 1 && placed > 2)
		}
	})
	for name, n := range map[string]int{"mixes": mixed, "full": full, "groups": grouped} {
		if n == 0 {
			t.Errorf("%d runs, none has %s", runs, name)
		}
	}
}

// A selection binds a group with hard affinity to the host of its first member, whatever hosts the request names for
// the group. The estimate equals the number of instances that can be claimed one by one.
func TestEstimate_AffinityWithSeveralHosts_EqualsSelecting(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)), newCell(2, testHost(3, 1))}, patient)
	req := inGroup(ask(0, 1), schedule.Affinity)
	req.GetRequestSpec().InstanceGroup.Hosts = []string{"host001", "host002", "host003"}
	got, err := cellgatev1.NewCapacityClient(w.conn).EstimateCapacity(context.Background(), &cellgatev1.EstimateCapacityRequest{
		Shapes: []*cellgatev1.CapacityShape{{Spec: &cellgatev1.CapacityShape_RequestSpec{RequestSpec: req.GetRequestSpec()}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	claimed := 0
	for ; ; claimed++ {
		next := proto.CloneOf(req)
		next.InstanceUuids = []string{testUUID(0x1, claimed)}
		if _, err := w.scheduler.SelectDestinations(context.Background(), next); err != nil {
			mustFail(t, nil, err, fault.NoValidHost)
			break
		}
	}
	if n := int(got.GetShapes()[0].GetInstances()); n != claimed || n != 8 {
		t.Errorf("%d are counted, %d were claimed", n, claimed)
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// oneShape asks for an estimate of a shape of 2 VCPU and 4 GiB: 8 fit on a host of size 1.
func oneShape(changes *cellgatev1.HypotheticalChanges) *cellgatev1.EstimateCapacityRequest {
	return &cellgatev1.EstimateCapacityRequest{
		Shapes:  []*cellgatev1.CapacityShape{{Spec: &cellgatev1.CapacityShape_RequestSpec{RequestSpec: ask(0, 1).GetRequestSpec()}}},
		Changes: changes,
	}
}

func TestEstimate_Changes_CountAsIfTheyWereMade(t *testing.T) {
	zoned := testHost(1, 1)
	zoned.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, 1), Name: "az1", Metadata: map[string]string{"availability_zone": "az1"}}}
	w := start(t, []*testCell{newCell(1, zoned, testHost(2, 1)), newCell(2, testHost(3, 2))}, patient)
	client := cellgatev1.NewCapacityClient(w.conn)
	host := func(n int) string { return testUUID(0xa, n) }
	inZone := func(r *cellgatev1.EstimateCapacityRequest) { r.Shapes[0].GetRequestSpec().AvailabilityZone = "az1" }
	for name, c := range map[string]struct {
		changes *cellgatev1.HypotheticalChanges
		also    func(*cellgatev1.EstimateCapacityRequest)
		want    [2]int32
	}{
		"none":         {want: [2]int32{16, 16}},
		"one cell":     {also: func(r *cellgatev1.EstimateCapacityRequest) { r.Cells = []string{"cell2"} }, want: [2]int32{0, 16}},
		"its uuid":     {also: func(r *cellgatev1.EstimateCapacityRequest) { r.Cells = []string{testUUID(0xc, 2)} }, want: [2]int32{0, 16}},
		"drained":      {changes: &cellgatev1.HypotheticalChanges{DrainedHosts: []string{host(1), host(3)}}, want: [2]int32{8, 0}},
		"added":        {changes: &cellgatev1.HypotheticalChanges{AddedHosts: []*cellgatev1.AddedHosts{{LikeHostUuid: host(3), Count: 2}}}, want: [2]int32{16, 48}},
		"ratio of all": {changes: &cellgatev1.HypotheticalChanges{Ratios: []*cellgatev1.RatioChange{{ResourceClass: "VCPU", AllocationRatio: 0.5}}}, want: [2]int32{8, 8}},
		"ratio of a host": {changes: &cellgatev1.HypotheticalChanges{Ratios: []*cellgatev1.RatioChange{
			{ResourceClass: "VCPU", AllocationRatio: 0.5, HostUuids: []string{host(1)}},
		}}, want: [2]int32{12, 16}},
		"ratio of an aggregate": {changes: &cellgatev1.HypotheticalChanges{Ratios: []*cellgatev1.RatioChange{
			{ResourceClass: "VCPU", AllocationRatio: 0.5, AggregateUuid: testUUID(0xd, 1)},
		}}, want: [2]int32{12, 16}},
		"zone": {also: inZone, want: [2]int32{8, 0}},
		"host joins the zone": {also: inZone, changes: &cellgatev1.HypotheticalChanges{Aggregates: []*cellgatev1.AggregateChange{
			{AggregateUuid: testUUID(0xd, 1), AddHostUuids: []string{host(2)}},
		}}, want: [2]int32{16, 0}},
		"host leaves the zone": {also: inZone, changes: &cellgatev1.HypotheticalChanges{Aggregates: []*cellgatev1.AggregateChange{
			{AggregateUuid: testUUID(0xd, 1), RemoveHostUuids: []string{host(1)}},
		}}, want: [2]int32{0, 0}},
		"zone is renamed": {also: inZone, changes: &cellgatev1.HypotheticalChanges{Aggregates: []*cellgatev1.AggregateChange{
			{AggregateUuid: testUUID(0xd, 1), Metadata: map[string]string{"availability_zone": "az2"}},
		}}, want: [2]int32{0, 0}},
		"a new zone": {also: inZone, changes: &cellgatev1.HypotheticalChanges{Aggregates: []*cellgatev1.AggregateChange{
			{AggregateUuid: testUUID(0xd, 2), AddHostUuids: []string{host(3)}, Metadata: map[string]string{"availability_zone": "az1"}},
		}}, want: [2]int32{8, 16}},
	} {
		t.Run(name, func(t *testing.T) {
			req := oneShape(c.changes)
			if c.also != nil {
				c.also(req)
			}
			got, err := client.EstimateCapacity(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			var cells [2]int32
			for _, x := range got.GetShapes()[0].GetCells() {
				cells[x.GetCell()[len("cell")]-'1'] = x.GetInstances()
			}
			if cells != c.want || got.GetPartial() {
				t.Errorf("%v fit, want %v: %s, of %v", cells, c.want, got.GetShapes()[0].GetMessage(), got.GetCells())
			}
		})
	}
	if n := w.liveClaims(); n != 0 {
		t.Errorf("%d claims were made", n)
	}
}

func TestEstimate_WrongRequest_NamesTheField(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, patient)
	client := cellgatev1.NewCapacityClient(w.conn)
	nowhere := testUUID(0xa, 99)
	for field, req := range map[string]*cellgatev1.EstimateCapacityRequest{
		"shapes":                                {},
		"changes.drained_hosts":                 oneShape(&cellgatev1.HypotheticalChanges{DrainedHosts: []string{nowhere}}),
		"changes.added_hosts":                   oneShape(&cellgatev1.HypotheticalChanges{AddedHosts: slices.Repeat([]*cellgatev1.AddedHosts{{LikeHostUuid: testUUID(0xa, 1), Count: 10_000}}, 6)}),
		"changes.added_hosts[0].like_host_uuid": oneShape(&cellgatev1.HypotheticalChanges{AddedHosts: []*cellgatev1.AddedHosts{{LikeHostUuid: nowhere, Count: 1}}}),
		"changes.ratios[0].resource_class":      oneShape(&cellgatev1.HypotheticalChanges{Ratios: []*cellgatev1.RatioChange{{ResourceClass: "X", AllocationRatio: 1}}}),
		"changes.aggregates[0].aggregate_uuid":  oneShape(&cellgatev1.HypotheticalChanges{Aggregates: []*cellgatev1.AggregateChange{{AggregateUuid: nowhere}}}),
		"shapes[0].request_spec.flavor":         {Shapes: []*cellgatev1.CapacityShape{{Spec: &cellgatev1.CapacityShape_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{}}}}},
		"cells":                                 {Shapes: oneShape(nil).Shapes, Cells: []string{"nowhere"}},
	} {
		got, err := client.EstimateCapacity(context.Background(), req)
		e := mustFail(t, got, err, fault.InvalidRequest)
		if len(e.Fields) == 0 || !strings.HasPrefix(e.Fields[0].Path, field) {
			t.Errorf("%s: %v names %v", field, e, e.Fields)
		}
	}
}

func TestEstimate_DeadCell_IsPartialAndNamesIt(t *testing.T) {
	dead := newCell(2, testHost(2, 1))
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), dead}, nil)
	client := cellgatev1.NewCapacityClient(w.conn)
	for _, s := range w.servers[1:2] {
		s.Stop()
	}
	got, err := client.EstimateCapacity(context.Background(), oneShape(nil))
	if err != nil {
		t.Fatal(err)
	}
	if !got.GetPartial() || got.GetShapes()[0].GetInstances() != 8 || got.GetCells()[1].GetOutcome() != cellgatev1.CellOutcome_UNAVAILABLE || got.GetCells()[1].GetReason() == "" {
		t.Errorf("got %v", got)
	}
}

// If no cell answers, it is not known that nothing fits.
func TestEstimate_NoCellAnswers_IsUnavailable(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	w.servers[0].Stop()
	for _, mode := range []cellgatev1.CapacityMode{cellgatev1.CapacityMode_EACH, cellgatev1.CapacityMode_MIX} {
		req := oneShape(nil)
		req.Mode = mode
		got, err := cellgatev1.NewCapacityClient(w.conn).EstimateCapacity(t.Context(), req)
		if e := mustFail(t, got, err, fault.CellUnavailable); e.Metadata["cells"] != "cell1" {
			t.Errorf("%s: %v, cells %q", mode, e, e.Metadata["cells"])
		}
	}
}

func TestEstimate_OnlyCellOfAShapeIsDead_IsUnavailable(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	w.servers[1].Stop()
	for _, mode := range []cellgatev1.CapacityMode{cellgatev1.CapacityMode_EACH, cellgatev1.CapacityMode_MIX} {
		req := oneShape(nil)
		req.Mode = mode
		req.GetShapes()[0].GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: "cell2"}
		got, err := cellgatev1.NewCapacityClient(w.conn).EstimateCapacity(t.Context(), req)
		if e := mustFail(t, got, err, fault.CellUnavailable); e.Metadata["cells"] != "cell2" {
			t.Errorf("%s: %v, cells %q", mode, e, e.Metadata["cells"])
		}
	}
}

func TestEstimate_OverREST(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, patient)
	rec := w.send("POST", "/v1/estimate_capacity", `{"shapes": [{"request_spec": {"flavor": {"name": "m1", "vcpus": 2, "memory_mb": 4096, "root_gb": 10}}}]}`)
	if body := rec.Body.String(); rec.Code != http.StatusOK || !strings.Contains(body, `"instances":8`) || !strings.Contains(body, "1 has too little VCPU") {
		t.Errorf("%d %s", rec.Code, body)
	}
}
