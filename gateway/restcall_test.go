package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/fault"
)

// Bad parameters are named, with texts of this API.
func TestBadParameters(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	for _, tt := range []struct{ path, field string }{
		{"/v1/hosts?page_size=abc", "page_size"},
		{"/v1/hosts?page_size=", "page_size"},
		{"/v1/hosts?page_size=99999999999", "page_size"},
		{"/v1/hosts?page_size=1.5", "page_size"},
		{"/v1/hosts?page_size=-1", "page_size"},
		{"/v1/hosts?cell=a&cell=b", "cell"},
		{"/v1/hosts?cell.name=a", "cell.name"},
		{"/v1/hosts?zone=az1", "zone"},
		{"/v1/hosts?name_contains=%ff", "name_contains"},
		{"/v1/hosts?name_contains=%zz", "query"},
		{"/v1/hosts?cell=a;b", "query"},
		{"/v1/cells?cell=a", "cell"},
		{"/v1/cells/%ff", "cell"},
		{"/v1/claims/x", "consumer_uuid"},
	} {
		rec := w.send("GET", tt.path, "")
		p := problemOf(t, rec)
		if rec.Code != 400 || p.Reason != fault.InvalidRequest || !slices.Contains(p.fields(), tt.field) {
			t.Errorf("%s: %d %s", tt.path, rec.Code, rec.Body)
		}
		for _, bad := range []string{"strconv", "parsing", "invalid URL", "too many values", "proto:"} {
			if strings.Contains(rec.Body.String(), bad) {
				t.Errorf("%s: %q in %s", tt.path, bad, rec.Body)
			}
		}
	}
	for _, tt := range []struct{ method, path, header, value string }{
		{"GET", "/v1/cells", "Grpc-Timeout", "soon"},
		{"GET", "/v1/cells", "Grpc-Metadata-X-Bin", "%"},
		{"PUT", "/v1/hosts/" + testUUID(0xa, 0) + "/facts/cinder", "Content-Type", ";"},
	} {
		r := httptest.NewRequest(tt.method, tt.path, strings.NewReader("{}"))
		r.Header.Set(tt.header, tt.value)
		rec := httptest.NewRecorder()
		w.rest.ServeHTTP(rec, r)
		if p := problemOf(t, rec); rec.Code != 400 || !slices.Equal(p.fields(), []string{tt.header}) {
			t.Errorf("%s: %d %s", tt.header, rec.Code, rec.Body)
		}
	}
}

// Every call with a body names the field if the body, or a value in it, is no JSON or no object.
func TestBodiesThatAreNoObjectsAreNamed(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	var doc struct {
		Paths map[string]map[string]struct {
			RPC         string `json:"x-grpc"`
			RequestBody any    `json:"requestBody"`
		}
	}
	if err := json.Unmarshal(w.send("GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, methods := range doc.Paths {
		for method, call := range methods {
			if call.RequestBody == nil {
				continue
			}
			n++
			field := "body"
			if call.RPC == "cellgate.v1.Hosts/PutFacts" {
				field = "facts"
			}
			path := strings.NewReplacer("{host_uuid}", testUUID(0xa, 0), "{consumer_uuid}", testUUID(0x1, 1), "{cell}", "cell1", "{namespace}", "cinder").Replace(path)
			for _, text := range []string{"[1]", "null", "true", `"x"`, "{", "x", "{}x", `{"a`} {
				rec := w.send(strings.ToUpper(method), path, text)
				if p := problemOf(t, rec); rec.Code != 400 || p.Reason != fault.InvalidRequest || !slices.Equal(p.fields(), []string{field}) {
					t.Errorf("%s %s with %s: %d %s", method, path, text, rec.Code, rec.Body)
				}
			}
		}
	}
	if n != 11 {
		t.Errorf("%d calls have a body", n)
	}
}

func TestMethodsThatThereAre(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	for _, tt := range []struct{ method, path, allow string }{
		{"GET", "/v1/select_destinations", "POST"},
		{"PUT", "/v1/claims/" + testUUID(1, 1), "DELETE, GET"},
		{"POST", "/v1/hosts", "GET"},
	} {
		rec := w.send(tt.method, tt.path, "")
		if p := problemOf(t, rec); rec.Code != 405 || p.Reason != fault.InvalidRequest || rec.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q, %s", tt.method, tt.path, rec.Code, rec.Header().Get("Allow"), rec.Body)
		}
	}
}

// A deadline of the caller's own that passed is not a cell's fault.
func TestTheCallersDeadlineOverREST(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(1, 1), nil)
		w.cells[0].hook(func(ctx context.Context, _ string, _ any) error {
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		for _, tt := range []struct{ method, path, body, timeout string }{
			{"GET", "/v1/cells", "", "1n"},
			{"GET", "/v1/hosts", "", "50m"},
			{"DELETE", "/v1/claims/" + testUUID(0x1, 1) + "?claim_id=" + testUUID(0x2, 1), "", "50m"},
		} {
			r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			r.Header.Set("Grpc-Timeout", tt.timeout)
			rec := httptest.NewRecorder()
			w.rest.ServeHTTP(rec, r)
			if got, want := strings.TrimSpace(rec.Body.String()), `{"code":4,"reason":"DEADLINE_EXCEEDED","message":"the deadline passed before the answer was there","details":[]}`; rec.Code != 504 || got != want {
				t.Errorf("%s: %d %s", tt.path, rec.Code, got)
			}
		}
	})
}

// If the deadline has passed when the request arrives, the request ends and nothing is claimed.
func TestATimeoutOfNothingOverREST(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	body, err := protojson.Marshal(ask(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, timeout := range []string{"0S", "00m", "0n"} {
		r := httptest.NewRequest("POST", "/v1/select_destinations", bytes.NewReader(body))
		r.Header.Set("Grpc-Timeout", timeout)
		rec := httptest.NewRecorder()
		w.rest.ServeHTTP(rec, r)
		if rec.Code != 504 || !strings.Contains(rec.Body.String(), `"DEADLINE_EXCEEDED"`) {
			t.Errorf("%s: %d %s", timeout, rec.Code, rec.Body)
		}
	}
	if n := len(w.cells[0].did()); n != 0 {
		t.Errorf("%d operations", n)
	}
}

// A caller that went away is not a cell's fault, either.
func TestACallerOfRESTThatWentAway(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	w.rest.ServeHTTP(rec, httptest.NewRequest("GET", "/v1/cells", nil).WithContext(ctx))
	if got, want := rec.Body.String(), `{"code":1,"reason":"CANCELLED","message":"the caller gave up","details":[]}`; rec.Code != 499 || got != want {
		t.Errorf("%d %s", rec.Code, got)
	}
}
