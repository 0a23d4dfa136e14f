package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	"cellgate/internal/limits"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// nested is an object of n levels, objects and lists in turn.
func nested(n int) *structpb.Struct {
	v := structpb.NewNumberValue(1)
	for i := n; i > 1; i-- {
		if i%2 == 0 {
			v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
		} else {
			v = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": v}})
		}
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"a": v}}
}

func TestNovasObjectMayNestSoDeepOnly(t *testing.T) {
	for n, want := range map[int]bool{1: false, 2: false, limits.NovaDepth: false, limits.NovaDepth + 1: true, limits.NovaDepth + 2: true, 4000: true} {
		if deeper(nested(n), limits.NovaDepth) != want {
			t.Errorf("%d levels are too deep: %v", n, !want)
		}
	}
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	req := &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{testUUID(0x1, 1)},
		Spec:          &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: nested(limits.NovaDepth + 1)},
	}
	e := w.refused(req, fault.InvalidRequest)
	if len(e.Fields) != 1 || e.Fields[0].Path != "nova_request_spec" || !strings.Contains(e.Message, "nests more than 64") {
		t.Errorf("over gRPC: %v", e)
	}
	for _, depth := range []int{limits.NovaDepth + 1, 9000, 200_000} {
		body := fmt.Sprintf(`{"instance_uuids": ["%s"], "nova_request_spec": %s1%s}`, testUUID(0x1, 1),
			strings.Repeat(`{"a":`, depth), strings.Repeat("}", depth))
		if got := w.send(http.MethodPost, "/v1/select_destinations", body); got.Code != http.StatusBadRequest {
			t.Errorf("REST, %d levels: %d %.300s", depth, got.Code, got.Body)
		}
	}
}

// The request line and the headers have a size limit, which is checked before any cell is asked.
func TestHeadersAndQueriesAreBounded(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	server := httptest.NewUnstartedServer(w.rest)
	server.Config.MaxHeaderBytes = 64 << 10 // as lifecycle.HTTP has it
	server.Start()
	defer server.Close()
	resp, err := http.Get(server.URL + "/v1/hosts?name_contains=" + strings.Repeat("x", 100<<10))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long query: %d", resp.StatusCode)
	}
	if got := w.send(http.MethodGet, "/v1/hosts?name_contains="+strings.Repeat("x", 300), ""); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), "name_contains") {
		t.Errorf("a long name: %d %s", got.Code, got.Body)
	}
}
