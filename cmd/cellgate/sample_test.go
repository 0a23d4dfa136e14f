package main

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/norace"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/samples"
)

func answer(hosts ...string) *cellgatev1.SelectDestinationsResponse {
	m := &cellgatev1.SelectDestinationsResponse{}
	for _, h := range hosts {
		m.Destinations = append(m.Destinations, &cellgatev1.Destinations{
			Selected:   &cellgatev1.Selection{Cell: "cell1", ServiceHost: h, Weight: 1.5, Claimed: true},
			Alternates: []*cellgatev1.Selection{{ServiceHost: "other"}},
		})
	}
	return m
}

func sampleOf(name, expect string, instances int) samples.Sample {
	return samples.Sample{Name: name, Expect: expect, Request: &cellgatev1.SelectDestinationsRequest{InstanceUuids: make([]string, instances)}}
}

func TestSampleTableAndVerdict(t *testing.T) {
	noHost := fault.New(fault.NoValidHost, "No valid host was found.")
	noHost.Detail = &cellgatev1.NoValidHost{Hosts: 9, Rejects: []*cellgatev1.RejectCount{
		{Filter: "ResourceFilter", Detail: "VCPU", Hosts: 4}, {Filter: "TraitFilter", Hosts: 3}, {Filter: "A", Hosts: 1}, {Filter: "B", Hosts: 1},
	}}
	outcomes := []outcome{
		{sample: sampleOf("one", samples.Placed, 1), via: "REST", answer: answer("h1")},
		{sample: sampleOf("six", samples.Placed, 6), via: "gRPC", answer: answer("h1", "h2", "h3", "h4", "h5", "h6")},
		{sample: sampleOf("full", samples.Refused, 1), via: "REST", err: noHost},
	}
	if n := showSample(&page{}, outcomes, time.Second, nil); n != 0 {
		t.Errorf("%d of what is expected are unexpected", n)
	}
	outcomes = append(outcomes,
		outcome{sample: sampleOf("surprise", samples.Refused, 1), via: "gRPC", answer: answer("h7")},
		outcome{sample: sampleOf("broken", samples.Refused, 1), via: "REST", err: fault.New(fault.CellUnavailable, "cell2 did not answer")},
	)
	var out page
	if n := showSample(&out, outcomes, 1500*time.Millisecond, nil); n != 2 {
		t.Errorf("%d are unexpected, want 2", n)
	}
	want := `
#  REQUEST   HOST              WEIGHT  ALTERNATES, OR WHY REFUSED
1  one       h1                1.5     other
2  six       h1                1.5     other
             h2                1.5     other
             h3                1.5     other
             h4                1.5     other
             and 2 more
3  full      refused           -       0 of 9 hosts: 4 ResourceFilter(VCPU), 3 TraitFilter, 1 A, and 1 more
4  surprise  h7                1.5     UNEXPECTED (refused was): other
5  broken    CELL_UNAVAILABLE  -       UNEXPECTED (refused was): cell2 did not answer

5 requests (3 REST, 2 gRPC) in 1.5s:
3 placed (8 instances), 1 refused for want of a host, 1 failed; 2 unexpected
`
	if got := trimLines(out.String()); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

// trimLines drops the blanks at the ends of lines.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestRESTErrorsAreThoseOfGRPC(t *testing.T) {
	err := restError(http.StatusConflict, []byte(`{"code": 9, "message": "No valid host was found.", "details": [
		{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "NO_VALID_HOST", "domain": "cellgate"},
		{"@type": "type.googleapis.com/cellgate.v1.NoValidHost", "hosts": 7}]}`))
	if fault.KindOf(err) != fault.NoValidHost || refusal(err).GetHosts() != 7 {
		t.Errorf("error = %v with %v, want NO_VALID_HOST of 7 hosts", err, refusal(err))
	}
	if err := restError(http.StatusBadGateway, []byte("<html>")); err == nil || !strings.Contains(err.Error(), "502") || errors.Is(err, &fault.Error{Kind: fault.NoValidHost}) {
		t.Errorf("error = %v, want the status", err)
	}
}

// With an operator's filters, or in a small fleet, the sample may end differently, and the run
// lists those settings. Other errors stay unexpected.
func TestSample_OtherConfiguration_ComesOtherwise(t *testing.T) {
	if all := differences(config.Dev{Cells: 3, Hosts: 1000}); len(all) != 0 {
		t.Fatalf("the defaults differ in %q", all)
	}
	all := differences(config.Dev{Cells: 1, Hosts: 1000, NovaConf: []string{"nova.conf"}})
	if len(all) != 2 || !strings.HasPrefix(all[0], "1 cell of 1000 hosts") || all[1] != "the settings of nova.conf" {
		t.Errorf("it differs in %q", all)
	}
	for _, c := range []struct {
		expect string
		err    error
		differ []string
		want   string
	}{
		{samples.Refused, nil, all, "OTHERWISE (refused by default): "},
		{samples.Placed, fault.New(fault.NoValidHost, "none"), all, "OTHERWISE (placed by default): "},
		{samples.Placed, fault.New(fault.NoValidHost, "none"), nil, "UNEXPECTED (placed was): "},
		{samples.Placed, fault.New(fault.CellUnavailable, "cell2"), all, "UNEXPECTED (placed was): "},
		{samples.Placed, nil, all, ""},
	} {
		if got := mark(outcome{sample: sampleOf("s", c.expect, 1), err: c.err}, c.differ); got != c.want {
			t.Errorf("%+v is marked %q", c, got)
		}
	}
}

// The bundled sample gives the expected results in the system that it is written for. It does so
// again on the same data: the claims exist and the answers are equal.
func TestBundledSampleGoesAsExpectedTwice(t *testing.T) {
	norace.Skip(t, whatDevShows)
	if testing.Short() {
		t.Skip("3 cells of 300 hosts")
	}
	data := t.TempDir()
	var tables [2]string
	for i := range tables {
		out, stderr, status := typed(t.Context(), "", "dev", "--cells", "3", "--hosts", strconv.Itoa(samples.MinHosts), "--data", data, "--sample", "--once",
			"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cell-base-port", "0", "--log-level", "warn")
		if status != exitDone || !strings.Contains(out, " 0 unexpected\n") || !strings.Contains(out, "(48 REST, 48 gRPC)") {
			t.Fatalf("run %d: status %d\n%s\n%s", i+1, status, out, stderr)
		}
		_, table, _ := strings.Cut(out, "\n\n")
		// From the first dry run on, the answers depend on what is placed now.
		tables[i], _, _ = strings.Cut(table, "078-dry-run")
	}
	if len(tables[0]) < 5000 || tables[0] != tables[1] {
		t.Errorf("the second run differs:\n%s\nfirst:\n%s", tables[1], tables[0])
	}
}

// The table shows results that were not expected, and the exit status does, too.
func TestSampleThatGoesWrongEndsWith1(t *testing.T) {
	norace.Skip(t, whatDevShows)
	if testing.Short() {
		t.Skip("3 cells of 300 hosts")
	}
	args := append([]string{"dev", "--cells", "3", "--hosts", "300", "--data", t.TempDir(), "--log-level", "error"}, freePorts...)
	p := launch(t, false, args...)
	api := p.await(`gRPC +(\S+)`)[1]
	// All FPGA cards, which the sample needs.
	cellgate(t, api, exitDone, nil, "select", "--count", "36", "--resource", "CUSTOM_FPGA_CARD=4", "--confirm")
	p.stop()
	out, stderr, status := typed(t.Context(), "", append(args, "--sample", "--once")...)
	if status != exitRefused || !strings.Contains(out, "UNEXPECTED (placed was): 0 of 900") || !strings.Contains(stderr, "another outcome than expected") {
		t.Errorf("status %d, %s\n%s", status, stderr, out)
	}
}
