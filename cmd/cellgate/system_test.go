package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/pgtest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// launchDev starts a small system and gives its addresses.
func launchDev(t *testing.T, data string) (p *process, web, api string) {
	t.Helper()
	return launchDevOn(t, "--data", data)
}

// launchDevOn starts a small system. flag and value set where its shards are.
func launchDevOn(t *testing.T, flag, value string) (p *process, web, api string) {
	t.Helper()
	p = launch(t, false, "dev", "--cells", "2", "--hosts", "20", flag, value,
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cell-base-port", "0", "--log-level", "warn")
	web = p.await(`REST +(http://\S+)`)[1]
	api = p.await(`gRPC +(\S+)`)[1]
	p.await("Serving until interrupted")
	return p, web, api
}

// cellgate runs a client command with JSON output into m and requires a status.
func cellgate(t *testing.T, api string, want int, m proto.Message, args ...string) string {
	t.Helper()
	out, stderr, status := typed(t.Context(), "", append(args, "--addr", api, "-o", "json")...)
	if status != want {
		t.Fatalf("cellgate %v: status %d, want %d\n%s%s", args, status, want, out, stderr)
	}
	if m != nil {
		if err := protojson.Unmarshal([]byte(out), m); err != nil {
			t.Fatalf("cellgate %v: %v in\n%s", args, err, out)
		}
	}
	return out
}

// post sends a request by REST and gives the status and the body.
func post(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text
}

const (
	viaREST = "11111111-1111-4111-8111-111111111111"
	leased  = "22222222-2222-4222-8222-222222222222"
)

func TestI8_RestartOfEverythingKeepsAcknowledgedClaims(t *testing.T) {
	keepsClaims(t, "--data", t.TempDir())
}

// Databases are created on demand, one per cell, and found again.
func TestI8_RestartOnADatabaseKeepsAcknowledgedClaims(t *testing.T) {
	srv := pgtest.Start(t)
	t.Cleanup(func() {
		for _, cell := range []string{"cell1", "cell2"} {
			srv.Exec(t, "DROP DATABASE mycloud_"+cell)
		}
	})
	keepsClaims(t, "--store", srv.URL("mycloud"))
}

func keepsClaims(t *testing.T, flag, value string) {
	p, web, api := launchDevOn(t, flag, value)

	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, "select", "--count", "3", "--vcpus", "2", "--alternates", "2", "--confirm")
	if len(placed.GetDestinations()) != 3 || len(placed.GetDestinations()[0].GetAlternates()) != 2 || !placed.GetExact() {
		t.Errorf("placed = %v, want 3 exact destinations with 2 alternates", &placed)
	}
	code, text := post(t, web+"/v1/select_destinations", `{"request_id": "r1", "instance_uuids": ["`+viaREST+`"],
		"request_spec": {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}, "requested_destination": {"cell": "cell2"}}}`)
	if code != http.StatusOK || !strings.Contains(string(text), `"cell2-r01-h0`) {
		t.Fatalf("REST: %d %s, want a host of cell2", code, text)
	}
	cellgate(t, api, exitDone, nil, "select", "--instance", leased, "--ttl", "1h")

	before := claimsOf(t, api)
	p.stop()
	_, web, api = launchDevOn(t, flag, value)
	after := claimsOf(t, api)

	if diff := difference(before, after); diff != "" || len(before) < 5 {
		t.Fatalf("%d claims before the restart, %d after; the first that differs: %s", len(before), len(after), diff)
	}
	for _, d := range placed.GetDestinations() {
		if want := d.GetSelected().GetClaimId() + " CONFIRMED " + d.GetSelected().GetServiceHost(); after[d.GetInstanceUuid()] != want {
			t.Errorf("instance %s has %q, want %q", d.GetInstanceUuid(), after[d.GetInstanceUuid()], want)
		}
	}
	// The same request has the same answer, across the restart.
	code, again := post(t, web+"/v1/select_destinations", `{"request_id": "r1", "instance_uuids": ["`+viaREST+`"],
		"request_spec": {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}, "requested_destination": {"cell": "cell2"}}}`)
	if a, b := selected(t, text), selected(t, again); code != http.StatusOK || a != b {
		t.Errorf("repeated: %d, claim %s, want %s", code, b, a)
	}
	// A released claim is gone, and its resources can be claimed again.
	claim := strings.Fields(after[leased])[0]
	cellgate(t, api, exitDone, nil, "claims", "release", leased, claim)
	if out := cellgate(t, api, exitRefused, nil, "claims", "get", leased); !strings.Contains(out, `"NOT_FOUND"`) {
		t.Errorf("the released claim is still there: %s", out)
	}
	cellgate(t, api, exitDone, nil, "select", "--instance", leased)
	if _, there := series(t, get(t, web+"/metrics"))["cellgate_cell_store_events_total"]; there != (flag == "--store") {
		t.Errorf("the metrics have store events: %v", there)
	}
}

// claimsOf lists all live claims: by consumer, the claim, its state and host.
func claimsOf(t *testing.T, api string) map[string]string {
	t.Helper()
	var list cellgatev1.ListClaimsResponse
	cellgate(t, api, exitDone, &list, "claims", "list", "--limit", "0")
	all := map[string]string{}
	for _, c := range list.GetClaims() {
		all[c.GetConsumerUuid()] = c.GetClaimId() + " " + c.GetState().String() + " " + c.GetServiceHost()
	}
	return all
}

// difference returns the first entry that differs, or "".
func difference(a, b map[string]string) string {
	for _, m := range []map[string]string{a, b} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if a[k] != b[k] {
				return fmt.Sprintf("%s was %q, is %q", k, a[k], b[k])
			}
		}
	}
	return ""
}

// selected gives the claim of the first destination of a REST answer.
func selected(t *testing.T, text []byte) string {
	t.Helper()
	var m cellgatev1.SelectDestinationsResponse
	if err := protojson.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return m.GetDestinations()[0].GetSelected().GetClaimId()
}

func TestClientCommandsAgainstARunningSystem(t *testing.T) {
	_, web, api := launchDev(t, t.TempDir())

	var cells cellgatev1.ListCellsResponse
	cellgate(t, api, exitDone, &cells, "cells")
	if len(cells.GetCells()) != 2 || cells.GetCells()[0].GetHosts() != 20 || !cells.GetCells()[1].GetAvailable() {
		t.Errorf("cells = %v, want 2 available with 20 hosts", &cells)
	}
	var hosts cellgatev1.ListHostsResponse
	cellgate(t, api, exitDone, &hosts, "hosts", "--cell", "cell2", "--trait", "STORAGE_DISK_SSD", "--limit", "5")
	if len(hosts.GetHosts()) != 5 || hosts.GetHosts()[0].GetServiceHost() != "cell2-r01-h013" {
		t.Errorf("hosts = %v, want 5 from cell2-r01-h013", &hosts)
	}
	cellgate(t, api, exitDone, &hosts, "hosts", "--limit", "0")
	if len(hosts.GetHosts()) != 40 {
		t.Errorf("%d hosts in all, want 40", len(hosts.GetHosts()))
	}

	// For people: tables.
	out, _, status := typed(t.Context(), "", "hosts", "--addr", api, "--limit", "2")
	if status != exitDone || !strings.HasPrefix(out, "HOST ") || !strings.Contains(out, "cell1-r01-h002") || !strings.Contains(out, "2 hosts shown; there are more") {
		t.Errorf("hosts: status %d\n%s", status, out)
	}
	out, _, status = typed(t.Context(), "", "hosts", hosts.GetHosts()[0].GetHostUuid(), "--addr", api)
	if status != exitDone || !strings.Contains(out, "traits: ") || !strings.Contains(out, "MEMORY_MB") {
		t.Errorf("hosts UUID: status %d\n%s", status, out)
	}
	out, _, status = typed(t.Context(), "", "cells", "cell2", "--addr", api)
	if status != exitDone || !strings.Contains(out, "cell2\n") || strings.Contains(out, "cell1\n") || !strings.Contains(out, "20/20") {
		t.Errorf("cells cell2: status %d\n%s", status, out)
	}
	out, _, status = typed(t.Context(), "", "select", "--dry-run", "--addr", api)
	if status != exitDone || !strings.HasPrefix(out, "INSTANCE ") || !strings.Contains(out, "not claimed") || !strings.Contains(out, "SEARCHED") {
		t.Errorf("select --dry-run: status %d\n%s", status, out)
	}

	// An empty list says so for people; for programs it is just empty.
	for args, unknown := range map[string]string{"hosts --zone nozone": "no cell has zone \"nozone\"\n", "hosts --trait CUSTOM_NOPE": "no cell has trait \"CUSTOM_NOPE\"\n", "claims list --project nobody": ""} {
		what := strings.Fields(args)[0]
		out, _, status = typed(t.Context(), "", append(strings.Fields(args), "--addr", api)...)
		if status != exitDone || out != "no "+what+" match\n"+unknown {
			t.Errorf("%s: status %d, %q", args, status, out)
		}
	}
	var none cellgatev1.ListHostsResponse
	cellgate(t, api, exitDone, &none, "hosts", "--zone", "nozone")
	if len(none.GetHosts()) != 0 {
		t.Errorf("hosts of no zone: %v", &none)
	}

	// Refusals: status 1, with the counts.
	out, stderr, status := typed(t.Context(), "", "select", "--memory-mb", "999999999", "--addr", api)
	if status != exitRefused || !strings.Contains(stderr, "No valid host was found") || !strings.Contains(out, "REJECTED BY") {
		t.Errorf("select of too much: status %d\n%s%s", status, out, stderr)
	}
	// The message counts in the form of the table.
	for _, text := range []string{"0 of 40 hosts: 40 have too little MEMORY_MB", "\n"} {
		if !strings.Contains(stderr, text) {
			t.Errorf("the message %q does not say %q", stderr, text)
		}
	}
	if strings.Count(out, " 20 ResourceFilter(MEMORY_MB)\n") != 2 {
		t.Errorf("the table does not count as the message does:\n%s", out)
	}
	var refused struct {
		Error struct {
			Reason string
			Detail struct{ Hosts int }
		}
	}
	text := cellgate(t, api, exitRefused, nil, "select", "--trait", "CUSTOM_QUANTUM")
	if err := json.Unmarshal([]byte(text), &refused); err != nil || refused.Error.Reason != "NO_VALID_HOST" || refused.Error.Detail.Hosts != 40 {
		t.Errorf("select of what nobody has: %v, %+v in\n%s", err, refused, text)
	}
	// A bad request names its flag or field: status 2, REST 400.
	_, stderr, status = typed(t.Context(), "", "select", "--instance", "x", "--addr", api)
	if status != exitUsage || !strings.Contains(stderr, `--instance: "x" is not a uuid`) {
		t.Errorf("select of no uuid: status %d, %q", status, stderr)
	}
	code, body := post(t, web+"/v1/select_destinations", `{"instance_uuids": ["`+viaREST+`", "`+viaREST+`"], "request_spec": {}}`)
	if code != http.StatusBadRequest || !strings.Contains(string(body), "instance_uuids") {
		t.Errorf("REST with the same uuid twice: %d %s", code, body)
	}

	// -f reads a REST body from the standard input. Then it is confirmed.
	req := `{"instance_uuids": ["` + viaREST + `"], "request_spec": {"resources": {"VCPU": 1}}}`
	out, stderr, status = typed(t.Context(), req, "select", "-f", "-", "--addr", api, "-o", "json")
	if status != exitDone {
		t.Fatalf("select -f -: status %d\n%s", status, stderr)
	}
	cellgate(t, api, exitDone, nil, "claims", "confirm", viaREST, selected(t, []byte(out)))
	out, _, status = typed(t.Context(), "", "claims", "get", viaREST, "--addr", api)
	if status != exitDone || !strings.Contains(out, "CONFIRMED") || !strings.Contains(out, "VCPU=1") {
		t.Errorf("claims get: status %d\n%s", status, out)
	}
}

func TestSeparateProcessesMakeASystem(t *testing.T) {
	cell := launch(t, true, "cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001",
		"--data", t.TempDir(), "--grpc", "127.0.0.1:0")
	cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	fleet := launch(t, true, "agent", "--cell", "cell1", "--replica", cellAddr, "--hosts", "5")
	fleet.await(`msg="every host is registered"`)
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--cell", "cell1="+cellAddr, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]

	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, "select")
	if h := placed.GetDestinations()[0].GetSelected().GetServiceHost(); !strings.HasPrefix(h, "cell1-r01-h00") {
		t.Errorf("placed on %q", h)
	}
	gw.stop()
	fleet.stop()
	cell.stop()
}
