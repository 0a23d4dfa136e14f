package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/security"
)

// Writes that the Placement API acknowledged survive a kill of the process with the shards.
func TestI3_KilledProcess_KeepsWhatThePlacementAPIWrote(t *testing.T) {
	at := freePort(t)
	data := t.TempDir()
	args := []string{
		"dev", "--cells", "2", "--hosts", "2", "--data", data, "--placement", at,
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cell-base-port", "0", "--log-level", "warn",
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCellgate+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if killed {
			return
		}
		killed = true
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the process ended well, not by being killed")
		}
	}
	defer kill()
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "Serving"); {
	}
	send := func(method, path, body string, want int) string {
		t.Helper()
		return sendPlacement(t, at, method, path, body, want)
	}
	const root, consumer = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
	send("POST", "/cells/cell2/resource_providers", fmt.Sprintf(`{"name": "r", "uuid": %q}`, root), 200)
	send("PUT", "/resource_providers/"+root+"/inventories", `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}`, 200)
	send("PUT", "/traits/CUSTOM_KEPT", "", 201)
	send("PUT", "/allocations/"+consumer, fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": null, "allocations": {%q: {"resources": {"VCPU": 3}}}}`, root), 204)
	const anywhere = "aaaaaaaa-0000-4000-8000-00000000000c"
	send("POST", "/resource_providers", fmt.Sprintf(`{"name": "no cell named", "uuid": %q}`, anywhere), 200) // goes to the first cell
	send("PUT", "/resource_providers/"+anywhere, fmt.Sprintf(`{"name": "child", "parent_provider_uuid": %q}`, root), 400)
	before := send("GET", "/allocations/"+consumer, "", 200)
	kill()

	launch(t, false, args...).await("Serving until interrupted")
	if after := send("GET", "/allocations/"+consumer, "", 200); after != before {
		t.Errorf("before the kill %s, after it %s", before, after)
	}
	send("GET", "/traits/CUSTOM_KEPT", "", 204)
	if got := send("GET", "/resource_providers/"+root+"/usages", "", 200); !strings.Contains(got, `"VCPU": 3`) && !strings.Contains(got, `"VCPU":3`) {
		t.Errorf("the provider's usage is %s", got)
	}
}

// sendPlacement sends a request with the newest microversion and requires a status.
func sendPlacement(t *testing.T, at, method, path, body string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.39")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s %s: %d, want %d: %s (%v)", method, path, resp.StatusCode, want, text, err)
	}
	return string(text)
}

// Nova's services have no certificate for the Placement API: tokens admit them, also where the callers
// of the other APIs must show one.
func TestPlacement_GatewayAsksForCertificates_TokensAreEnough(t *testing.T) {
	s := newSecured(t)
	cell := launch(t, true, "cell", "--name", "one", "--uuid", "cccccccc-0000-4000-8000-000000000001", "--data", t.TempDir(), "--grpc", "127.0.0.1:0").
		await(`cell starts.*grpc=(\S+)`)[1]
	at := freePort(t)
	launch(t, true, append(withPlacement(cell, at), "--tls-cert", s.path("server.pem"), "--tls-key", s.path("server-key.pem"), "--tls-client-ca", s.caFile)...).
		await("the Placement API is served")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	// A page of another site in a browser of this machine may not ask.
	for host, want := range map[string]int{at: http.StatusOK, "site.example": http.StatusForbidden} {
		req.Host = host
		resp, err := s.client(t, security.ClientConfig{}).Transport().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a caller without a certificate, host %s: %s, want %d", host, resp.Status, want)
		}
	}
}

func TestPlacement_OnTheNetwork_NeedsTLS(t *testing.T) {
	args := append(withPlacement("127.0.0.1:1", "0.0.0.0:8778"), "--print-config")
	_, stderr, status := typed(t.Context(), "", args...)
	if want := "--placement-listen: gateway.placement.listen: 0.0.0.0:8778 is not a loopback address: set gateway.tls.cert"; status != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("status %d, %s, want %q", status, stderr, want)
	}
	for _, more := range [][]string{{"--tls-cert", "c", "--tls-key", "k"}, {"--insecure"}} {
		if _, stderr, status := typed(t.Context(), "", append(args, more...)...); status != exitDone {
			t.Errorf("%v: status %d, %s", more, status, stderr)
		}
	}
}

// The start names all that is wrong at once, each by the flag that mends it.
func TestPlacement_PortsInUse_FlagsAreNamed(t *testing.T) {
	l := listen(t)
	args := append(withPlacement("127.0.0.1:1", l.Addr().String()), "--tls-cert", "/nonexistent/cert", "--tls-key", "/nonexistent/key")
	_, stderr, status := typed(t.Context(), "", args...)
	for _, want := range []string{"give another address with --placement-listen", "/nonexistent/cert"} {
		if status != exitRefused || !strings.Contains(stderr, want) {
			t.Errorf("status %d, no %q in %s", status, want, stderr)
		}
	}
	for want, args := range map[string][]string{
		"127.0.0.1:9099 is the port of gateway.grpc": append(withPlacement("127.0.0.1:1", "127.0.0.1:9099"), "--grpc", "127.0.0.1:9099"),
		`"keystone" is no http or https URL`:         append(withPlacement("127.0.0.1:1", "127.0.0.1:8778"), "--placement-keystone-auth-url", "keystone"),
		"placement.keystone.username: must":          append(withPlacement("127.0.0.1:1", "127.0.0.1:8778"), "--placement-keystone-auth-url", "http://k/v3"),
		"must be set, or trust_loopback":             append(withPlacement("127.0.0.1:1", "127.0.0.1:8778"), "--placement-trust-loopback=false"),
		"dev.placement: 0.0.0.0:8778 is not a loop":  {"dev", "--data", "d", "--placement", "0.0.0.0:8778"},
	} {
		if _, stderr, status := typed(t.Context(), "", args...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("status %d, no %q in %s", status, want, stderr)
		}
	}
}

func TestPlacement_BothSidesAreOne_IsRefused(t *testing.T) {
	const from = "http://placement.example:8778"
	for _, to := range []string{from, from + "/", "http://Placement.example:8778/cells/cell1", "https://placement.example:8778/cells/cell1/"} {
		for _, command := range []string{"copy", "tap"} {
			_, stderr, status := typed(t.Context(), "", "placement", command, "--from", from, "--to", to, "--noauth")
			if status != exitUsage || !strings.Contains(stderr, "--from and --to must be two Placements") {
				t.Errorf("%s to %s: status %d, %s", command, to, status, stderr)
			}
		}
	}
	if samePlacement(from, from+"1") || samePlacement(from+"/placement", from) {
		t.Error("two Placements are taken for one")
	}
}

// standIn answers as a Placement with that many providers, and takes no write.
func standIn(t *testing.T, providers int) string {
	t.Helper()
	list := []map[string]any{}
	for i := range providers {
		id := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i)
		list = append(list, map[string]any{"uuid": id, "name": id, "root_provider_uuid": id, "generation": 0})
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]any{
			"versions": []any{map[string]any{"max_version": "1.39"}}, "resource_provider_generation": 0, "inventories": map[string]any{},
			"traits": []any{}, "aggregates": []any{}, "resource_classes": []any{}, "allocations": map[string]any{}, "resource_providers": list,
		}
		if uuid := r.URL.Query().Get("uuid"); uuid != "" {
			body["resource_providers"] = slices.DeleteFunc(slices.Clone(list), func(p map[string]any) bool { return p["uuid"] != uuid })
		}
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusConflict)
			body = map[string]any{"errors": []any{map[string]any{"code": "placement.concurrent_update", "detail": "no"}}}
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestPlacement_MostProvidersWouldGo_CountsAndURLsAreNamed(t *testing.T) {
	from, to := standIn(t, 1), standIn(t, 12)
	sides := []string{"--from", from, "--to", to, "--noauth"}
	want := []string{from + " has 1 providers", to + " has 12", "11 would be deleted", "--allow-deletions", "nothing was written"}
	for command, more := range map[string][]string{"copy": nil, "tap": {"--listen", "127.0.0.1:0"}} {
		_, text, status := typed(t.Context(), "", slices.Concat([]string{"placement", command}, sides, more)...)
		for _, part := range want {
			if status != exitRefused || !strings.Contains(text, part) {
				t.Errorf("%s: status %d, no %q in %s", command, status, part, text)
			}
		}
	}
	out, text, status := typed(t.Context(), "", append([]string{"placement", "copy", "--dry-run"}, sides...)...)
	if status != exitDone || !strings.Contains(out, "Without --dry-run: nothing was") || !strings.Contains(out, "provider extra        11") {
		t.Errorf("dry: status %d, %s%s", status, out, text)
	}
	if _, text, status = typed(t.Context(), "", append([]string{"placement", "copy", "--allow-deletions"}, sides...)...); !strings.Contains(text, "11 differences could not be copied") {
		t.Errorf("allowed: status %d, %s", status, text)
	}
}

// withPlacement starts a gateway of one cell with the Placement API.
func withPlacement(cell, at string) []string {
	return []string{
		"gateway", "--cell", "one=" + cell, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
		"--placement-enabled", "--placement-listen", at, "--placement-trust-loopback",
	}
}
