package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// startNamed is a world of two cells. The first has host001 and host002, which is in the aggregate "fast". The other
// has host003 and two hosts of the name "both".
func startNamed(t *testing.T) *world {
	t.Helper()
	named := func(n int, name string) schedule.Host {
		h := testHost(n, 1)
		h.ServiceHost = name
		return h
	}
	fast := testHost(2, 1)
	fast.Aggregates = []schedule.Aggregate{{UUID: testUUID(0x9, 1), Name: "fast", Metadata: map[string]string{"availability_zone": "az1"}}}
	fast.Traits = []string{"HW_CPU_X86_AVX2"}
	return start(t, []*testCell{newCell(1, testHost(1, 1), fast), newCell(2, testHost(3, 1), named(4, "both"), named(5, "both"))}, patient)
}

func TestNames_OfHosts_StandForTheirUuids(t *testing.T) {
	w := startNamed(t)
	for _, name := range []string{"host003", "node003", testUUID(0xa, 3)} {
		got, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: name})
		if err != nil || got.GetHost().GetHostUuid() != testUUID(0xa, 3) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if rec := w.send("GET", "/v1/hosts/host003", ""); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), testUUID(0xa, 3)) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	w.buildOn("host001", ask(1, 2))
	list, err := w.claims.ListClaims(t.Context(), &cellgatev1.ListClaimsRequest{HostUuid: "host001"})
	if err != nil || len(list.GetClaims()) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err = w.claims.ListClaims(t.Context(), &cellgatev1.ListClaimsRequest{ConsumerUuid: testUUID(0x1, 2)}); err != nil || len(list.GetClaims()) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	for name, want := range map[string]struct {
		kind fault.Kind
		says string
	}{
		"hots003":         {fault.NotFound, `there is no host "hots003"; did you mean "host003"?`},
		"HOST003":         {fault.NotFound, `did you mean "host003"?`},
		"nothing like it": {fault.NotFound, `there is no host "nothing like it"`},
		"both":            {fault.InvalidRequest, testUUID(0xa, 4) + " (cell2, node node004), " + testUUID(0xa, 5) + " (cell2, node node005)"},
	} {
		got, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: name})
		if e := mustFail(t, got, err, want.kind); !strings.HasSuffix(e.Message, want.says) {
			t.Errorf("%s: %s", name, e.Message)
		}
	}
	w.servers[1].Stop()
	got, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: "host003"})
	mustFail(t, got, err, fault.CellUnavailable)
}

// A host that went to another cell stays in the old one until somebody deletes it there.
func TestNames_HostInSeveralCells_CellDecides(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(1, 1))}, patient)
	got, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: "host001"})
	if e := mustFail(t, got, err, fault.InvalidRequest); !strings.Contains(e.Message, `host "host001" is in several cells: cell1, cell2; name one as the cell`) {
		t.Error(e.Message)
	}
	set, err := w.hosts.UpdateHost(t.Context(), &cellgatev1.UpdateHostRequest{HostUuid: testUUID(0xa, 1), AdminState: cellgatev1.HostAdmin_DISABLED, Reason: "r"})
	if e := mustFail(t, set, err, fault.InvalidRequest); !strings.Contains(e.Message, "is in several cells: cell1, cell2; name one as the cell") {
		t.Error(e.Message)
	}
	for _, cell := range []string{"cell1", "cell2"} {
		set, err := w.hosts.UpdateHost(t.Context(), &cellgatev1.UpdateHostRequest{HostUuid: "host001", Cell: cell, AdminState: cellgatev1.HostAdmin_DISABLED, Reason: "r"})
		if err != nil || set.GetHost().GetCell() != cell {
			t.Errorf("%s: %v, %v", cell, set, err)
		}
	}
}

// A cell that has never answered has no known uuid. A request that names no cell does not mean that cell.
func TestNames_WithACellThatNeverAnswered_AreFoundInOthers(t *testing.T) {
	w := start(t, twoCells(), func(cfg *Config) { cfg.Cells[0].UUID, cfg.Cells[0].Replicas = "", []string{"nobody"} })
	rec := w.send("PATCH", "/v1/hosts/host003", `{"admin_state": "DISABLED", "reason": "r"}`)
	if rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestNames_InCapacity_OfHostsAndAggregates(t *testing.T) {
	w := startNamed(t)
	client := cellgatev1.NewCapacityClient(w.conn)
	estimate := func(changes *cellgatev1.HypotheticalChanges, aggregates ...string) (*cellgatev1.EstimateCapacityResponse, error) {
		spec := proto.CloneOf(ask(1, 1).GetRequestSpec())
		if len(aggregates) > 0 {
			spec.MemberOf = []*cellgatev1.AggregateSet{{Aggregates: aggregates}}
		}
		return client.EstimateCapacity(context.Background(), &cellgatev1.EstimateCapacityRequest{
			Shapes: []*cellgatev1.CapacityShape{{Spec: &cellgatev1.CapacityShape_RequestSpec{RequestSpec: spec}}}, Changes: changes,
		})
	}
	fit := func(changes *cellgatev1.HypotheticalChanges, aggregates ...string) int32 {
		t.Helper()
		got, err := estimate(changes, aggregates...)
		if err != nil {
			t.Fatal(err)
		}
		return got.GetShapes()[0].GetInstances()
	}
	all, one := fit(nil), fit(nil, "fast")
	if one == 0 || all != 5*one {
		t.Fatalf("%d fit, %d in the aggregate", all, one)
	}
	if n := fit(&cellgatev1.HypotheticalChanges{DrainedHosts: []string{"host001", "node003"}}); n != 3*one {
		t.Errorf("without two hosts %d fit, want %d", n, 3*one)
	}
	if n := fit(&cellgatev1.HypotheticalChanges{AddedHosts: []*cellgatev1.AddedHosts{{LikeHostUuid: "host002", Count: 2}}}, "fast"); n != 3*one {
		t.Errorf("with two hosts like one %d fit, want %d", n, 3*one)
	}
	got, err := estimate(&cellgatev1.HypotheticalChanges{DrainedHosts: []string{"host001", "hots003", "both"}})
	e := mustFail(t, got, err, fault.InvalidRequest)
	if len(e.Fields) != 2 || e.Fields[0].Path != "changes.drained_hosts[1]" || !strings.Contains(e.Fields[0].Problem, `"host003"`) || !strings.Contains(e.Fields[1].Problem, "2 hosts have the name") {
		t.Error(e.Fields)
	}
	got, err = estimate(nil, "fas")
	if e := mustFail(t, got, err, fault.InvalidRequest); e.Fields[0].Path != "shapes[0].request_spec.member_of[0].aggregates[0]" || !strings.Contains(e.Message, `did you mean "fast"?`) {
		t.Error(e)
	}
}

func TestNames_OfAggregates_InASelection(t *testing.T) {
	w := startNamed(t)
	req := ask(1, 1)
	req.GetRequestSpec().MemberOf = []*cellgatev1.AggregateSet{{Aggregates: []string{"fast"}}}
	if got := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host002" {
		t.Errorf("chose %s", got)
	}
	cell, err := w.cellsAPI.GetCell(t.Context(), &cellgatev1.GetCellRequest{Cell: "cell1"})
	if a := cell.GetCell().GetAggregates(); err != nil || len(a) != 1 || a[0].GetName() != "fast" || a[0].GetUuid() != testUUID(0x9, 1) || len(cell.GetCell().GetTraits()) != 1 {
		t.Errorf("%v, %v", cell, err)
	}
}

func TestUnknownValues_OfARefusal_AreNamedWithWhatMayBeMeant(t *testing.T) {
	w := startNamed(t)
	for want, change := range map[string]func(*cellgatev1.RequestSpec){
		`no cell has zone "az11"; did you mean "az1"?`: func(s *cellgatev1.RequestSpec) { s.AvailabilityZone = "az11" },
		`no cell has trait "HW_CPU_X86_AVX512F"; did you mean "HW_CPU_X86_AVX2"?`: func(s *cellgatev1.RequestSpec) {
			s.RequiredTraits = []string{"HW_CPU_X86_AVX512F"}
		},
		`no cell has resource class "CUSTOM_TAPE"`:           func(s *cellgatev1.RequestSpec) { s.Resources = map[string]int32{"CUSTOM_TAPE": 1} },
		`no cell has host "t001"; did you mean "host001"?`:   func(s *cellgatev1.RequestSpec) { s.ForceHosts = []string{"t001"} },
		`no cell has host "hst001"; did you mean "host001"?`: func(s *cellgatev1.RequestSpec) { s.ForceHosts = []string{"hst001"} },
		`no cell has host "Host001"; did you mean "host001"?`: func(s *cellgatev1.RequestSpec) {
			s.RequestedDestination = &cellgatev1.Destination{Host: "Host001"}
		},
	} {
		req := ask(1, 1)
		change(req.GetRequestSpec())
		e := w.refused(req, fault.NoValidHost)
		detail, _ := e.Detail.(*cellgatev1.NoValidHost)
		if !strings.HasSuffix(e.Message, "; "+want) || len(detail.GetUnknownValues()) != 1 || detail.GetUnknownValues()[0] != want {
			t.Errorf("%s: %s\n%v", want, e.Message, detail.GetUnknownValues())
		}
		explained, err := w.scheduler.ExplainDestinations(t.Context(), req)
		if err != nil || len(explained.GetUnknownValues()) != 1 {
			t.Errorf("%s: %v, %v", want, explained.GetUnknownValues(), err)
		}
	}
	req := ask(1, 1)
	req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"trait:HW_CPU_X86_AVX3": "required"}
	e := w.refused(req, fault.NoValidHost)
	if !strings.HasSuffix(e.Message, `no cell has trait "HW_CPU_X86_AVX3"; did you mean "HW_CPU_X86_AVX2"?`) {
		t.Error(e.Message)
	}
	d, err := w.decision(e.Metadata["decision_id"])
	if err != nil || d.GetMessage() != e.Message || d.GetCells()[0].GetTableVersion() == "" {
		t.Errorf("the record has %q and cells %v: %v", d.GetMessage(), d.GetCells(), err)
	}
	req = ask(1, 1)
	req.GetRequestSpec().AvailabilityZone, req.GetRequestSpec().RequiredTraits = "az11", []string{"HW_CPU_X86_AVX3", "CUSTOM_LATER", "CUSTOM_A"}
	if e := w.refused(req, fault.NoValidHost); !strings.HasSuffix(e.Message, `no cell has zone "az11"; did you mean "az1"?; no cell has trait "HW_CPU_X86_AVX3"; did you mean "HW_CPU_X86_AVX2"?; no cell has trait "CUSTOM_LATER"; no cell has trait "CUSTOM_A"`) {
		t.Error(e)
	}
	req = ask(1, 1)
	req.GetRequestSpec().Resources = map[string]int32{"VCPUS": 1}
	if e := w.refused(req, fault.InvalidRequest); e.Fields[0].Path != `request_spec.resources["VCPUS"]` || !strings.HasSuffix(e.Message, `; did you mean "VCPU"?`) {
		t.Error(e)
	}
	req = ask(1, 1)
	req.GetRequestSpec().Flavor.MemoryMb = 1 << 30
	req.GetRequestSpec().ForceHosts = []string{"HOST001"}
	if e := w.refused(req, fault.NoValidHost); strings.Contains(e.Message, "no cell has") {
		t.Error(e)
	}
	req.GetRequestSpec().ForceHosts = append([]string{"hst002"}, slices.Repeat([]string{"host001"}, 10)...)
	if e := w.refused(req, fault.NoValidHost); !strings.HasSuffix(e.Message, `no cell has host "hst002"; did you mean "host002"?`) {
		t.Error(e)
	}
	if e := w.refused(to(ask(1, 1), "cel1"), fault.InvalidRequest); !strings.HasSuffix(e.Message, `the cells are cell1, cell2; did you mean "cell1"?`) {
		t.Error(e)
	}
	req = ask(1, 1)
	req.GetRequestSpec().ForbiddenAggregates = []string{"fats"}
	if e := w.refused(req, fault.InvalidRequest); !strings.HasSuffix(e.Message, `no host is in an aggregate "fats"; did you mean "fast"?`) {
		t.Error(e)
	}
	got, err := w.cellsAPI.GetCell(t.Context(), &cellgatev1.GetCellRequest{Cell: "cel1"})
	if e := mustFail(t, got, err, fault.NotFound); e.Message != `there is no cell "cel1"; the cells are cell1, cell2; did you mean "cell1"?` {
		t.Error(e)
	}
}

func TestUnknownValues_OfEmptyLists_AreNamedWithWhatMayBeMeant(t *testing.T) {
	w := startNamed(t)
	for want, req := range map[string]*cellgatev1.ListHostsRequest{
		`no cell has zone "az11"; did you mean "az1"?`:                         {AvailabilityZone: "az11"},
		`no cell has trait "HW_CPU_X86_AVX3"; did you mean "HW_CPU_X86_AVX2"?`: {Trait: "HW_CPU_X86_AVX3"},
		`no host has "hots003" in its name; did you mean "host003"?`:           {NameContains: "hots003"},
		"": {NameContains: "HOST", AvailabilityZone: "az1", Cell: "cell2"},
	} {
		got, err := w.hosts.ListHosts(t.Context(), req)
		if err != nil || len(got.GetHosts()) > 0 || strings.Join(got.GetUnknownValues(), ";") != want {
			t.Errorf("%v: %v, %v, want %s", req, got, err, want)
		}
	}
	for uuid, want := range map[string]string{testUUID(0xa, 1): "", testUUID(0xa, 99): "no cell has host " + testUUID(0xa, 99)} {
		got, err := w.claims.ListClaims(t.Context(), &cellgatev1.ListClaimsRequest{HostUuid: uuid})
		if err != nil || len(got.GetClaims()) > 0 || strings.Join(got.GetUnknownValues(), ";") != want {
			t.Errorf("%s: %v, %v, want %s", uuid, got, err, want)
		}
	}
	for host, want := range map[string]string{
		"host001": "", "hots003": `no cell has host "hots003"; did you mean "host003"?`, testUUID(0xa, 99): "no cell has host " + testUUID(0xa, 99),
	} {
		got, err := w.scheduler.ListDecisions(t.Context(), &cellgatev1.ListDecisionsRequest{Host: host})
		if err != nil || len(got.GetDecisions()) > 0 || strings.Join(got.GetUnknownValues(), ";") != want {
			t.Errorf("%s: %v, %v, want %s", host, got, err, want)
		}
	}
	if rec := w.send("GET", "/v1/hosts?availability_zone=az11", ""); !strings.Contains(rec.Body.String(), `"unknown_values":["no cell has zone \"az11\"; did you mean \"az1\"?"]`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// What a cell that does not answer has is not known.
func TestUnknownValues_CellDoesNotAnswer_NoneAreNamed(t *testing.T) {
	w := startNamed(t)
	w.cells[1].hook(func(context.Context, string, any) error { return status.Error(codes.Unavailable, "away") }, nil)
	hosts, err := w.hosts.ListHosts(t.Context(), &cellgatev1.ListHostsRequest{NameContains: "hots003"})
	if err != nil || len(hosts.GetUnavailableCells()) != 1 || len(hosts.GetUnknownValues()) > 0 {
		t.Errorf("hosts: %v, %v", hosts, err)
	}
	req := ask(1, 1)
	req.GetRequestSpec().ForceHosts = []string{"hots003"}
	explained, err := w.scheduler.ExplainDestinations(t.Context(), req)
	if err != nil || !explained.GetPartial() || len(explained.GetUnknownValues()) > 0 {
		t.Errorf("explained: %v, %v", explained, err)
	}
}

// Each suggestion compares a name with all that are known, and a request may have thousands of names.
func TestUnknownIn_ManyNames_FewAreNamed(t *testing.T) {
	known := make([]string, 1000)
	names := make([]string, 10_000)
	for i := range known {
		known[i] = fmt.Sprintf("CUSTOM_KNOWN_%d", i)
	}
	for i := range names {
		names[i] = fmt.Sprintf("CUSTOM_UNKNOWN_%d", i)
	}
	if got := unknownIn("trait", known, append([]string{known[7]}, names...)...); len(got) != shownCandidates || !strings.Contains(got[0], names[0]) {
		t.Errorf("%d names: %v", len(got), got[:min(len(got), 3)])
	}
}
