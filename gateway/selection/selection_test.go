package selection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
	"cellgate/schedule/merge"
	"cellgate/schedule/nova"
)

// No alternate is also a pick, even after scattering.
func TestScatteredAlternatesAreNobodysPick(t *testing.T) {
	bad := 0
	for seed := range uint64(200) {
		s := &selection{svc: &Service{}, request: &schedule.Request{}, callerInput: callerInput{alternates: 3, seed: seed}, race: race{losses: 2}}
		list := func() []schedule.Candidate {
			var l []schedule.Candidate
			for i := range 8 {
				l = append(l, schedule.Candidate{Host: hostID(10 + i)})
			}
			return l
		}
		m := &merged{result: &merge.Result{Picks: []merge.Pick{
			{Candidate: schedule.Candidate{Host: hostID(1)}, Alternates: list()},
			{Candidate: schedule.Candidate{Host: hostID(1)}, Alternates: list()},
			{Candidate: schedule.Candidate{Host: hostID(2)}, Alternates: list()},
		}}}
		s.spreadPicks(m)
		picked := map[schedule.ID]bool{}
		for _, p := range m.result.Picks {
			picked[p.Candidate.Host] = true
		}
		for _, p := range m.result.Picks {
			for _, a := range p.Alternates {
				if picked[a.Host] {
					bad++
				}
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d alternates of 200 requests are another instance's pick", bad)
	}
}

// A request that leaves the best host to others still gets as many alternates as it asked for, the best host first.
func TestSpreadPicks_AnotherHostPicked_BestHostIsAnAlternate(t *testing.T) {
	moved := 0
	for seed := range uint64(50) {
		s := &selection{svc: &Service{}, request: &schedule.Request{}, callerInput: callerInput{alternates: 2, seed: seed}, race: race{losses: 1}}
		p := merge.Pick{Candidate: schedule.Candidate{Host: hostID(0)}}
		for i := range s.planAlternates() {
			p.Alternates = append(p.Alternates, schedule.Candidate{Host: hostID(1 + i)})
		}
		m := &merged{result: &merge.Result{Picks: []merge.Pick{p}}}
		s.spreadPicks(m)
		p = m.result.Picks[0]
		if p.Candidate.Host == hostID(0) {
			continue
		}
		if moved++; len(p.Alternates) != 2 || p.Alternates[0].Host != hostID(0) {
			t.Fatalf("the alternates of %v are %v", p.Candidate.Host, p.Alternates)
		}
	}
	if moved == 0 {
		t.Error("no request left the best host")
	}
}

// An idle system takes the best host; the first losses spread the choice.
func TestSpreadGrowsWithLostRaces(t *testing.T) {
	s := &selection{svc: &Service{}, request: &schedule.Request{}, callerInput: callerInput{alternates: 1}}
	var got []string
	for _, losses := range []int{0, 1, 2, 3, 5, 60} {
		s.losses = losses
		got = append(got, fmt.Sprint(s.spread()))
	}
	if want := "1 2 4 8 32 32"; strings.Join(got, " ") != want {
		t.Errorf("spread is %v, want %s", got, want)
	}
	s.losses = 0
	pick := func() merge.Pick {
		p := merge.Pick{Candidate: schedule.Candidate{Host: hostID(0)}}
		for i := range 31 {
			p.Alternates = append(p.Alternates, schedule.Candidate{Host: hostID(1 + i)})
		}
		return p
	}
	m := &merged{result: &merge.Result{Picks: []merge.Pick{pick(), pick()}}}
	s.spreadPicks(m)
	for _, p := range m.result.Picks {
		if p.Candidate.Host != hostID(0) || len(p.Alternates) != 1 || p.Alternates[0].Host != hostID(1) || s.inexact != "" {
			t.Errorf("without a loss the pick became %v", p)
		}
	}
	s.losses = 9
	hosts := map[schedule.ID]int{}
	for seed := range uint64(200) {
		s.seed = seed
		m := &merged{result: &merge.Result{Picks: []merge.Pick{pick()}}}
		s.spreadPicks(m)
		p := m.result.Picks[0]
		hosts[p.Candidate.Host]++
		if slices.ContainsFunc(p.Alternates, func(c schedule.Candidate) bool { return c.Host == p.Candidate.Host }) {
			t.Fatalf("the pick is among its alternates: %v", p)
		}
	}
	if len(hosts) < 24 {
		t.Errorf("200 requests chose %d of 32 hosts", len(hosts))
	}
}

// Expressions of a request and of the configuration are part of its shape.
func TestShape_OtherExpression_OtherShape(t *testing.T) {
	seen := map[string]bool{}
	texts := []string{"", `host.io_ops < 5.0`, `host.io_ops < 6.0`}
	for _, configured := range texts {
		for _, asked := range texts {
			r := request(1)
			r.GetRequestSpec().FilterExpression = asked
			s, err := newService(t, rules.Config{FilterExpression: configured}).newSelection(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			seen[string(placementBytes(s.request, s.rules, schedule.ID{}))] = true
		}
	}
	if len(seen) != 9 {
		t.Errorf("9 pairs of expressions have %d shapes", len(seen))
	}
}

func TestNewSelection_RoutedNetworks_NeutronIsAskedForEachRequestThatNamesOne(t *testing.T) {
	const aggregate = "aaaaaaaa-0000-4000-8000-000000000001"
	svc := newService(t, rules.Config{Options: &rules.Options{HostSubsetSize: 1, RoutedNetworks: true}})
	ask := func(segments func(context.Context, []nova.RequestedNetwork) ([][]string, error), networks ...any) (*selection, error) {
		t.Helper()
		svc.Segments = segments
		object := func(name string, data map[string]any) map[string]any {
			return map[string]any{"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": data}
		}
		spec, err := structpb.NewStruct(object("RequestSpec", map[string]any{
			"flavor":             object("Flavor", map[string]any{"vcpus": 1, "memory_mb": 1, "root_gb": 1}),
			"requested_networks": object("NetworkRequestList", map[string]any{"objects": networks}),
		}))
		if err != nil {
			t.Fatal(err)
		}
		return svc.newSelection(t.Context(), &cellgatev1.SelectDestinationsRequest{
			InstanceUuids: []string{hostID(1).String()}, Spec: &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: spec},
		})
	}
	network := map[string]any{"nova_object.name": "NetworkRequest", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": map[string]any{"network_id": "n"}}
	asked := 0
	known := func(_ context.Context, all []nova.RequestedNetwork) ([][]string, error) {
		asked++
		if len(all) != 1 || all[0].Network != "n" {
			t.Errorf("asked for %v", all)
		}
		return [][]string{{aggregate}}, nil
	}
	for range 2 { // one request's answers are not another's
		if s, err := ask(known, network); err != nil || len(s.request.MemberOf) != 1 || s.request.MemberOf[0][0] != aggregate {
			t.Fatalf("%+v %v", s, err)
		}
	}
	if s, err := ask(known); err != nil || len(s.request.MemberOf) != 0 || asked != 2 {
		t.Errorf("no network is named, %d questions: %+v %v", asked, s, err)
	}
	away := func(context.Context, []nova.RequestedNetwork) ([][]string, error) {
		return nil, fault.New(fault.CellUnavailable, "Neutron is away")
	}
	if _, err := ask(away, network); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("Neutron is away: %v", err)
	}
	if _, err := ask(nil, network); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("nobody can be asked: %v", err)
	}
}

// A request waits for an equal request that runs, but no longer than its deadline, and leaves nothing behind.
func TestTakeTurn_DeadlinePasses_OutcomeUnknown(t *testing.T) {
	svc, req := newService(t, rules.Config{}), request(1)
	req.RequestId = "r1"
	s, err := svc.newSelection(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	leave, err := s.takeTurn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.takeTurn(ctx); fault.KindOf(err) != fault.OutcomeUnknown || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	leave()
	if n := len(svc.flights.running); n != 0 {
		t.Errorf("%d turns are left", n)
	}
}

func TestLimitsOf_Networks_AsNovaHasThem(t *testing.T) {
	const numa = `"numa_topology": {"nova_object.name": "NUMATopologyLimits", "nova_object.namespace": "nova", "nova_object.version": "1.1",
		"nova_object.data": {"cpu_allocation_ratio": 16, "ram_allocation_ratio": 1.5`
	got := limitsOf(&schedule.Limits{NUMA: &schedule.NUMALimits{CPURatio: 16, RAMRatio: 1.5}},
		&schedule.NovaRequest{Guest: hardware.Guest{Networks: &hardware.NetworkNeeds{Physnets: []string{"p1", "p2"}, Tunneled: true}}})
	want := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(`{`+numa+`, "network_metadata": {"nova_object.name": "NetworkMetadata", "nova_object.namespace": "nova",
		"nova_object.version": "1.0", "nova_object.data": {"physnets": ["p1", "p2"], "tunneled": true}}}}}`), want); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("with networks %v\nwant %v", got, want)
	}
}

func TestHintsForgetTheShapeUnusedForLongest(t *testing.T) {
	h := newShapes(2)
	shapes := []shape{{1}, {2}, {3}}
	h.put(shapes[0], schedule.GlobalStats{Passed: 1})
	h.put(shapes[1], schedule.GlobalStats{Passed: 2})
	h.get(shapes[0])
	h.put(shapes[2], schedule.GlobalStats{Passed: 3})
	h.put(shapes[2], schedule.GlobalStats{Passed: 4})
	if h.get(shapes[1]) != nil || h.get(shapes[0]).Passed != 1 || h.get(shapes[2]).Passed != 4 {
		t.Errorf("known are %v, %v, %v", h.get(shapes[0]), h.get(shapes[1]), h.get(shapes[2]))
	}
}

// Values of hosts that cannot be used are counted in the answer, by cell.
func TestWarningsAreInTheReport(t *testing.T) {
	r := reportOf(&schedule.Proposal{Hosts: 3, Warnings: []schedule.Warning{{Key: "ram_weight_multiplier", Hosts: 2}}})
	if w := r.GetWarnings(); len(w) != 1 || w[0].GetKey() != "ram_weight_multiplier" || w[0].GetHosts() != 2 {
		t.Errorf("warnings %v", w)
	}
}

// Of two pending claims of one request, the claim of the later attempt was answered last.
func TestTheLaterAttemptStands(t *testing.T) {
	at := time.Unix(1000, 0)
	claim := func(id, attempt string, made int, state cellgatev1.ClaimState) existingClaim {
		return existingClaim{
			claim:  &cellgatev1.Claim{ClaimId: id, State: state, CreatedAt: timestamppb.New(at.Add(time.Duration(made) * time.Second))},
			origin: &cellv1.ClaimOrigin{Attempt: attempt},
		}
	}
	const pending, confirmed = cellgatev1.ClaimState_PENDING, cellgatev1.ClaimState_CONFIRMED
	for _, tt := range []struct {
		name  string
		a, b  existingClaim
		first string
	}{
		{"came late", claim("x", "1", 9, pending), claim("y", "2", 5, pending), "y"},
		{"one attempt", claim("x", "1", 9, pending), claim("y", "1", 5, pending), "x"},
		{"confirmed", claim("x", "1", 1, confirmed), claim("y", "2", 5, pending), "x"},
		{"of an older gateway", claim("x", "", 9, pending), claim("y", "2", 5, pending), "y"},
	} {
		for _, list := range [][]existingClaim{{tt.a, tt.b}, {tt.b, tt.a}} {
			if got := slices.MinFunc(list, compareHeld).claim.GetClaimId(); got != tt.first {
				t.Errorf("%s: %s stands", tt.name, got)
			}
		}
	}
}
