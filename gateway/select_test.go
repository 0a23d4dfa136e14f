package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

func TestSelectOne(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 2)), newCell(2, testHost(3, 4), testHost(4, 3))}, nil)
	req := ask(1, 1)
	req.ReturnAlternates = true
	resp := w.choose(req)
	if !resp.GetExact() || resp.GetPartial() || !strings.HasPrefix(resp.GetDecisionId(), "cell2.") {
		t.Errorf("exact %v, partial %v, decision %q", resp.GetExact(), resp.GetPartial(), resp.GetDecisionId())
	}
	d := resp.GetDestinations()[0]
	s := d.GetSelected()
	if s.GetServiceHost() != "host003" || s.GetNodename() != "node003" || s.GetCell() != "cell2" ||
		s.GetCellUuid() != testUUID(0xc, 2) || s.GetComputeNodeUuid() != testUUID(0xa, 3) || s.GetAvailabilityZone() != "nova" {
		t.Errorf("selected %v", s)
	}
	want := `{"allocations":{"` + testUUID(0xa, 3) + `":{"resources":{"DISK_GB":10,"MEMORY_MB":4096,"VCPU":2}}},"mappings":{"":["` + testUUID(0xa, 3) + `"]}}`
	if s.GetAllocationRequest() != want || s.GetAllocationRequestVersion() != "1.36" {
		t.Errorf("allocation_request %s, version %s; want %s", s.GetAllocationRequest(), s.GetAllocationRequestVersion(), want)
	}
	live := w.cells[1].live()
	if len(live) != 1 || w.liveClaims() != 1 {
		t.Fatalf("claims in cell2: %v", live)
	}
	c := live[0]
	if !s.GetClaimed() || s.GetClaimId() != c.GetClaimId() || s.GetClaimState() != cellgatev1.ClaimState_PENDING ||
		!s.GetClaimExpiresAt().AsTime().Equal(c.GetExpiresAt().AsTime()) {
		t.Errorf("selection %v, claim %v", s, c)
	}
	if c.GetDecisionId() != resp.GetDecisionId() || c.GetProjectId() != "p1" || c.GetUserId() != "u1" ||
		c.GetExpiresAt().AsTime().Sub(c.GetCreatedAt().AsTime()) != claims.DefaultTTL {
		t.Errorf("claim %v", c)
	}
	if len(d.GetAlternates()) != 1 || d.GetAlternates()[0].GetServiceHost() != "host004" || d.GetAlternates()[0].GetClaimed() {
		t.Errorf("alternates %v", d.GetAlternates())
	}
	if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 SEARCHED" {
		t.Errorf("cells: %s", got)
	}
	if r := resp.GetCells()[0]; r.GetHosts() != 2 || r.GetPassed() != 2 || r.GetSource() != cellgatev1.CellSource_NATIVE {
		t.Errorf("report %v", r)
	}
}

func TestSelectWithoutAlternatesGivesNone(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 2))}, nil)
	if d := w.choose(ask(1, 1)).GetDestinations()[0]; len(d.GetAlternates()) != 0 {
		t.Errorf("alternates %v", d.GetAlternates())
	}
}

func TestSelectSeveralInOrder(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)), newCell(2, testHost(3, 1))}, nil)
	req := ask(1, 6)
	req.ReturnAlternates = true
	resp := w.choose(req)
	hosts := map[string]int{}
	for i, d := range resp.GetDestinations() {
		if d.GetInstanceUuid() != req.GetInstanceUuids()[i] {
			t.Errorf("destination %d is of %s", i, d.GetInstanceUuid())
		}
		hosts[d.GetSelected().GetServiceHost()]++
		for _, a := range d.GetAlternates() {
			if slices.ContainsFunc(resp.GetDestinations(), func(o *cellgatev1.Destinations) bool {
				return o.GetSelected().GetComputeNodeUuid() == a.GetComputeNodeUuid()
			}) {
				t.Errorf("alternate %s was selected too", a.GetServiceHost())
			}
		}
	}
	// Equal hosts, spread: two each.
	for h, n := range hosts {
		if n != 2 {
			t.Errorf("%s got %d", h, n)
		}
	}
	if w.liveClaims() != 6 {
		t.Errorf("%d claims", w.liveClaims())
	}
}

func TestDryRunClaimsNothing(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	req := ask(1, 2)
	req.DryRun = true
	resp := w.choose(req)
	for _, d := range resp.GetDestinations() {
		if s := d.GetSelected(); s.GetClaimed() || s.GetClaimId() != "" || s.GetClaimState() != 0 || s.GetServiceHost() != "host001" {
			t.Errorf("selected %v", s)
		}
	}
	if w.liveClaims() != 0 {
		t.Errorf("%d claims", w.liveClaims())
	}
}

func TestSameRequestIDSameTies(t *testing.T) {
	var hosts []schedule.Host
	for i := range 32 {
		hosts = append(hosts, testHost(i, 1))
	}
	w := start(t, []*testCell{newCell(1, hosts[:16]...), newCell(2, hosts[16:]...)}, nil)
	chosen := map[string]bool{}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		req := ask(1, 1)
		req.RequestId, req.DryRun = id, true
		first := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost()
		if again := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost(); again != first {
			t.Errorf("request %s: %s, then %s", id, first, again)
		}
		chosen[first] = true
	}
	if len(chosen) < 2 {
		t.Errorf("six requests over 32 equal hosts all chose %v", chosen)
	}
}

func TestStrategies(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 4))}, nil)
	for strategy, want := range map[string]string{
		"": "host002", "spread": "host002", "nova": "host002", "balanced": "host002", "pack": "host001",
	} {
		req := ask(1, 1)
		req.DryRun = true
		req.GetRequestSpec().Strategy = strategy
		if got := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost(); got != want {
			t.Errorf("strategy %q chose %s, not %s", strategy, got, want)
		}
	}
}

func TestRouteLeavesOutWhatCannotHold(t *testing.T) {
	zoned, traited := testHost(2, 4), testHost(3, 4)
	zoned.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, 1), Name: "z", Metadata: map[string]string{"availability_zone": "az2"}}}
	traited.Traits = []string{"CUSTOM_FAST"}
	cells := []*testCell{newCell(1, testHost(1, 1)), newCell(2, zoned), newCell(3, traited), newCell(4, testHost(4, 9))}
	w := start(t, cells, func(c *Config) { c.Cells[3].Disabled = true })
	for _, tt := range []struct {
		name   string
		change func(*cellgatev1.RequestSpec)
		want   string
	}{
		{"none", func(*cellgatev1.RequestSpec) {}, "cell1 SEARCHED, cell2 SEARCHED, cell3 SEARCHED, cell4 SKIPPED"},
		{
			"size", func(r *cellgatev1.RequestSpec) { r.Flavor.Vcpus = 17 },
			"cell1 SKIPPED, cell2 SEARCHED, cell3 SEARCHED, cell4 SKIPPED",
		},
		{
			"trait", func(r *cellgatev1.RequestSpec) { r.RequiredTraits = []string{"CUSTOM_FAST"} },
			"cell1 SKIPPED, cell2 SKIPPED, cell3 SEARCHED, cell4 SKIPPED",
		},
		{
			"zone", func(r *cellgatev1.RequestSpec) { r.AvailabilityZone = "az2" },
			"cell1 SKIPPED, cell2 SEARCHED, cell3 SKIPPED, cell4 SKIPPED",
		},
		{
			"default zone", func(r *cellgatev1.RequestSpec) { r.AvailabilityZone = "nova" },
			"cell1 SEARCHED, cell2 SKIPPED, cell3 SEARCHED, cell4 SKIPPED",
		},
		{
			"aggregate", func(r *cellgatev1.RequestSpec) {
				r.MemberOf = []*cellgatev1.AggregateSet{{Aggregates: []string{testUUID(0xd, 1)}}}
			},
			"cell1 SKIPPED, cell2 SEARCHED, cell3 SKIPPED, cell4 SKIPPED",
		},
		{
			"destination by name", func(r *cellgatev1.RequestSpec) {
				r.RequestedDestination = &cellgatev1.Destination{Cell: "cell1"}
			},
			"cell1 SEARCHED, cell2 SKIPPED, cell3 SKIPPED, cell4 SKIPPED",
		},
		{
			"destination by uuid, others allowed", func(r *cellgatev1.RequestSpec) {
				r.RequestedDestination = &cellgatev1.Destination{Cell: testUUID(0xc, 1), AllowCrossCellMove: true}
			},
			"cell1 SEARCHED, cell2 SEARCHED, cell3 SEARCHED, cell4 SKIPPED",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := ask(1, 1)
			req.DryRun = true
			tt.change(req.GetRequestSpec())
			resp := w.choose(req)
			if got := outcomes(resp.GetCells()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			for _, c := range resp.GetCells() {
				if (c.GetOutcome() == cellgatev1.CellOutcome_SKIPPED) != (c.GetReason() != "") {
					t.Errorf("report %v", c)
				}
			}
		})
	}
}

// The summary is out of date: a host that is large enough was added since.
func TestNoHostIsDoubtedInSkippedCells(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	w.cells[0].report(testHost(2, 4))
	req := ask(1, 1)
	req.GetRequestSpec().Flavor.Vcpus = 40
	resp := w.choose(req)
	if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED" || resp.GetDestinations()[0].GetSelected().GetServiceHost() != "host002" {
		t.Errorf("%s: %v", got, resp.GetDestinations())
	}
}

// No host of either cell is large enough, and one cell is away. Its summary decides: the request need not be repeated.
func TestNoHost_SkippedCellIsAway_ItsSummaryDecides(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	w.cells[1].hook(func(_ context.Context, method string, _ any) error {
		if method == "ProposeBatch" {
			return fault.New(fault.CellUnavailable, "down")
		}
		return nil
	}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().Flavor.Vcpus = 40
	w.refused(req, fault.NoValidHost)
}

// Another replica's last writes may have made room. Before it refuses a request, the gateway asks lagging cells again
// with up_to_date. A request that finds a host does not cause this.
func TestNoHostIsDoubtedInCellsThatLag(t *testing.T) {
	for _, host := range []string{"host001", "host002"} { // no summary leaves a cell out
		w := start(t, []*testCell{newCell(1, testHost(1, 2)), newCell(2, testHost(3, 1))}, nil)
		late := sync.OnceFunc(func() { w.cells[0].report(testHost(2, 4)) })
		var read atomic.Bool
		w.cells[0].hook(func(_ context.Context, _ string, req any) error {
			batch, _ := req.(*cellv1.ProposeBatchRequest)
			if slices.ContainsFunc(batch.GetQueries(), (*cellv1.Query).GetUpToDate) {
				read.Store(true)
				late()
			}
			return nil
		}, nil)
		w.cells[0].answers(func(_ string, _, resp any) {
			batch, _ := resp.(*cellv1.ProposeBatchResponse)
			for _, p := range batch.GetProposals() {
				p.MayBeStale = !read.Load()
			}
		})
		req := ask(1, 1)
		req.GetRequestSpec().ForceHosts = []string{host}
		got := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost()
		if got != host || read.Load() != (host == "host002") {
			t.Errorf("asked for %s, it is on %s; read: %v", host, got, read.Load())
		}
	}
}

func TestNoValidHost(t *testing.T) {
	fast := testHost(1, 1)
	fast.Traits = []string{"CUSTOM_FAST"}
	off := testHost(2, 1)
	off.Disabled = true
	w := start(t, []*testCell{newCell(1, fast, off, testHost(3, 1)), newCell(2, testHost(4, 1), testHost(5, 1)), newCell(3)},
		func(c *Config) { c.Cells[2].Disabled = true })
	req := ask(1, 1)
	req.GetRequestSpec().RequiredTraits = []string{"CUSTOM_FAST"}
	req.GetRequestSpec().Flavor.Vcpus = 17
	e := w.refused(req, fault.NoValidHost)
	want := "No valid host was found. 0 of 5 hosts: 3 lack trait CUSTOM_FAST, 1 is disabled, 1 has too little VCPU; " +
		"17 VCPU is more than the max_unit of 5 hosts (the greatest is 16); " +
		"cell3 skipped: disabled by the gateway's configuration"
	if e.Message != want {
		t.Errorf("message %q\nwant    %q", e.Message, want)
	}
	d, ok := e.Detail.(*cellgatev1.NoValidHost)
	if !ok || d.GetHosts() != 5 || len(d.GetRejects()) != 3 || d.GetRejects()[0].GetHosts() != 3 || d.GetInstanceIndex() != 0 {
		t.Fatalf("detail %v", e.Detail)
	}
	if got := outcomes(d.GetCells()); got != "cell1 SEARCHED, cell2 SEARCHED, cell3 SKIPPED" {
		t.Errorf("cells: %s", got)
	}
	if r := d.GetCells()[0].GetRejects(); len(r) != 3 || r[0].GetFilter() != schedule.ComputeFilter {
		t.Errorf("rejects of cell1: %v", r)
	}
}

func TestNoValidHostForALaterInstance(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	req := ask(1, 3)
	req.GetRequestSpec().Flavor.Vcpus = 16
	e := w.refused(req, fault.NoValidHost)
	want := "No valid host was found. 0 of 2 hosts for instance 3 of 3 (" + testUUID(0x1, 3) + "): 2 have too little VCPU"
	if e.Message != want {
		t.Errorf("message %q\nwant    %q", e.Message, want)
	}
	if d := e.Detail.(*cellgatev1.NoValidHost); d.GetInstanceIndex() != 2 || d.GetHosts() != 2 {
		t.Errorf("detail %v", d)
	}
	if w.liveClaims() != 0 {
		t.Errorf("%d claims", w.liveClaims())
	}
}

func TestDestinationCellMustExist(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: "cell9"}
	e := w.refused(req, fault.InvalidRequest)
	if len(e.Fields) != 1 || e.Fields[0].Path != "request_spec.requested_destination.cell" || !strings.Contains(e.Message, "cell9") {
		t.Errorf("%v", e)
	}
}

func TestIgnoredFieldsAreReportedAndTheRootDiskOfAVolumeIsFree(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"quota:disk_read_iops_sec": "100"}
	req.GetRequestSpec().Flavor.RootGb = 1 << 30
	req.GetRequestSpec().IsBfv = true
	got := w.choose(req)
	want := []string{`request_spec.flavor.extra_specs["quota:disk_read_iops_sec"]`}
	if !slices.Equal(got.GetIgnoredFields(), want) {
		t.Errorf("ignored fields are %q, want %q", got.GetIgnoredFields(), want)
	}
	if a := got.GetDestinations()[0].GetSelected().GetAllocationRequest(); strings.Contains(a, "DISK_GB") {
		t.Errorf("an instance that boots from a volume takes a root disk: %s", a)
	}
}
