package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What the Placement API acknowledged outlives a kill of the process that has the shards.
func TestI3_KilledProcess_KeepsWhatThePlacementAPIWrote(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
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
	const root, consumer = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
	send("POST", "/cells/cell2/resource_providers", fmt.Sprintf(`{"name": "r", "uuid": %q}`, root), 200)
	send("PUT", "/resource_providers/"+root+"/inventories", `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}`, 200)
	send("PUT", "/traits/CUSTOM_KEPT", "", 201)
	send("PUT", "/allocations/"+consumer, fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": null, "allocations": {%q: {"resources": {"VCPU": 3}}}}`, root), 204)
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
