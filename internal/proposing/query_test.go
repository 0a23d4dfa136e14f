package proposing

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cellgate/internal/fault"
	"cellgate/internal/proposing/proposingtest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// hostA is a uuid.
const hostA = "aaaaaaaa-0000-4000-8000-000000000001"

// some draws a list that is nil when empty, as it comes from the wire.
func some[T any](t *rapid.T, label string, g *rapid.Generator[T]) []T {
	return slices.Clip(append([]T(nil), rapid.SliceOfN(g, 0, 3).Draw(t, label)...))
}

func drawID(t *rapid.T) schedule.ID {
	var id schedule.ID
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	return id
}

func drawQuery(t *rapid.T) *schedule.Query {
	name := rapid.StringMatching(`[A-Z_]{1,8}`)
	ids := rapid.Custom(drawID)
	names := rapid.Custom(func(t *rapid.T) []string { return some(t, "set", name) })
	req := &schedule.Request{
		Required: some(t, "required", name), Forbidden: some(t, "forbidden", name),
		AnyOf: some(t, "any", names), MemberOf: some(t, "member of", names),
		ForbiddenAggregates: some(t, "forbidden aggregates", name),
		AvailabilityZone:    rapid.SampledFrom([]string{"", "west"}).Draw(t, "zone"),
		IgnoreUUIDs:         some(t, "ignore uuids", ids),
		IgnoreHosts:         some(t, "ignore", name), ForceHosts: some(t, "force", name), ForceNodes: some(t, "nodes", name),
		CheckForced: rapid.Bool().Draw(t, "check forced"),
		Consume: schedule.Consumption{
			VCPUs: rapid.Int64Range(0, 1<<20).Draw(t, "vcpus"), RAMMB: rapid.Int64Range(0, 1<<30).Draw(t, "ram"),
			DiskMB: rapid.Int64Range(0, 1<<40).Draw(t, "disk"),
		},
	}
	for _, class := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(t, "classes") {
		req.Resources = append(req.Resources, schedule.Amount{Class: class, N: rapid.Int64Range(1, math.MaxInt32).Draw(t, "n")})
	}
	if rapid.Bool().Draw(t, "tree") {
		req.Tree = &schedule.Tree{
			Required: some(t, "tree required", name), Forbidden: some(t, "tree forbidden", name), Both: some(t, "both", name), Isolate: rapid.Bool().Draw(t, "isolate"),
			SameSubtree: some(t, "same subtree", names),
			Groups: some(t, "groups", rapid.Custom(func(t *rapid.T) schedule.ResourceGroup {
				return schedule.ResourceGroup{
					Suffix: name.Draw(t, "suffix"), Required: some(t, "required", name), Forbidden: some(t, "forbidden", name),
					Resources: []schedule.Amount{{Class: "VGPU", N: rapid.Int64Range(1, 8).Draw(t, "n")}},
				}
			})),
		}
	}
	if rapid.Bool().Draw(t, "fallback") {
		req.Fallback = &schedule.Fallback{
			Resources: []schedule.Amount{{Class: "VCPU", N: rapid.Int64Range(1, 64).Draw(t, "n")}},
			Required:  some(t, "fallback required", name), Forbidden: some(t, "fallback forbidden", name),
		}
	}
	if rapid.Bool().Draw(t, "destination") {
		req.Destination = &schedule.Destination{Host: "h", Node: "n", Cell: "c", AllowCrossCellMove: rapid.Bool().Draw(t, "move")}
	}
	if rapid.Bool().Draw(t, "group") {
		req.Group = &schedule.Group{
			UUID:       drawID(t),
			Policy:     rapid.SampledFrom([]schedule.Policy{schedule.Affinity, schedule.AntiAffinity, schedule.SoftAffinity, schedule.SoftAntiAffinity}).Draw(t, "policy"),
			MaxPerHost: rapid.IntRange(0, 5).Draw(t, "max"), Members: some(t, "members", ids), Hosts: some(t, "hosts", name),
			MembersExact: rapid.Bool().Draw(t, "exact"),
		}
	}
	q := &schedule.Query{
		Request: req, Seed: rapid.Uint64().Draw(t, "seed"), Limit: rapid.IntRange(1, 100).Draw(t, "limit"),
		Rules: &schedule.Rules{Filters: some(t, "filters", name), DefaultAvailabilityZone: "nova"},
		Takes: some(t, "takes", rapid.Custom(func(t *rapid.T) schedule.Take {
			return schedule.Take{Host: drawID(t), Instance: drawID(t)}
		})),
	}
	q.Rules.Weighers = some(t, "weighers", rapid.Custom(func(t *rapid.T) schedule.Weigher {
		return schedule.Weigher{Name: name.Draw(t, "name"), Multiplier: rapid.Float64Range(-10, 10).Draw(t, "multiplier")}
	}))
	if rapid.Bool().Draw(t, "known") {
		q.Known = &schedule.Knowledge{
			Passed: rapid.Int64Range(0, 1<<40).Draw(t, "passed"), GroupHosts: some(t, "group hosts", name),
			GroupHostsKnown: rapid.Bool().Draw(t, "group hosts known"),
			Bounds: some(t, "bounds", rapid.Custom(func(t *rapid.T) schedule.Bounds {
				return schedule.Bounds{Min: rapid.Float64().Draw(t, "min"), Max: math.Inf(-1)}
			})),
		}
	}
	return q
}

func TestQueryComesBackFromTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawQuery(t)
		consumers := []string{drawID(t).String()}
		raw, err := proto.Marshal(proposingtest.Query(want, "r-1.5", consumers, rapid.Bool().Draw(t, "flat")))
		if err != nil {
			t.Fatal(err)
		}
		var in cellv1.Query
		if err := proto.Unmarshal(raw, &in); err != nil {
			t.Fatal(err)
		}
		got, _, gotConsumers, err := NewShapes().QueryOf(&in)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v %+v\nwant %+v %+v", got, got.Request, want, want.Request)
		}
		if !slices.Equal(gotConsumers, consumers) {
			t.Errorf("consumers are %v, want %v", gotConsumers, consumers)
		}
	})
}

func TestQueryNamesItsBadFields(t *testing.T) {
	in := &cellv1.Query{
		Placement: serialized(&cellv1.Placement{
			Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}, {ResourceClass: "VCPU", Amount: -1}, {Amount: 1}},
			Group:     &cellv1.Group{Uuid: "x", Policy: "sometimes", Members: []string{hostA, "y"}},
			Rules:     &cellv1.Rules{Weighers: []*cellv1.Weigher{{Name: "RAMWeigher", Multiplier: math.NaN()}}},

			IgnoreHostUuids: []string{hostA, "w"},
		}),
		Known:         &cellv1.Knowledge{Bounds: []*cellv1.Bounds{{Min: math.NaN()}}, BoundsFlat: []float64{1, 2, 3, math.NaN()}},
		Takes:         []*cellv1.Take{{HostUuid: hostA, InstanceUuid: "z"}},
		ConsumerUuids: []string{hostA, ""},
	}
	_, _, _, err := NewShapes().QueryOf(in)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Fatalf("got %v", err)
	}
	var paths []string
	for _, field := range f.Fields {
		paths = append(paths, field.Path)
	}
	want := []string{
		"limit", "placement.resources[1].amount", "placement.resources[1].resource_class",
		"placement.resources[2].resource_class", "placement.group.policy", "placement.group.uuid",
		"placement.group.members[1]", "placement.ignore_host_uuids[1]", "placement.rules.weighers[0].multiplier", "known.bounds[0]", "known.bounds_flat[1]",
		"takes[0].instance_uuid", "consumer_uuids[1]",
	}
	slices.Sort(paths)
	slices.Sort(want)
	if !slices.Equal(paths, want) {
		t.Errorf("named %v\nwant  %v", paths, want)
	}
	if _, _, _, err := NewShapes().QueryOf(&cellv1.Query{Limit: 1}); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("without a placement: %v", err)
	}
}

func TestProposalGoesToTheWireWhole(t *testing.T) {
	host, err := schedule.ParseID(hostA)
	if err != nil {
		t.Fatal(err)
	}
	other := schedule.ID{9}
	answer := &schedule.Proposal{
		Hosts: 9, Passed: 2,
		Rejects:    []schedule.Reject{{Filter: "JsonFilter", Detail: "unreadable", Hosts: 7, Example: "h2", Class: "TypeError", Message: "no number"}},
		Bounds:     []schedule.Bounds{{Min: math.Inf(1), Max: math.Inf(-1)}, {Min: 0, Max: 4.5}},
		GroupHosts: []schedule.GroupHost{{Host: host, ServiceHost: "h1", Members: 3}},
		Candidates: []schedule.Candidate{{
			Host: host, ServiceHost: "h1", NodeName: "n1", Zone: "west",
			Raw: []float64{1, 2.25}, Weight: -0.5, Tie: math.MaxUint64, Multipliers: []float64{1, -3},
		}, {Host: other, ServiceHost: "h2", NodeName: "h2", Zone: "west", Raw: []float64{3, 4}, Weight: -1, Tie: 7, Limits: &schedule.Limits{
			NUMA: &schedule.NUMALimits{CPURatio: 16, RAMRatio: 1.5}, MemoryMB: new(int64),
		}}},
		Multipliers: []schedule.Bounds{{Min: 1, Max: 1}, {Min: -3, Max: 1}},
		Warnings:    []schedule.Warning{{Key: "ram_weight_multiplier", Hosts: 4, Example: "h3"}, {Key: "CPUWeigher", Hosts: 1, Example: "h1", Class: "TypeError", Message: "no ratio"}},
		Raised:      &schedule.Raised{Stage: "filter", Filter: "JsonFilter", Host: "h1", Class: "KeyError", Message: "'~'"},
	}
	want := &cellv1.Proposal{
		Hosts: 9, Passed: 2,
		Rejects:    []*cellv1.Reject{{Filter: "JsonFilter", Detail: "unreadable", Hosts: 7, Example: "h2", ExceptionClass: "TypeError", ExceptionMessage: "no number"}},
		Bounds:     []*cellv1.Bounds{{Min: math.Inf(1), Max: math.Inf(-1)}, {Min: 0, Max: 4.5}},
		GroupHosts: []*cellv1.GroupHost{{HostUuid: hostA, ServiceHost: "h1", Members: 3}},
		Candidates: []*cellv1.Candidate{{
			HostUuid: hostA, ServiceHost: "h1", Nodename: "n1", AvailabilityZone: "west",
			Raw: []float64{1, 2.25}, Weight: -0.5, Tie: math.MaxUint64, Multipliers: []float64{1, -3},
		}, {
			HostUuid: other.String(), ServiceHost: "h2", Nodename: "h2", AvailabilityZone: "west",
			Raw: []float64{3, 4}, Weight: -1, Tie: 7,
		}},
		Multipliers: []*cellv1.Bounds{{Min: 1, Max: 1}, {Min: -3, Max: 1}},
		Warnings:    []*cellv1.Warning{{Key: "ram_weight_multiplier", Hosts: 4, Example: "h3"}, {Key: "CPUWeigher", Hosts: 1, Example: "h1", ExceptionClass: "TypeError", ExceptionMessage: "no ratio"}},
		Raised:      &cellv1.Raised{Stage: "filter", Filter: "JsonFilter", Host: "h1", Class: "KeyError", Message: "'~'"},
	}
	if got := proposalOf(answer, false); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	want.Bounds, want.Candidates, want.Multipliers = nil, nil, nil
	want.BoundsFlat, want.MultipliersFlat = []float64{math.Inf(1), math.Inf(-1), 0, 4.5}, []float64{1, 1, -3, 1}
	want.Columns = &cellv1.Candidates{
		HostUuids: append(host[:], other[:]...), ServiceHosts: []string{"h1", "h2"}, Nodenames: []string{"n1", ""},
		Zones: []string{"west"}, Zone: []int32{0, 0}, Raw: []float64{1, 2.25, 3, 4}, Weights: []float64{-0.5, -1},
		Ties: []uint64{math.MaxUint64, 7}, Own: []int32{0}, Multipliers: []float64{1, -3},
		Limited: []int32{1}, Limits: []*cellv1.HostLimits{{
			NumaCpuAllocationRatio: proto.Float64(16), NumaRamAllocationRatio: proto.Float64(1.5), MemoryMb: proto.Int64(0),
		}},
	}
	if got := proposalOf(answer, true); !proto.Equal(got, want) {
		t.Errorf("in columns\ngot  %v\nwant %v", got, want)
	}
}
