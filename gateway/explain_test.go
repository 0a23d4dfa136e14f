package gateway

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/internal/testlong"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// variedHosts are hosts of several sizes, fullness, traits and zones.
func variedHosts(rng *rand.Rand, n int) []schedule.Host {
	hosts := make([]schedule.Host, n)
	for i := range hosts {
		h := testHost(i, 1+rng.IntN(2))
		for k := range h.Resources {
			h.Resources[k].Used = rng.Int64N(h.Resources[k].Capacity + 1)
		}
		h.View.FreeRAMMB -= h.Resources[1].Used
		for _, trait := range []string{"CUSTOM_GOLD", "CUSTOM_FAST"} {
			if rng.IntN(2) == 0 {
				h.Traits = append(h.Traits, trait)
			}
		}
		n := rng.IntN(2)
		zone := fmt.Sprintf("az%d", n)
		h.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, n), Name: zone, Metadata: map[string]string{"availability_zone": zone}}}
		h.Disabled = rng.IntN(8) == 0
		hosts[i] = h
	}
	return hosts
}

// inCells deals hosts out to cells.
func inCells(hosts []schedule.Host, cells int) []*testCell {
	parts := make([][]schedule.Host, cells)
	for i, h := range hosts {
		parts[i%cells] = append(parts[i%cells], h)
	}
	out := make([]*testCell, cells)
	for i := range out {
		out[i] = newCell(i+1, parts[i]...)
	}
	return out
}

// Explain over three cells answers as over one cell with all hosts. Its best host is the one that a
// selection takes, and the scores add up.
func TestExplain_ThreeCells_RanksAsOneSchedulerAndAsSelect(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	hosts := variedHosts(rng, 60)
	three, one := start(t, inCells(hosts, 3), nil), start(t, inCells(hosts, 1), nil)
	for i := range 20 {
		req := ask(i, 1)
		req.RequestId, req.MaxAlternates, req.DryRun = fmt.Sprint("r", i), 20, true
		got, err := three.scheduler.ExplainDestinations(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		want, err := one.scheduler.ExplainDestinations(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		names := func(r *cellgatev1.ExplainDestinationsResponse) (out []string) {
			for _, h := range r.GetRanked() {
				out = append(out, fmt.Sprintf("%s %v", h.GetServiceHost(), h.GetWeight()))
			}
			return out
		}
		if g, w := names(got), names(want); !slices.Equal(g, w) || len(g) == 0 || !got.GetExact() {
			t.Fatalf("over three cells %v, over one %v", g, w)
		}
		best := got.GetRanked()[0]
		if sel := three.choose(req).GetDestinations()[0].GetSelected(); sel.GetComputeNodeUuid() != best.GetHostUuid() || sel.GetCell() != best.GetCell() {
			t.Errorf("select takes %s of %s, explain has %s of %s", sel.GetServiceHost(), sel.GetCell(), best.GetServiceHost(), best.GetCell())
		}
		sum := 0.0
		for _, s := range best.GetScores() {
			sum = s.GetScore() + sum
		}
		if sum != best.GetWeight() {
			t.Errorf("the scores of %v add up to %v", best, sum)
		}
		total := got.GetPassed()
		for _, r := range got.GetRejects() {
			total += r.GetHosts()
		}
		if got.GetHosts() != 60 || total != 60 {
			t.Errorf("%d hosts, %d counted", got.GetHosts(), total)
		}
	}
	if n := three.liveClaims(); n != 0 {
		t.Errorf("explaining made %d claims", n)
	}
}

// withChanges is a copy of a request with the changes of a near miss.
func withChanges(req *cellgatev1.SelectDestinationsRequest, misses []*cellgatev1.Miss) *cellgatev1.SelectDestinationsRequest {
	out := proto.CloneOf(req)
	spec := out.GetRequestSpec()
	for _, m := range misses {
		switch m.GetFilter() {
		case schedule.ResourceFilter:
			if spec.Resources == nil {
				spec.Resources = map[string]int32{}
			}
			spec.Resources[m.GetDetail()] = int32(m.GetMost())
		case schedule.TraitFilter:
			spec.RequiredTraits = slices.DeleteFunc(spec.RequiredTraits, func(x string) bool { return x == m.GetDetail() })
		case schedule.ZoneFilter:
			spec.AvailabilityZone = ""
		}
	}
	return out
}

// A refused request fits once it is changed as the first near miss says. No single condition that
// costs less to change makes it fit.
func TestRefusal_RandomFleets_SmallestChangeFitsAndNoSmallerOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	want, refusals, several := testlong.Or(5, 1000), 0, 0
	for refusals < want {
		w := start(t, inCells(variedHosts(rng, 5+rng.IntN(12)), 3), nil)
		fits := func(req *cellgatev1.SelectDestinationsRequest) bool {
			_, err := w.scheduler.SelectDestinations(context.Background(), req)
			return err == nil
		}
		for i := range 30 {
			req := ask(i, 1)
			req.DryRun = true
			spec := req.GetRequestSpec()
			spec.Resources = map[string]int32{"VCPU": 1 + rng.Int32N(32), "MEMORY_MB": 1 + rng.Int32N(100000), "DISK_GB": 1 + rng.Int32N(1500)}
			for _, trait := range []string{"CUSTOM_GOLD", "CUSTOM_FAST"} {
				if rng.IntN(2) == 0 {
					spec.RequiredTraits = append(spec.RequiredTraits, trait)
				}
			}
			if rng.IntN(2) == 0 {
				spec.AvailabilityZone = fmt.Sprintf("az%d", rng.IntN(3))
			}
			if fits(req) {
				continue
			}
			e := w.refused(req, fault.NoValidHost)
			d, ok := e.Detail.(*cellgatev1.NoValidHost)
			if !ok || len(d.GetNearest()) == 0 {
				t.Fatalf("the refusal has no near misses: %v", e)
			}
			first := d.GetNearest()[0]
			if !first.GetChangeable() {
				continue // every host is disabled, or has nothing left of a class
			}
			refusals++
			several += len(first.GetMisses()) / 2
			if d.GetSmallestChange() == "" {
				t.Errorf("no text for %v", first)
			}
			for _, change := range d.GetChanges() {
				if !fits(withChanges(req, change.GetMisses())) {
					t.Fatalf("%v does not fit after %q", spec, change.GetText())
				}
			}
			// A naive check: does any single condition, changed alone, cost less?
			for _, x := range []*cellgatev1.Miss{{Filter: schedule.ZoneFilter}, {Filter: schedule.TraitFilter, Detail: "CUSTOM_GOLD"}, {Filter: schedule.TraitFilter, Detail: "CUSTOM_FAST"}} {
				if first.GetCost() > 1 && fits(withChanges(req, []*cellgatev1.Miss{x})) {
					t.Fatalf("%v costs %v, but %v alone is enough", first, first.GetCost(), x)
				}
			}
			for class, asked := range spec.GetResources() {
				less := int64(math.Round(float64(asked) * (1 - min(first.GetCost(), 1))))
				if less+1 < int64(asked) && fits(withChanges(req, []*cellgatev1.Miss{{Filter: schedule.ResourceFilter, Detail: class, Most: less + 1}})) {
					t.Fatalf("%v costs %v, but %d of %s is enough", first, first.GetCost(), less+1, class)
				}
			}
		}
	}
	t.Logf("%d refusals, %d of several conditions", refusals, several)
	if several == 0 {
		t.Error("the fleets show too little")
	}
}

// A refusal says what the author of the request can change, and what an operator can.
func TestRefusal_DisabledAndFullHosts_TextsForTenantsAndOperators(t *testing.T) {
	small, off := testHost(1, 1), testHost(2, 4)
	off.Disabled = true
	w := start(t, []*testCell{newCell(1, small), newCell(2, off)}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().Resources = map[string]int32{"VCPU": 20}
	d, _ := w.refused(req, fault.NoValidHost).Detail.(*cellgatev1.NoValidHost)
	if want := "ask for at most 16 VCPU (asked 20, max_unit is 16)"; d.GetSmallestChange() != want {
		t.Errorf("the smallest change is %q, want %q", d.GetSmallestChange(), want)
	}
	if want := "host host002 of cell2: enable it"; d.GetSmallestOperatorChange() != want {
		t.Errorf("for operators it is %q, want %q", d.GetSmallestOperatorChange(), want)
	}
	var counts []string
	for _, c := range d.GetConditions() {
		counts = append(counts, fmt.Sprintf("%s(%s) %d %d", c.GetFilter(), c.GetDetail(), c.GetHosts(), c.GetAlone()))
	}
	if got, want := strings.Join(counts, ", "), "ResourceFilter(VCPU) 1 1, ComputeFilter(disabled) 1 1"; got != want {
		t.Errorf("conditions %q, want %q", got, want)
	}
}

// texts joins the texts of changes.
func texts(changes []*cellgatev1.RequestChange) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.GetText())
	}
	return strings.Join(all, "; ")
}

// A refusal names changes of each kind, the smallest first. It also names changes that would let in hosts and cells
// that the request excludes, and cells that were not asked because none of their hosts is large enough.
func TestRefusal_SeveralKindsOfChanges_LeastFirst(t *testing.T) {
	gold, full := testHost(1, 1), testHost(2, 1)
	gold.Traits = []string{"CUSTOM_GOLD"}
	full.Traits = []string{"CUSTOM_GOLD"}
	full.Resources[0].Used = 12
	w := start(t, []*testCell{newCell(1, gold, full), newCell(2, testHost(3, 2))}, nil)
	onHost := func(req *cellgatev1.SelectDestinationsRequest, host string) *cellgatev1.SelectDestinationsRequest {
		req.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Host: host}
		return req
	}
	forced := ask(3, 1)
	forced.GetRequestSpec().ForceHosts = []string{full.ServiceHost}
	large := func(req *cellgatev1.SelectDestinationsRequest, vcpus int32, traits ...string) *cellgatev1.SelectDestinationsRequest {
		req.GetRequestSpec().Resources, req.GetRequestSpec().RequiredTraits = map[string]int32{"VCPU": vcpus}, traits
		req.DryRun = true
		return req
	}
	for _, c := range []struct {
		name string
		req  *cellgatev1.SelectDestinationsRequest
		want string
	}{
		{"a cell that was not asked", large(ask(1, 1), 20, "CUSTOM_GOLD"), "ask for at most 16 VCPU (asked 20, max_unit is 16); do not require trait CUSTOM_GOLD"},
		{"a requested host", large(onHost(ask(2, 1), full.ServiceHost), 5), "ask for at most 4 VCPU (asked 5); name no host, node or cell"},
		{"a forced host", large(forced, 5), "ask for at most 4 VCPU (asked 5); name no host, node or cell"},
		{"a requested cell", large(to(ask(4, 1), "cell1"), 20), "ask for at most 16 VCPU (asked 20, max_unit is 16); name no host, node or cell"},
		{"several on a requested host", large(onHost(ask(5, 2), full.ServiceHost), 3), "ask for at most 1 of the 2 instances"},
		{"several on a requested cell", large(to(ask(6, 3), "cell1"), 10), "ask for at most 1 of the 3 instances"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := w.refused(c.req, fault.NoValidHost).Detail.(*cellgatev1.NoValidHost)
			if got := texts(d.GetChanges()); got != c.want {
				t.Errorf("changes %q, want %q", got, c.want)
			}
			why, err := w.scheduler.ExplainDestinations(context.Background(), c.req)
			if err != nil || texts(why.GetChanges()) != texts(d.GetChanges()) {
				t.Errorf("explain: changes %q, %v", texts(why.GetChanges()), err)
			}
			for _, change := range d.GetChanges() {
				w.choose(withChange(c.req, change))
			}
		})
	}
}

// The near misses of a refusal leave room in the 8 KiB of trailers that clients accept by default.
func TestRefusal_ManyConditions_DetailIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	w := start(t, inCells(variedHosts(rng, 120), 3), nil)
	req := ask(1, 1)
	spec := req.GetRequestSpec()
	spec.Resources = map[string]int32{"VCPU": 1000, "MEMORY_MB": 1 << 30, "DISK_GB": 1 << 20}
	spec.AvailabilityZone = "nowhere"
	for i := range 40 {
		spec.RequiredTraits = append(spec.RequiredTraits, fmt.Sprintf("CUSTOM_TRAIT_THAT_NO_HOST_HAS_%02d", i))
	}
	d, _ := w.refused(req, fault.NoValidHost).Detail.(*cellgatev1.NoValidHost)
	if len(d.GetNearest()) != 0 || len(d.GetConditions()) != 12 || d.GetSmallestChange() != "" {
		t.Errorf("%d near misses, %d conditions, change %q", len(d.GetNearest()), len(d.GetConditions()), d.GetSmallestChange())
	}
	small := func() {
		t.Helper()
		if n := proto.Size(d); n > 4<<10 {
			t.Errorf("the detail has %d bytes", n)
		}
	}
	small()
	spec.RequiredTraits = nil
	d, _ = w.refused(req, fault.NoValidHost).Detail.(*cellgatev1.NoValidHost)
	if len(d.GetNearest()) != 3 || d.GetSmallestChange() == "" {
		t.Errorf("%d near misses, change %q", len(d.GetNearest()), d.GetSmallestChange())
	}
	small()
}

// A request that fits needs no change, but the conditions that other hosts do not meet are shown.
func TestExplain_HostPasses_NoChangeIsNamed(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 64))}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().GetFlavor().Vcpus = 32
	resp, err := w.scheduler.ExplainDestinations(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetPassed() == 0 || len(resp.GetConditions()) == 0 || resp.GetSmallestChange() != "" || resp.GetSmallestOperatorChange() != "" {
		t.Errorf("%v", resp)
	}
}

// decided returns the decision of an answer once it is written. It needs a synctest bubble.
func (w *world) decided(resp *cellgatev1.SelectDestinationsResponse) *cellgatev1.Decision {
	w.t.Helper()
	w.written()
	d, err := w.decision(resp.GetDecisionId())
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// A decision keeps the best hosts of its moment, as explain ranks them just before: the chosen host first, with
// scores that add up to the weights.
func TestDecision_SelectionOverThreeCells_KeepsTheRankingThatExplainGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 1))
		w := start(t, inCells(variedHosts(rng, 60), 3), nil)
		for i := range 12 {
			req := ask(10*i, 1+i%3)
			req.RequestId, req.MaxAlternates, req.DryRun = fmt.Sprint("r", i), 20, i%2 == 0
			want, err := w.scheduler.ExplainDestinations(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			req.MaxAlternates = 0
			resp := w.choose(req)
			ranked := w.decided(resp).GetRanked()
			if n := len(ranked); n < min(2, int(want.GetPassed())) || n > 5 {
				t.Fatalf("%d hosts are kept of %d that passed", n, want.GetPassed())
			}
			if chosen := resp.GetDestinations()[0].GetSelected(); ranked[0].GetHostUuid() != chosen.GetComputeNodeUuid() || ranked[0].GetWeight() != chosen.GetWeight() {
				t.Errorf("first is kept %v, chosen was %v", ranked[0], chosen)
			}
			for k, h := range ranked {
				explained := want.GetRanked()[k]
				sum := 0.0
				for _, x := range h.GetScores() {
					sum += x.GetScore()
					if !slices.ContainsFunc(explained.GetScores(), func(y *cellgatev1.WeigherScore) bool { return proto.Equal(x, y) }) {
						t.Errorf("explain has no score %v of host %d", x, k)
					}
				}
				if h.GetHostUuid() != explained.GetHostUuid() || h.GetCell() != explained.GetCell() || h.GetWeight() != explained.GetWeight() || sum != h.GetWeight() {
					t.Errorf("host %d is kept as %v (sum %v), explained as %v", k, h, sum, explained)
				}
			}
		}
	})
}

// If the chosen host is not among the best hosts that a decision keeps, it is kept as the last.
func TestDecision_ChosenHostIsNotAmongTheBest_IsKeptLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := make([]schedule.Host, 30)
		for i := range hosts {
			hosts[i] = testHost(i, 1)
		}
		w := start(t, inCells(hosts, 2), func(c *Config) { c.Options = &rules.Options{HostSubsetSize: len(hosts)} })
		beyond := 0
		for i := range 10 {
			req := ask(i, 1)
			req.DryRun = true
			resp := w.choose(req)
			ranked := w.decided(resp).GetRanked()
			at := slices.IndexFunc(ranked, func(h *cellgatev1.RankedHost) bool {
				return h.GetHostUuid() == resp.GetDestinations()[0].GetSelected().GetComputeNodeUuid()
			})
			if at < 0 || len(ranked) != max(5, at+1) || at > 5 {
				t.Fatalf("chosen is %d of %d hosts that are kept", at, len(ranked))
			}
			if at == 5 {
				beyond++
			}
		}
		if beyond == 0 {
			t.Error("none was drawn from beyond the best")
		}
	})
}

func TestDecision_SampledRequest_NamesItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		const trace = "0af7651916cd43dd8448eb211c80319c"
		for i, tt := range []struct{ flags, want string }{{"01", trace}, {"00", ""}} {
			ctx := metadata.AppendToOutgoingContext(context.Background(), "traceparent", "00-"+trace+"-b7ad6b7169203331-"+tt.flags)
			resp, err := w.scheduler.SelectDestinations(ctx, ask(i, 1))
			if err != nil {
				t.Fatal(err)
			}
			if got := w.decided(resp).GetTraceId(); got != tt.want {
				t.Errorf("flags %s: trace %q, want %q", tt.flags, got, tt.want)
			}
		}
	})
}

// A cell that answers the merge, and not the question for its best hosts, makes the explanation partial.
func TestExplain_CellDoesNotRankItsHosts_IsPartial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		w.cells[0].hook(func(ctx context.Context, _ string, req any) error {
			b, _ := req.(*cellv1.ProposeBatchRequest)
			if slices.ContainsFunc(b.GetQueries(), func(q *cellv1.Query) bool { return q.GetNearMisses() > 0 }) {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, nil)
		got, err := w.scheduler.ExplainDestinations(t.Context(), ask(1, 1))
		if err != nil {
			t.Fatal(err)
		}
		if o := outcomes(got.GetCells()); o != "cell1 UNAVAILABLE, cell2 SEARCHED" || !got.GetPartial() || got.GetExact() || got.GetHosts() != 2 {
			t.Errorf("%s; partial %v, exact %v, %d hosts", o, got.GetPartial(), got.GetExact(), got.GetHosts())
		}
	})
}

// An explanation whose merge could not use one version of each table is not exact, as a selection.
func TestExplain_VersionNotKept_IsNotExact(t *testing.T) {
	w := start(t, twoCells(), nil)
	w.choose(askGroup(1, 1, "affinity")) // the next merge has two rounds: cells must know the other's members
	var pinned atomic.Int32
	for _, c := range w.cells {
		c.hook(func(_ context.Context, _ string, req any) error {
			b, _ := req.(*cellv1.ProposeBatchRequest)
			for _, q := range b.GetQueries() {
				if v := q.GetTableVersion(); v != "" {
					pinned.Add(1)
					q.TableVersion = v[:strings.LastIndex(v, ".")+1] + "999"
				}
			}
			return nil
		}, nil)
	}
	got, err := w.scheduler.ExplainDestinations(t.Context(), askGroup(2, 1, "affinity"))
	if err != nil || pinned.Load() < 2 || got.GetExact() || got.GetPartial() || len(got.GetRanked()) != 1 {
		t.Errorf("%d queries named a version; exact %v, partial %v, %d ranked, %v", pinned.Load(), got.GetExact(), got.GetPartial(), len(got.GetRanked()), err)
	}
}
