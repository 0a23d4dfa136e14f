package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"cellgate/internal/security"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// An operator's change of claims is logged once, with the operator's name. Changes of
// conductors are logged at DEBUG only.
func TestWhatAnOperatorDoesIsLoggedWithItsName(t *testing.T) {
	var logged bytes.Buffer
	var mu sync.Mutex
	w := startLogged(t, twoCells(), nil, slog.New(slog.NewTextHandler(&lockedBuf{b: &logged, mu: &mu}, nil)))
	s, c := &schedulerService{g: w.g}, &claimsService{g: w.g}
	alice := security.With(t.Context(), &security.Identity{Role: security.Operator, Name: "alice"})
	nova := security.With(t.Context(), &security.Identity{Role: security.Conductor, Name: "nova"})
	lines := func() int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(logged.String(), "a caller changed claims")
	}
	resp, err := s.SelectDestinations(nova, ask(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	id := resp.GetDestinations()[0].GetSelected().GetClaimId()
	if _, err := c.ConfirmClaim(nova, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: testUUID(1, 1), ClaimId: id}); err != nil || lines() != 0 {
		t.Errorf("a conductor: %v, %d lines", err, lines())
	}
	dry := ask(2, 1)
	dry.DryRun = true
	if _, err := s.SelectDestinations(alice, dry); err != nil || lines() != 0 {
		t.Errorf("a dry run: %v, %d lines", err, lines())
	}
	for n, do := range []func() (string, error){
		func() (string, error) {
			_, err := c.ConfirmClaim(alice, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: testUUID(1, 1), ClaimId: id})
			return "method=ConfirmClaim role=operator name=alice from=\"\" outcome=OK consumer_uuid=" + testUUID(1, 1) + " claim_id=" + id, err
		},
		func() (string, error) {
			_, err := c.TransferClaim(alice, &cellgatev1.TransferClaimRequest{ConsumerUuid: testUUID(1, 1), ClaimId: id, ToConsumer: testUUID(1, 9)})
			return "claim_id=" + id + " to_consumer=" + testUUID(1, 9), err
		},
		func() (string, error) {
			_, err := c.ReleaseClaim(alice, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(1, 9), ClaimId: id})
			return "method=ReleaseClaim role=operator name=alice", err
		},
		func() (string, error) {
			_, err := s.SelectDestinations(alice, ask(3, 2))
			return "method=SelectDestinations role=operator name=alice from=\"\" outcome=OK instances=2 first=" + testUUID(1, 3), err
		},
	} {
		want, err := do()
		mu.Lock()
		text := logged.String()
		mu.Unlock()
		if err != nil || lines() != n+1 || !strings.Contains(text, want) {
			t.Errorf("%v; %d lines, want %d with %q:\n%s", err, lines(), n+1, want, text)
		}
	}
	if _, err := c.ClaimAlternate(alice, &cellgatev1.ClaimAlternateRequest{ConsumerUuid: testUUID(1, 1), ClaimId: "none", HostUuid: testUUID(0xa, 1)}); err == nil || lines() != 5 {
		t.Errorf("what failed: %v, %d lines", err, lines())
	}
}

// A browser sends the origin of the page that makes a request. Other programs send no such header.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	w := start(t, twoCells(), nil)
	const body = `{"dry_run": true, "instance_uuids": ["00000001-0000-4000-8000-000000000001"], "request_spec": {"flavor": {"vcpus": 1, "memory_mb": 1}}}`
	for _, c := range []struct {
		name, value string
		code        int
	}{
		{"Content-Type", "application/x-www-form-urlencoded", 200},
		{"Sec-Fetch-Site", "same-origin", 200},
		{"Sec-Fetch-Site", "cross-site", 403},
		{"Sec-Fetch-Site", "same-site", 403},
		{"Origin", "http://evil.example", 403},
		{"Origin", "null", 403},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/select_destinations", strings.NewReader(body))
		r.Header.Set(c.name, c.value)
		got := httptest.NewRecorder()
		w.rest.ServeHTTP(got, r)
		if got.Code != c.code || c.code == 403 && !strings.Contains(got.Body.String(), "PERMISSION_DENIED") {
			t.Errorf("%s %q: %d %s", c.name, c.value, got.Code, got.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/cells", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	got := httptest.NewRecorder()
	if w.rest.ServeHTTP(got, r); got.Code != 200 {
		t.Errorf("a page that reads: %d; the browser keeps the answer from it", got.Code)
	}
}

// Requests that the REST server refuses by itself are counted like any other answer.
func TestWhatRESTRefusesByItselfIsCounted(t *testing.T) {
	w := start(t, twoCells(), nil)
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{http.MethodPost, "/v1/select_destinations", `{"nope": 1}`, 400},
		{http.MethodPost, "/v1/select_destinations", `{"request_id": "\u0000"}`, 400},
		{http.MethodGet, "/v1/hosts?nope=1", "", 400},
		{http.MethodGet, "/v1/nothing", "", 404},
		{http.MethodPut, "/v1/cells", "", 405},
	} {
		if got := w.send(c.method, c.path, c.body); got.Code != c.code {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.Code, got.Body)
		}
	}
	w.counts(2, "cellgate_gateway_requests_total", "SelectDestinations", "INVALID_REQUEST")
	w.counts(1, "cellgate_gateway_requests_total", "ListHosts", "INVALID_REQUEST")
	w.counts(1, "cellgate_gateway_requests_total", "other", "NOT_FOUND")
	w.counts(1, "cellgate_gateway_requests_total", "other", "INVALID_REQUEST")
}
