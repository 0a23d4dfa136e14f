package placement

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
)

// newTestServer serves a backend to callers with the token admin.
func newTestServer(t *testing.T, b Backend) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(testHandler(t, b))
	t.Cleanup(s.Close)
	return s
}

func testHandler(t *testing.T, b Backend) http.Handler {
	t.Helper()
	return New(Config{TrustLoopback: true}, Deps{Backend: b, Log: slog.New(slog.DiscardHandler)})
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

// ask sends a request with a microversion; "" sends none.
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

// failing is a Backend whose providers cannot be read.
type failing struct {
	*memory
	err error
}

func (f failing) Providers(context.Context, ProviderQuery) ([]*Provider, error) { return nil, f.err }

func TestAPI_BackendFails_StatusSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err        error
		status     int
		retryAfter string
		want       string
	}{
		{fault.New(fault.CellUnavailable, "cell1 does not answer"), 503, "1", "cell1 does not answer"},
		{&fault.Error{Kind: fault.Overloaded, Message: "too much", RetryAfter: 3 * time.Second}, 503, "3", "too much"},
		{fault.New(fault.OutcomeUnknown, "the write may have happened"), 504, "", "may have happened"},
		{fault.New(fault.InvalidRequest, "too many ways"), 400, "", "too many ways"},
		{context.DeadlineExceeded, 503, "", "took too long"},
		{errors.New("secret cause"), 500, "", "request id"},
		{&Refusal{Reason: CrossCell, Detail: "cell1, cell2"}, 409, "", "cell1, cell2"},
		{&Refusal{Reason: AgentTree}, 409, "", "only the agent"},
		{&Refusal{Reason: CellNotFound, Name: "x"}, 404, "", `\n\n There is no cell \"x\".  "`},
		{&Refusal{Reason: CellNotFound, Detail: "the path names none"}, 404, "", `new root provider: the path names none  "`},
	} {
		s := newTestServer(t, failing{newMemory(), c.err})
		got := ask(t, s.URL, "1.39", http.MethodGet, "/resource_providers", "")
		text, err := json.Marshal(got.body)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != c.status || got.header.Get("Retry-After") != c.retryAfter || !strings.Contains(string(text), c.want) || strings.Contains(string(text), "secret") {
			t.Errorf("%v: %d, Retry-After %q, %s", c.err, got.status, got.header.Get("Retry-After"), text)
		}
	}
}

func TestAPI_LargeBody_IsRefusedAndCharged(t *testing.T) {
	in := ingress.New(ingress.Limits{CallerBytes: 3000})
	h := New(Config{TrustLoopback: true, MaxBody: 2000}, Deps{Backend: newMemory(), Ingress: in, Log: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(h)
	defer s.Close()
	long := `{"name": "` + strings.Repeat("n", 2500) + `"}`
	if got := ask(t, s.URL, "1.20", http.MethodPost, "/resource_providers", long); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body above the bound: %d", got.status)
	}
	// A body without a length is read up to the bound.
	r, err := http.NewRequest(http.MethodPost, s.URL+"/resource_providers", io.MultiReader(strings.NewReader(long)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body without a length, above the bound: %d", resp.StatusCode)
	}
	release, err := in.Body("127.0.0.1", 2990)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s.URL, "1.20", http.MethodPost, "/resource_providers", `{"name": "host1"}`); got.status != http.StatusServiceUnavailable {
		t.Errorf("while the caller's bytes are used up: %d", got.status)
	}
	release()
	if got := ask(t, s.URL, "1.20", http.MethodPost, "/resource_providers", `{"name": "host1"}`); got.status != http.StatusOK {
		t.Errorf("afterwards: %d", got.status)
	}
	if in.Held() != 0 {
		t.Errorf("%d bytes stay charged", in.Held())
	}
}

// A client that sends its whole body before it reads, as Python's does, gets the answer.
func TestAPI_RefusedLongBody_IsAnsweredToWhoSendsItAllFirst(t *testing.T) {
	s := newTestServer(t, newMemory())
	for _, c := range []struct {
		header, token string
		want          int
	}{
		{"Content-Length: %d", "admin", http.StatusRequestEntityTooLarge},
		{"Transfer-Encoding: chunked", "admin", http.StatusRequestEntityTooLarge},
		{"Content-Length: %d", "wrong", http.StatusForbidden},
	} {
		body := strings.Repeat("n", 20<<20)
		if strings.Contains(c.header, "%d") {
			c.header = fmt.Sprintf(c.header, len(body))
		} else {
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: %s\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", c.token, c.header, body); err != nil {
			t.Errorf("%s: %v", c.header, err)
			continue
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", c.header, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", c.header, resp.StatusCode, c.want)
		}
	}
}

func TestAPI_CellPrefix_IsInLinksAndLocation(t *testing.T) {
	b := newMemory()
	s := newTestServer(t, b)
	got := ask(t, s.URL, "1.20", http.MethodPost, "/cells/cell1/resource_providers", `{"name": "host1", "uuid": "`+providerA+`"}`)
	path := "/cells/cell1/resource_providers/" + providerA
	if location := got.header.Get("Location"); location != s.URL+path {
		t.Errorf("Location %q", location)
	}
	if href := got.body["links"].([]any)[1].(map[string]any)["href"]; href != path+"/inventories" {
		t.Errorf("link %q", href)
	}
	if cell := b.state.providers[providerA].Cell; cell != "cell1" {
		t.Errorf("the provider is of cell %q", cell)
	}
	if got := ask(t, s.URL, "", http.MethodGet, "/cells/cell1", ""); got.status != 200 || got.body["versions"] == nil {
		t.Errorf("the version document of a cell's prefix: %d %v", got.status, got.body)
	}
}

func TestAPI_TextWithNUL_IsRefusedByItsField(t *testing.T) {
	s := newTestServer(t, newMemory())
	for field, got := range map[string]answer{
		"name":       ask(t, s.URL, "1.39", http.MethodPost, "/resource_providers", `{"name": "a\u0000b"}`),
		"project_id": ask(t, s.URL, "1.39", http.MethodPut, "/allocations/"+providerA, `{"project_id": "a\u0000b", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE", "allocations": {}}`),
	} {
		if text := fmt.Sprint(got.body); got.status != 400 || !strings.Contains(text, "has a NUL character") || !strings.Contains(text, "On instance['"+field+"']") {
			t.Errorf("%s: %d %s", field, got.status, text)
		}
	}
}

// Placement's own HTTP tests read the rule's place in the schema.
func TestAPI_InvalidBody_NamesTheRuleAndTheField(t *testing.T) {
	s := newTestServer(t, newMemory())
	ask(t, s.URL, "1.20", http.MethodPost, "/resource_providers", `{"name": "host1", "uuid": "`+providerA+`"}`)
	for want, got := range map[string]answer{
		"Failed validating 'minimum' in schema['properties']['inventories']['patternProperties']['^[A-Z0-9_]+$']['properties']['total'] On instance['inventories']['VCPU']['total']": ask(t,
			s.URL, "1.26", http.MethodPut, "/resource_providers/"+providerA+"/inventories", `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 0}}}`),
		"Failed validating 'required' in schema On instance": ask(t,
			s.URL, "1.8", http.MethodPut, "/allocations/"+consumerA, `{"allocations": [], "project_id": "p"}`),
		"Failed validating 'required' in schema['properties']['allocations']['items'] On instance['allocations'][0]": ask(t,
			s.URL, "1.8", http.MethodPut, "/allocations/"+consumerA, `{"allocations": [{"resource_provider": {"uuid": "`+providerA+`"}}], "project_id": "p", "user_id": "u"}`),
	} {
		if text := strings.Join(strings.Fields(fmt.Sprint(got.body)), " "); got.status != 400 || !strings.Contains(text, want) {
			t.Errorf("%d %s\nwant %s", got.status, text, want)
		}
	}
}

func TestAPI_HugeAmounts_FitNowhere(t *testing.T) {
	s := newTestServer(t, newMemory())
	ask(t, s.URL, "1.20", http.MethodPost, "/resource_providers", `{"name": "host1", "uuid": "`+providerA+`"}`)
	ask(t, s.URL, "1.26", http.MethodPut, "/resource_providers/"+providerA+"/inventories", `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}`)
	for _, amount := range []string{"9223372036854775807", "99999999999999999999999"} {
		got := ask(t, s.URL, "1.36", http.MethodGet, "/resource_providers?resources=VCPU:"+amount, "")
		if list, ok := got.body["resource_providers"].([]any); !ok || len(list) != 0 {
			t.Errorf("%s: %d %v", amount, got.status, got.body)
		}
		got = ask(t, s.URL, "1.36", http.MethodPut, "/allocations/"+consumerA, `{"allocations": {"`+providerA+`": {"resources": {"VCPU": `+amount+`}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}`)
		if got.status != 400 {
			t.Errorf("an allocation of %s: %d %v", amount, got.status, got.body)
		}
	}
}

func TestAPI_EveryAnswer_IsCounted(t *testing.T) {
	var got []string
	h := New(Config{TrustLoopback: true}, Deps{Backend: newMemory(), Log: slog.New(slog.DiscardHandler), OnAnswer: func(request string, status int, _ time.Duration, silent []string) {
		if request != "" && !slices.Contains(Requests(), request) || len(silent) > 0 {
			t.Errorf("%q is none of the requests, or lacks %v", request, silent)
		}
		got = append(got, fmt.Sprintf("%s: %d", request, status))
	}})
	s := httptest.NewServer(h)
	defer s.Close()
	for _, step := range []struct{ method, path, want string }{
		{"GET", "/resource_providers", "GET /resource_providers: 200"},
		{"GET", "/cells/cell1/resource_providers/" + providerA, "GET /resource_providers/{uuid}: 404"},
		{"DELETE", "/allocations/" + consumerA, "DELETE /allocations/{consumer_uuid}: 404"},
		{"PUT", "/traits/CUSTOM_A", "PUT /traits/{name}: 201"},
		{"PATCH", "/traits", ": 405"},
		{"GET", "/nowhere/" + consumerA, ": 404"},
	} {
		got = nil
		ask(t, s.URL, "1.20", step.method, step.path, "")
		if !slices.Equal(got, []string{step.want}) {
			t.Errorf("%s %s: %q, want %q", step.method, step.path, got, step.want)
		}
	}
}
