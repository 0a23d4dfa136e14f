package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/gateway/admission"
	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const restBody = `{"instance_uuids": ["%s"], "request_spec": {"flavor": {"vcpus": 2, "memory_mb": 4096, "root_gb": 10}}}`

// problem is an error body.
type problem struct {
	Code    int              `json:"code"`
	Reason  fault.Kind       `json:"reason"`
	Message string           `json:"message"`
	Details []map[string]any `json:"details"`
}

func problemOf(t *testing.T, rec *httptest.ResponseRecorder) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Fatalf("body %q: %v", rec.Body, err)
	}
	if got := rec.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	if p.Message == "" || len(p.Details) == 0 || p.Details[0]["reason"] != string(p.Reason) || p.Details[0]["domain"] != "cellgate" {
		t.Errorf("body %s", rec.Body)
	}
	return p
}

// fields gives the paths of a BadRequest detail.
func (p problem) fields() []string {
	var out []string
	for _, d := range p.Details {
		list, _ := d["field_violations"].([]any)
		for _, v := range list {
			out = append(out, v.(map[string]any)["field"].(string))
		}
	}
	return out
}

func TestRESTSelect(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	rec := w.send("POST", "/v1/select_destinations", fmt.Sprintf(restBody, testUUID(0x1, 1)))
	if rec.Code != http.StatusOK {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	var resp cellgatev1.SelectDestinationsResponse
	if err := protojson.Unmarshal(rec.Body.Bytes(), &resp); err != nil {
		t.Fatal(err)
	}
	id := resp.GetDestinations()[0].GetSelected().GetClaimId()
	for _, want := range []string{`"decision_id"`, `"compute_node_uuid"`, `"partial":false`, `"alternates":[]`, `"claim_state":"PENDING"`, `"outcome":"SEARCHED"`} {
		if !strings.Contains(strings.ReplaceAll(rec.Body.String(), `": `, `":`), want) {
			t.Errorf("no %s in %s", want, rec.Body)
		}
	}
	path := "/v1/claims/" + testUUID(0x1, 1)
	if rec := w.send("GET", path, ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), id) {
		t.Errorf("get: %d %s", rec.Code, rec.Body)
	}
	if rec := w.send("POST", path+":confirm", `{"claim_id": "`+id+`"}`); rec.Code != 200 || !strings.Contains(rec.Body.String(), "CONFIRMED") {
		t.Errorf("confirm: %d %s", rec.Code, rec.Body)
	}
	if rec := w.send("DELETE", path+"?claim_id="+id, ""); rec.Code != 200 || w.liveClaims() != 0 {
		t.Errorf("release: %d %s", rec.Code, rec.Body)
	}
	if rec := w.send("GET", path, ""); rec.Code != 404 || problemOf(t, rec).Reason != fault.NotFound {
		t.Errorf("get: %d %s", rec.Code, rec.Body)
	}
	for _, path := range []string{"/v1/hosts?page_size=1", "/v1/cells", "/v1/cells/cell1", "/v1/findings?kind=ORPHANED_CLAIM", "/v1/claims", "/healthz", "/readyz", "/openapi.json"} {
		if rec := w.send("GET", path, ""); rec.Code != 200 || !json.Valid(rec.Body.Bytes()) {
			t.Errorf("%s: %d %.100s", path, rec.Code, rec.Body)
		}
	}
}

func TestRESTNoValidHost(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	rec := w.send("POST", "/v1/select_destinations", strings.Replace(fmt.Sprintf(restBody, testUUID(0x1, 1)), `"vcpus": 2`, `"vcpus": 99`, 1))
	p := problemOf(t, rec)
	if rec.Code != http.StatusConflict || p.Reason != fault.NoValidHost || p.Code != 9 ||
		p.Message != "No valid host was found. 0 of 2 hosts: 2 have too little VCPU; 99 VCPU is more than the max_unit of 2 hosts (the greatest is 16)" {
		t.Errorf("%d %+v", rec.Code, p)
	}
	if d := p.Details[1]; d["@type"] != "type.googleapis.com/cellgate.v1.NoValidHost" || d["hosts"] != 2.0 || len(d["cells"].([]any)) != 2 {
		t.Errorf("detail %v", d)
	}
}

func TestRESTUnavailableAndOverloaded(t *testing.T) {
	w := start(t, fleet(1, 1), func(c *Config) { c.MaxInFlight = 1 })
	w.cells[0].hook(down, nil)
	rec := w.send("POST", "/v1/select_destinations", fmt.Sprintf(restBody, testUUID(0x1, 1)))
	if p := problemOf(t, rec); rec.Code != 503 || p.Reason != fault.CellUnavailable || !strings.Contains(p.Message, "cell1") {
		t.Errorf("%d %+v", rec.Code, p)
	}
	leave, err := w.g.queues.selections.Enter(admission.Caller{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	rec = w.send("POST", "/v1/select_destinations", fmt.Sprintf(restBody, testUUID(0x1, 1)))
	leave()
	if p := problemOf(t, rec); rec.Code != 429 || p.Reason != fault.Overloaded || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %+v", rec.Code, p)
	}
}

// Bad input is refused with an error that names the field, and changes nothing.
func TestBadInput(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	good := fmt.Sprintf(restBody, testUUID(0x1, 1))
	many := make([]string, 10000)
	for i := range many {
		many[i] = `"` + testUUID(0x2, i) + `"`
	}
	nova := `{"instance_uuids": ["` + testUUID(0x1, 1) + `"], "nova_request_spec": {"nova_object.name": "RequestSpec", ` +
		`"nova_object.namespace": "nova", "nova_object.version": "%s", "nova_object.data": {}}}`
	for _, tt := range []struct {
		name, body string
		code       int
		field      string
		says       string
	}{
		{"empty body", ``, 400, "instance_uuids", ""},
		{"malformed", good[:len(good)-1], 400, "body", "line 1, column"},
		{"not JSON", "instances please", 400, "body", "line 1, column 1"},
		{"second value", good + "{}", 400, "body", "line 1, column"},
		{"not an object", `[1]`, 400, "body", "line 1, column 1"},
		{"unknown field", strings.Replace(good, `"vcpus"`, `"vcpu"`, 1), 400, "request_spec.flavor.vcpu", `there is no such field; did you mean "vcpus"?`},
		{"unknown field, line two", "{\n  \"instnce_uuids\": []}", 400, "instnce_uuids", `did you mean "instance_uuids"? (line 2, column 3)`},
		{"unknown field, like none", `{"instnace": "x"}`, 400, "instnace", "the fields are request_id, operation, instance_uuids, request_spec, "},
		{"wrong type", strings.Replace(good, `"vcpus": 2`, `"vcpus": "many"`, 1), 400, "request_spec.flavor.vcpus", `"many" is not a whole number of 32 bits`},
		{"wrong type in a list", `{"instance_uuids": ["` + testUUID(0x1, 1) + `", 7]}`, 400, "instance_uuids[1]", "7 is not a text"},
		{"unknown value of an enum", strings.Replace(good, `{`, `{"operation": "bild", `, 1), 400, "operation", `"bild" is none of the values OPERATION_UNSPECIFIED, BUILD, `},
		{"unknown value of an enum, one meant", strings.Replace(good, `{`, `{"operation": "bild", `, 1), 400, "operation", `; did you mean "BUILD"?`},
		{"no duration", strings.Replace(good, `{`, `{"claim_ttl": "x", `, 1), 400, "claim_ttl", `must be a duration in seconds such as "300s"`},
		{"too large a number", strings.Replace(good, `"vcpus": 2`, `"vcpus": 99999999999`, 1), 400, "request_spec.flavor.vcpus", ""},
		{"negative amount", strings.Replace(good, `"vcpus": 2`, `"vcpus": -2`, 1), 400, "request_spec.flavor.vcpus", ""},
		{"negative resource", strings.Replace(good, `"request_spec": {`, `"request_spec": {"resources": {"VCPU": -1}, `, 1), 400, `request_spec.resources["VCPU"]`, ""},
		{"unknown class", strings.Replace(good, `"request_spec": {`, `"request_spec": {"resources": {"VCPUS": 1}, `, 1), 400, `request_spec.resources["VCPUS"]`, "VCPUS"},
		{"10,000 instances", strings.Replace(good, `"`+testUUID(0x1, 1)+`"`, strings.Join(many, ", "), 1), 400, "instance_uuids", "1000"},
		{"duplicates", strings.Replace(good, `"`+testUUID(0x1, 1)+`"`, many[10]+", "+many[10], 1), 400, "instance_uuids", ""},
		{"duplicates in another case", strings.Replace(good, `"`+testUUID(0x1, 1)+`"`, many[10]+", "+strings.ToUpper(many[10]), 1), 400, "instance_uuids[1]", "instance_uuids[0]"},
		{"not a uuid", strings.Replace(good, testUUID(0x1, 1), "one", 1), 400, "instance_uuids[0]", ""},
		{"no spec", `{"instance_uuids": ["` + testUUID(0x1, 1) + `"]}`, 400, "request_spec", "nova_request_spec"},
		{"both specs", strings.Replace(good, `"request_spec"`, `"nova_request_spec": {}, "request_spec"`, 1), 400, "nova_request_spec", "only one of"},
		{"unknown object version", fmt.Sprintf(nova, "99.1"), 400, `nova_request_spec["nova_object.version"]`, "99.1"},
		{"5 MB", strings.Replace(good, `"request_spec"`, strings.Repeat(" ", 5<<20)+`"request_spec"`, 1), 413, "body", "4194304"},
		{"many values", `{"instance_uuids": ["` + testUUID(0x1, 1) + `"], "nova_request_spec": {"a": [` +
			strings.Repeat("1,", 400_000) + `1]}}`, 400, "nova_request_spec", "262144 values"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := w.send("POST", "/v1/select_destinations", tt.body)
			p := problemOf(t, rec)
			if rec.Code != tt.code || p.Reason != fault.InvalidRequest || p.Code != 3 || !strings.Contains(p.Message, tt.says) {
				t.Fatalf("%d %+v", rec.Code, p)
			}
			if says := fmt.Sprint(p); strings.Contains(says, "oneof") || strings.Contains(says, "strconv") {
				t.Errorf("speaks as a library: %s", says)
			}
			if !slices.Contains(p.fields(), tt.field) {
				t.Errorf("names the fields %q, not %s: %s", p.fields(), tt.field, p.Message)
			}
		})
	}
	if w.liveClaims() != 0 {
		t.Errorf("%d claims", w.liveClaims())
	}
	if rec := w.send("POST", "/v1/select_destinations", good); rec.Code != 200 {
		t.Errorf("the good one: %d %s", rec.Code, rec.Body)
	}
}

func TestRESTPaths(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	for _, tt := range []struct {
		method, path string
		code         int
		reason       fault.Kind
	}{
		{"GET", "/v1/nothing", 404, fault.NotFound},
		{"GET", "/nothing", 404, fault.NotFound},
		{"POST", "/", 404, fault.NotFound},
		{"GET", "/v1/select_destinations", 405, fault.InvalidRequest},
		{"DELETE", "/v1/cells", 405, fault.InvalidRequest},
		{"GET", "/v1/claims/not-a-uuid", 400, fault.InvalidRequest},
		{"GET", "/v1/hosts?page_size=many", 400, fault.InvalidRequest},
		{"GET", "/v1/hosts?page_size=-1", 400, fault.InvalidRequest},
		{"GET", "/v1/hosts?zone=az1", 400, fault.InvalidRequest},
		{"GET", "/v1/hosts/" + testUUID(1, 1), 404, fault.NotFound},
	} {
		rec := w.send(tt.method, tt.path, "")
		if p := problemOf(t, rec); rec.Code != tt.code || p.Reason != tt.reason {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, rec.Code, rec.Body)
		}
	}
}

func TestReadyOnlyWhenTheCellsWereAsked(t *testing.T) {
	g, err := New(Config{Cells: []cellclient.CellConfig{{Name: "cell1", Replicas: []string{"cell1"}}}}, Deps{Dial: lazy})
	if err != nil {
		t.Fatal(err)
	}
	defer g.cells.Close()
	conn, err := lazy("gateway")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h, err := g.HTTPHandler(conn)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		if rec.Code != want {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}

func TestReadyOnlyWhenACellHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cells := fleet(2, 1)
		for _, c := range cells {
			c.hook(down, nil)
		}
		w := start(t, cells, nil)
		if rec := w.send("GET", "/readyz", ""); rec.Code != 503 || !strings.Contains(rec.Body.String(), `{"name":"cells","ok":false,"why":"no cell has answered in the last 10s: cell1 never, cell2 never"}`) {
			t.Errorf("no cell answers: %d %s", rec.Code, rec.Body)
		}
		cells[1].hook(nil, nil)
		time.Sleep(2 * cellclient.SummaryEvery) // virtual
		if rec := w.send("GET", "/readyz", ""); rec.Code != 200 {
			t.Errorf("one cell answers: %d %s", rec.Code, rec.Body)
		}
		// An answer older than SummaryMaxAge does not count.
		cells[1].hook(down, nil)
		time.Sleep(cellclient.SummaryMaxAge + 2*cellclient.SummaryEvery) // virtual
		if rec := w.send("GET", "/readyz", ""); rec.Code != 503 || !strings.Contains(rec.Body.String(), "cell1 never, cell2 1") {
			t.Errorf("no cell answers any more: %d %s", rec.Code, rec.Body)
		}
		if rec := w.send("GET", "/healthz", ""); rec.Code != 200 {
			t.Errorf("alive without cells: %d %s", rec.Code, rec.Body)
		}
		cells[1].hook(nil, nil)
		time.Sleep(2 * cellclient.SummaryEvery) // virtual
		w.g.Health().Drain()
		if rec := w.send("GET", "/readyz", ""); rec.Code != 503 || !strings.Contains(rec.Body.String(), `{"name":"draining","ok":false,`) {
			t.Errorf("draining: %d %s", rec.Code, rec.Body)
		}
	})
}
