package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/fault"
)

func TestREST_Answers_AreCompact(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	for _, path := range []string{"/v1/cells", "/v1/cells/nope"} {
		body := w.send("GET", path, "").Body.Bytes()
		var compact bytes.Buffer
		if err := json.Compact(&compact, body); err != nil || !bytes.Equal(compact.Bytes(), body) {
			t.Errorf("%s: %s, %v", path, body, err)
		}
	}
}

// The OpenAPI description has, for every call, the form of the errors that are sent.
func TestOpenAPIDescribesTheErrors(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	var doc struct {
		Paths map[string]map[string]struct {
			RPC       string                    `json:"x-grpc"`
			Responses map[string]map[string]any `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(w.send("GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for path, methods := range doc.Paths {
		for method, call := range methods {
			if call.RPC == "" { // /healthz and the like
				continue
			}
			calls++
			if ref := call.Responses["default"]["$ref"]; ref != "#/components/responses/Error" {
				t.Errorf("%s %s: errors are %q", method, path, ref)
			}
		}
	}
	if calls != 24 {
		t.Errorf("%d calls", calls)
	}
	var sent map[string]any
	if err := json.Unmarshal(w.send("GET", "/v1/cells/nope", "").Body.Bytes(), &sent); err != nil {
		t.Fatal(err)
	}
	is, says := slices.Sorted(maps.Keys(sent)), slices.Sorted(maps.Keys(doc.Components.Schemas["Error"].Properties))
	if !slices.Equal(is, says) {
		t.Errorf("an error has %v, the description %v", is, says)
	}
}

// error.proto names every reason that a caller may get.
func TestTheSchemaNamesEveryReason(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string } `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(w.send("GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	named := strings.FieldsFunc(doc.Components.Schemas["Error"].Properties["reason"].Description, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') })
	want := []string{"DEADLINE_EXCEEDED", "CANCELLED"}
	for _, k := range fault.Kinds() {
		if k != fault.Gone {
			want = append(want, string(k))
		}
	}
	for _, reason := range want {
		if !slices.Contains(named, reason) {
			t.Errorf("%s is not named: %v", reason, named)
		}
	}
}
