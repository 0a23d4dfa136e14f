package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	traceREST = "0af7651916cd43dd8448eb211c80319c"
	traceGRPC = "1bf7651916cd43dd8448eb211c80319c"
)

// get reads an HTTP resource.
func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, resp.Status, err, text)
	}
	return string(text)
}

// series returns the sum of each metric's values in a scrape. For a histogram it is the count.
func series(t *testing.T, text string) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") || !strings.HasPrefix(line, "cellgate_") {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		if strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_sum") {
			continue
		}
		sums[strings.TrimSuffix(name, "_count")] += value
	}
	return sums
}

// quiet are metrics that stay zero in a system without trouble, that the requests do not change, or
// that need a database, a bus, a Placement API or the agent of a real host.
var quiet = []string{
	"cellgate_gateway_bus_requests_total", "cellgate_gateway_bus_request_seconds", "cellgate_gateway_bus_dropped_total", "cellgate_gateway_bus_redelivered_total", "cellgate_gateway_bus_reconnects_total", "cellgate_gateway_bus_connected",
	"cellgate_gateway_placement_requests_total", "cellgate_gateway_placement_request_seconds", "cellgate_gateway_placement_silent_cell_total",
	"cellgate_cell_verdict_wait_seconds", "cellgate_cell_offers_unanswered_total",
	"cellgate_gateway_in_flight", "cellgate_gateway_shed_total", "cellgate_gateway_claim_queue_refused_total", "cellgate_gateway_inexact_total", "cellgate_gateway_partial_total",
	"cellgate_gateway_races_lost_total", "cellgate_gateway_duplicate_confirmed_total", "cellgate_gateway_spread_picks_total", "cellgate_gateway_restarts_total", "cellgate_gateway_doubtful_claims_total",
	"cellgate_ingress_bytes", "cellgate_ingress_refused_total", "cellgate_callers_refused_total", "cellgate_certificate_end_time_seconds", "cellgate_gateway_breaker_state", "cellgate_gateway_breaker_moves_total", "cellgate_gateway_cell_call_errors_total",
	"cellgate_gateway_decisions_total", "cellgate_gateway_unreadable_hosts_total", "cellgate_gateway_gate_state", "cellgate_gateway_gate_moves_total",
	"cellgate_gateway_legacy_reads_total", "cellgate_gateway_legacy_read_seconds", "cellgate_gateway_legacy_rows_age_seconds",
	"cellgate_cell_store_time_ahead_seconds", "cellgate_cell_store_events_total", "cellgate_cell_store_connections", "cellgate_cell_store_connections_max", "cellgate_cell_store_wait_seconds_total", "cellgate_cell_cold_queries_total", "cellgate_cell_near_misses_spared_total", "cellgate_cell_queue_ops", "cellgate_cell_queue_refused_total", "cellgate_cell_leases_expired_total",
	"cellgate_cell_instances_claimed_elsewhere_total", "cellgate_cell_overcommitted_total", "cellgate_agent_reconnects_total",
	"cellgate_cell_gate_state", "cellgate_cell_gate_epoch", "cellgate_cell_gate_lagging_hosts", "cellgate_cell_gate_reading_lag_seconds",
	"cellgate_cell_hosts_imported", "cellgate_cell_hosts_withheld", "cellgate_cell_gate_moves_total", "cellgate_cell_gate_rows_age_seconds",
	"cellgate_agent_read_failures_total", "cellgate_agent_read_age_seconds",
	"cellgate_cell_findings", "cellgate_cell_repairs_total", "cellgate_cell_hosts_compared", "cellgate_cell_reconcile_age_seconds", "cellgate_gateway_moves_finished_total",
}

func TestMetricsAndTracesOfASystem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans.jsonl")
	p := launch(t, false, "dev", "--cells", "2", "--hosts", "20", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
		"--cell-base-port", "0", "--log-level", "warn", "--traces", "file", "--traces-file", file)
	web := p.await(`REST +(http://\S+)`)[1]
	api := p.await(`gRPC +(\S+)`)[1]
	p.await("Serving until interrupted")

	// Requests: one through REST, one through gRPC with hard affinity, one that fits nowhere, and
	// one without a trace.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web+"/v1/select_destinations", strings.NewReader(
		`{"request_id": "r1", "instance_uuids": ["`+viaREST+`"], "request_spec": {"resources": {"VCPU": 1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+traceREST+"-b7ad6b7169203331-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("REST: %s %v", resp.Status, err)
	}
	http.DefaultClient.CloseIdleConnections()
	conn, err := rpc.Dial(api)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceGRPC+"-b7ad6b7169203331-01")
	placed, err := cellgatev1.NewSchedulerClient(conn).SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{leased},
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Resources:     map[string]int32{"VCPU": 1},
			InstanceGroup: &cellgatev1.InstanceGroup{Uuid: "99999999-0000-4000-8000-000000000001", Policy: "affinity"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cellgate(t, api, exitRefused, nil, "select", "--vcpus", "100000")
	claim := placed.GetDestinations()[0].GetSelected().GetClaimId()
	cellgate(t, api, exitDone, nil, "claims", "confirm", leased, claim)

	text := get(t, web+"/metrics")
	got := series(t, text)
	for _, m := range telemetry.Metrics() {
		value, there := got[m.Name]
		isQuiet := slices.Contains(quiet, m.Name)
		if !isQuiet && (!there || value <= 0) {
			t.Errorf("%s is %v (there: %v) after requests of many kinds", m.Name, value, there)
		}
		delete(got, m.Name)
	}
	for name := range got {
		t.Errorf("%s is not named in internal/telemetry", name)
	}
	for _, banned := range []string{viaREST, leased, claim, "sim.example", "-r01-h"} {
		if strings.Contains(text, banned) {
			t.Errorf("%q is in the metrics", banned)
		}
	}
	for _, want := range []string{
		`cellgate_cell_hosts{cell="cell2",replica="cell2"} 20`, `cellgate_agent_streams_accepted{cell="cell1"} 20`,
		`cellgate_gateway_requests_total{outcome="NO_VALID_HOST",rpc="SelectDestinations"} 1`,
		`cellgate_cell_agent_streams{cell="cell1",replica="cell1"} 20`,
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	p.stop()
	spans := spansIn(t, file)
	whole(t, spans[traceREST], "gateway.admit", "gateway.translate", "gateway.route", "gateway.merge", "gateway.claim", "gateway.answer")
	whole(t, spans[traceGRPC], "gateway.pin", "gateway.claim")
	if len(spans) != 2 {
		t.Errorf("%d traces, want those of the two requests that asked for one", len(spans))
	}
}

// spansIn reads the spans of a file, by trace.
func spansIn(t *testing.T, path string) map[string][]telemetry.SpanLine {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	traces := map[string][]telemetry.SpanLine{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s telemetry.SpanLine
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		traces[s.Trace] = append(traces[s.Trace], s)
	}
	return traces
}

// whole checks that a trace goes without a gap from the caller through the gateway and the cells to
// a shard. Every span name must be listed.
func whole(t *testing.T, spans []telemetry.SpanLine, stages ...string) {
	t.Helper()
	byID := map[string]telemetry.SpanLine{}
	for _, s := range spans {
		byID[s.Span] = s
	}
	path := func(s telemetry.SpanLine) string {
		names := []string{s.Name}
		for s.Parent != "b7ad6b7169203331" {
			up, ok := byID[s.Parent]
			if !ok {
				t.Fatalf("%s has no parent %q in its trace", s.Name, s.Parent)
			}
			s = up
			names = append([]string{s.Name}, names...)
		}
		return strings.Join(names, " ")
	}
	const root = "cellgate.v1.Scheduler/SelectDestinations"
	count := map[string]int{}
	for _, s := range spans {
		count[path(s)]++
		if !listed(s) {
			t.Errorf("span %s with %v is not as internal/telemetry lists it", s.Name, s.Attributes)
		}
	}
	for _, stage := range stages {
		if count[root+" "+stage] != 1 {
			t.Errorf("%d spans of %s below the request, want 1; there are %v", count[root+" "+stage], stage, count)
		}
	}
	for p, want := range map[string]int{
		root + " gateway.merge gateway.propose gateway.propose_cell gateway.call cell.propose":                 2,
		root + " gateway.merge gateway.propose gateway.propose_cell gateway.batch_wait":                        2,
		root + " gateway.claim gateway.claim_cell cellgate.cell.v1.CellScheduler/ClaimBatch cell.queue":        1,
		root + " gateway.claim gateway.claim_cell cellgate.cell.v1.CellScheduler/ClaimBatch shard.transaction": 1,
		root + " gateway.claim gateway.claim_cell cellgate.cell.v1.CellScheduler/ClaimBatch cell.publish":      1,
	} {
		if count[p] < want {
			t.Errorf("%d spans %s, want %d or more", count[p], p, want)
		}
	}
}

// listed reports whether a span's name, and its attributes, are in the lists.
func listed(s telemetry.SpanLine) bool {
	for _, n := range telemetry.Spans() {
		rpc := n.Name == telemetry.SpanRequest.Name && strings.HasPrefix(s.Name, "cellgate.v1.") ||
			n.Name == telemetry.SpanServe.Name && strings.HasPrefix(s.Name, "cellgate.cell.v1.CellScheduler/")
		if n.Name != s.Name && !rpc {
			continue
		}
		for name := range s.Attributes {
			known := name == telemetry.AttrError.Name
			for _, a := range n.Attributes {
				known = known || a.Name == name
			}
			if !known {
				return false
			}
		}
		return true
	}
	return false
}

func TestCellAndAgentServeTheirOwnMetrics(t *testing.T) {
	cell := launch(t, true, "cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001",
		"--data", t.TempDir(), "--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	metrics := cell.await(`msg="metrics are served" metrics=(\S+)`)[1]
	cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	fleet := launch(t, true, "agent", "--cell", "cell1", "--replica", cellAddr, "--hosts", "5", "--metrics", "127.0.0.1:0")
	agents := fleet.await(`msg="metrics are served" metrics=(\S+)`)[1]
	fleet.await(`msg="every host is registered"`)
	if text := get(t, "http://"+metrics+"/metrics"); !strings.Contains(text, `cellgate_cell_hosts{cell="cell1",replica="cell1"} 5`) {
		t.Error(text)
	}
	if text := get(t, "http://"+agents+"/metrics"); !strings.Contains(text, `cellgate_agent_reports_total{cell="cell1",outcome="OK"} 5`) {
		t.Error(text)
	}
	for _, at := range []string{metrics, agents} {
		get(t, "http://"+at+"/healthz")
	}
	fleet.stop()
	cell.stop()
}
