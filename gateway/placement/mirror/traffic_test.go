package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// traffic writes to a Placement as Nova, Neutron and operators do.
type traffic struct {
	t       testing.TB
	r       *rand.Rand
	handler http.Handler
	id      int
	// done counts writes that succeeded, refused those that did not.
	done, refused int
	providers     []string
	consumers     []string
}

func (w *traffic) uuid(kind byte) string {
	w.id++
	return fmt.Sprintf("%c0000000-0000-4000-8000-%012d", kind, w.id)
}

func (w *traffic) call(method, path string, body any) (int, map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	var reader *bytes.Reader
	if body == nil {
		reader = bytes.NewReader(nil)
	} else {
		reader = bytes.NewReader(text)
	}
	r := httptest.NewRequestWithContext(context.Background(), method, path, reader)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	var out map[string]any
	if answer.Body.Len() > 0 && answer.Body.Bytes()[0] == '{' {
		if err := json.Unmarshal(answer.Body.Bytes(), &out); err != nil {
			w.t.Fatalf("%s %s: %v: %s", method, path, err, answer.Body)
		}
	}
	return answer.Code, out
}

// write counts a write as done or refused, and reports whether it was done.
func (w *traffic) write(method, path string, body any) bool {
	w.t.Helper()
	status, answer := w.call(method, path, body)
	if status >= 500 {
		w.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	if status >= 300 {
		w.refused++
		return false
	}
	w.done++
	return true
}

func oneOf(r *rand.Rand, list []string) string {
	if len(list) == 0 {
		return "00000000-0000-4000-8000-00000000dead"
	}
	return list[r.IntN(len(list))]
}

func (w *traffic) generation(provider string) any {
	_, p := w.call(http.MethodGet, "/resource_providers/"+provider, nil)
	return p["generation"]
}

var classes = []string{"VCPU", "MEMORY_MB", "CUSTOM_FPGA"}

func (w *traffic) inventories() map[string]any {
	out := map[string]any{}
	for _, class := range classes {
		if w.r.IntN(4) > 0 {
			total := 8 + w.r.IntN(40)
			out[class] = map[string]any{
				"total": total, "reserved": w.r.IntN(3), "min_unit": 1, "max_unit": total, "step_size": 1,
				"allocation_ratio": []float64{1, 1.5, 16}[w.r.IntN(3)],
			}
		}
	}
	return out
}

func (w *traffic) allocations() map[string]any {
	out := map[string]any{}
	for range 1 + w.r.IntN(2) {
		p := oneOf(w.r, w.providers)
		_, inv := w.call(http.MethodGet, "/resource_providers/"+p+"/inventories", nil)
		of, _ := inv["inventories"].(map[string]any)
		for class := range of {
			out[p] = map[string]any{"resources": map[string]any{class: 1 + w.r.IntN(3)}}
		}
	}
	return out
}

func (w *traffic) consumerBody(id string) map[string]any {
	_, held := w.call(http.MethodGet, "/allocations/"+id, nil)
	return map[string]any{
		"allocations": w.allocations(), "project_id": "p" + fmt.Sprint(w.r.IntN(3)), "user_id": "u", "consumer_generation": held["consumer_generation"],
		"consumer_type": []string{"INSTANCE", "MIGRATION"}[w.r.IntN(2)],
	}
}

// step makes one random write.
func (w *traffic) step() {
	p, c := oneOf(w.r, w.providers), oneOf(w.r, w.consumers)
	path := "/resource_providers/" + p
	switch w.r.IntN(15) {
	case 0, 1:
		id := w.uuid('a')
		body := map[string]any{"uuid": id, "name": "name-" + id[30:]}
		if w.r.IntN(2) == 0 && len(w.providers) > 0 {
			body["parent_provider_uuid"] = p
		}
		if w.write(http.MethodPost, "/resource_providers", body) {
			w.providers = append(w.providers, id)
			w.write(http.MethodPut, "/resource_providers/"+id+"/inventories", map[string]any{"resource_provider_generation": 0, "inventories": w.inventories()})
		}
	case 2, 3:
		w.write(http.MethodPut, path+"/inventories", map[string]any{"resource_provider_generation": w.generation(p), "inventories": w.inventories()})
	case 4:
		w.write(http.MethodPut, path+"/traits", map[string]any{"resource_provider_generation": w.generation(p), "traits": []string{"HW_CPU_X86_VMX", oneOf(w.r, []string{"CUSTOM_RED", "CUSTOM_BLUE"})}})
	case 5:
		w.write(http.MethodPut, path+"/aggregates", map[string]any{"resource_provider_generation": w.generation(p), "aggregates": []string{w.uuid('e')}})
	case 6:
		w.write(http.MethodPut, path, map[string]any{"name": "renamed-" + fmt.Sprint(w.r.IntN(50)), "parent_provider_uuid": map[bool]any{true: nil, false: oneOf(w.r, w.providers)}[w.r.IntN(2) == 0]})
	case 7:
		if w.write(http.MethodDelete, path, nil) {
			w.providers = slices.DeleteFunc(w.providers, func(id string) bool { return id == p })
		}
	case 8, 9, 10:
		id := w.uuid('c')
		if w.write(http.MethodPut, "/allocations/"+id, w.consumerBody(id)) {
			w.consumers = append(w.consumers, id)
		}
	case 11:
		w.write(http.MethodPut, "/allocations/"+c, w.consumerBody(c))
	case 12:
		w.write(http.MethodDelete, "/allocations/"+c, nil)
	case 13:
		other := oneOf(w.r, w.consumers)
		body := map[string]any{c: w.consumerBody(c), other: w.consumerBody(other)}
		w.write(http.MethodPost, "/allocations", body)
	case 14:
		w.write(http.MethodPut, "/traits/CUSTOM_"+fmt.Sprint(w.r.IntN(5)), nil)
		w.write(http.MethodDelete, "/traits/CUSTOM_"+fmt.Sprint(w.r.IntN(5)), nil)
	}
}

func newTraffic(t testing.TB, seed uint64, handler http.Handler) *traffic {
	w := &traffic{t: t, r: rand.New(rand.NewPCG(seed, 3)), handler: handler}
	for _, path := range []string{"/resource_classes/CUSTOM_FPGA", "/traits/CUSTOM_RED", "/traits/CUSTOM_BLUE"} {
		if !w.write(http.MethodPut, path, nil) {
			t.Fatal(path)
		}
	}
	return w
}
