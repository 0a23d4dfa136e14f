package placement

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// newTestServer serves a backend to whoever says admin.
func newTestServer(t *testing.T, b Backend) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(testHandler(t, b))
	t.Cleanup(s.Close)
	return s
}

func testHandler(t *testing.T, b Backend) http.Handler {
	t.Helper()
	h, err := New(Config{TrustLoopback: true}, Deps{Backend: b, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

// ask sends a request of a microversion; "" sends none.
func ask(t testing.TB, base, microversion, method, path, body string) answer {
	t.Helper()
	r, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "admin")
	if microversion != "" {
		r.Header.Set("OpenStack-API-Version", "placement "+microversion)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &a.body); err != nil {
			t.Fatalf("%s %s: %s: %v", method, path, text, err)
		}
	}
	return a
}

const (
	providerA = "6f70656e-0000-4000-8000-00000000000a"
	consumerA = "6f70656e-0000-4000-8000-0000000000c1"
)

func TestAPI_ProviderInventoryAllocation_AreServedEndToEnd(t *testing.T) {
	s := newTestServer(t, newMemory())
	steps := []struct {
		microversion, method, path, body string
		status                           int
		want                             string
	}{
		{"1.20", "POST", "/cells/cell1/resource_providers", `{"name": "host1", "uuid": "` + providerA + `"}`, 200, `"generation":0`},
		{"1.20", "POST", "/resource_providers", `{"name": "host1"}`, 409, "Conflicting resource provider name: host1 already exists."},
		{"1.26", "PUT", "/resource_providers/" + providerA + "/inventories", `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}`, 200, `"resource_provider_generation":1`},
		{"1.26", "PUT", "/resource_providers/" + providerA + "/inventories", `{"resource_provider_generation": 0, "inventories": {}}`, 409, "placement.concurrent_update"},
		{"1.36", "PUT", "/allocations/" + consumerA, `{"allocations": {"` + providerA + `": {"resources": {"VCPU": 5}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}`, 409, "would exceed the capacity"},
		{"1.36", "PUT", "/allocations/" + consumerA, `{"allocations": {"` + providerA + `": {"resources": {"VCPU": 3}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}`, 204, ""},
		{"1.36", "GET", "/allocations/" + consumerA, "", 200, `"consumer_generation":1`},
		{"1.36", "GET", "/resource_providers/" + providerA + "/usages", "", 200, `"usages":{"VCPU":3}`},
		{"1.36", "DELETE", "/resource_providers/" + providerA, "", 409, "placement.resource_provider.inuse"},
		{"", "DELETE", "/allocations/" + consumerA, "", 204, ""},
		{"", "DELETE", "/allocations/" + consumerA, "", 404, "No allocations for consumer"},
		{"", "DELETE", "/cells/cell1/resource_providers/" + providerA, "", 204, ""},
		{"1.40", "GET", "/resource_providers", "", 406, `"max_version":"1.39"`},
		{"", "PATCH", "/resource_providers", "", 405, "Method Not Allowed"},
		{"1.36", "GET", "/nowhere", "", 404, "placement.undefined_code"},
	}
	for _, step := range steps {
		got := ask(t, s.URL, step.microversion, step.method, step.path, step.body)
		text, err := json.Marshal(got.body)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != step.status || !strings.Contains(string(text), step.want) {
			t.Errorf("%s %s: %d %s, want %d and %q in it", step.method, step.path, got.status, text, step.status, step.want)
		}
	}
}
