package gateway

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/gateway/rest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// facts returns the PutFacts requests that the cell got.
func (c *testCell) facts() []*cellv1.PutFactsRequest { return got[*cellv1.PutFactsRequest](c) }

func TestFactsGoToTheCellThatHasTheHost(t *testing.T) {
	cells := fleet(3, 2)
	w := start(t, cells, nil)
	host := testUUID(0xa, 100)
	rec := w.send("PUT", "/v1/hosts/"+strings.ToUpper(host)+"/facts/cinder?if_generation=-1", `{"free_gb": 800, "pools": ["<a>"]}`)
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"cell":"cell2"`) || !strings.Contains(rec.Body.String(), `"generation":"2"`) {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	got := cells[1].facts()
	if len(cells[0].facts())+len(cells[2].facts()) != 0 || len(got) != 1 {
		t.Fatalf("got %v, %v, %v", cells[0].facts(), got, cells[2].facts())
	}
	if m := got[0]; m.GetHostUuid() != host || m.GetNamespace() != "cinder" || m.GetFacts() != `{"free_gb":800,"pools":["<a>"]}` || m.GetIfGeneration() != -1 {
		t.Errorf("got %v", m)
	}
	if rec := w.send("GET", "/v1/hosts/"+host+"/facts/nope", ""); rec.Code != 404 || !strings.Contains(rec.Body.String(), `has no facts in namespace \"nope\"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := w.send("DELETE", "/v1/hosts/"+host+"/facts/cinder?cell=cell2", ""); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if m := cells[1].facts()[1]; m.GetFacts() != "" || m.GetNamespace() != "cinder" {
		t.Errorf("got %v", m)
	}
}

func TestBadFactsAreNamed(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	host := testUUID(0xa, 0)
	for _, tt := range []struct{ path, body, reason, field string }{
		{"/v1/hosts/x/facts/cinder", `{}`, "NOT_FOUND", ""},
		{"/v1/hosts/" + host + "/facts/Cinder", `{}`, "INVALID_REQUEST", "namespace"},
		{"/v1/hosts/" + host + "/facts/cinder?if_generation=-2", `{}`, "INVALID_REQUEST", "if_generation"},
		{"/v1/hosts/" + host + "/facts/cinder?if_generation=new", `{}`, "INVALID_REQUEST", "if_generation"},
		{"/v1/hosts/" + host + "/facts/cinder?generation=2", `{}`, "INVALID_REQUEST", "generation"},
		{"/v1/hosts/" + host + "/facts/cinder?cell=nowhere", `{}`, "INVALID_REQUEST", "cell"},
		{"/v1/hosts/" + host + "/facts/cinder", `{"a":"` + strings.Repeat("x", maxFacts) + `"}`, "INVALID_REQUEST", "facts"},
		{"/v1/hosts/" + host + "/facts/cinder", ``, "INVALID_REQUEST", "facts"},
		{"/v1/hosts/" + host + "/facts/cinder", `[1]`, "INVALID_REQUEST", "facts"},
		{"/v1/hosts/" + host + "/facts/cinder", `7`, "INVALID_REQUEST", "facts"},
		{"/v1/hosts/" + host + "/facts/cinder", `null`, "INVALID_REQUEST", "facts"},
		{"/v1/hosts/" + host + "/facts/cinder", `{"a": 1`, "INVALID_REQUEST", "facts"},
		{"/v1/hosts/" + host + "/facts/cinder", `{"a": 1} {"b": 2}`, "INVALID_REQUEST", "facts"},
		{"/v1/hosts/" + host + "/facts/cinder", `{"a": {"b": 1, "b": 2}}`, "INVALID_REQUEST", "facts.a.b"},
		{"/v1/hosts/" + host + "/facts/cinder", `{"a": [1, 1e999]}`, "INVALID_REQUEST", "facts.a[1]"},
		{"/v1/hosts/" + host + "/facts/cinder", `{"a": "` + strings.Repeat("x", rest.MaxBody) + `"}`, "INVALID_REQUEST", "body"},
		{"/v1/hosts/" + testUUID(0xa, 999) + "/facts/cinder", `{}`, "NOT_FOUND", ""},
		{"/v1/hosts/" + host + "/facts/cinder?cell=cell2", `{}`, "NOT_FOUND", ""},
	} {
		rec := w.send("PUT", tt.path, tt.body)
		p := problemOf(t, rec)
		if rec.Code == 200 || string(p.Reason) != tt.reason || tt.field != "" && !slices.Contains(p.fields(), tt.field) {
			t.Errorf("%s: %d %s", tt.path, rec.Code, rec.Body)
		}
		if strings.Contains(rec.Body.String(), "header") || strings.Contains(rec.Body.String(), "proto:") {
			t.Errorf("%s: it says %s", tt.path, rec.Body)
		}
	}
}

// If the reply is lost, the error says neither that the facts were written nor that they were not.
func TestFactsWhoseAnswerWasLost(t *testing.T) {
	cells := fleet(1, 1)
	w := start(t, cells, nil)
	cells[0].hook(nil, func(method string, _ any) error {
		if method == "PutFacts" {
			return status.Error(codes.Unavailable, "the connection broke")
		}
		return nil
	})
	rec := w.send("PUT", "/v1/hosts/"+testUUID(0xa, 0)+"/facts/cinder?if_generation=-1", `{}`)
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), "OUTCOME_UNKNOWN") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
