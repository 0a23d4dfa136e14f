package gateway

import (
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/gateway/rules"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// novaAsk is a request of Nova's form, of a bundled sample: n instances numbered
// from 1 on. change gets the RequestSpec's data and the flavor's.
func novaAsk(t testing.TB, n int, change func(spec, flavor map[string]any)) *cellgatev1.SelectDestinationsRequest {
	t.Helper()
	raw, err := os.ReadFile("../samples/requests/003-small.placed.json")
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Spec map[string]any `json:"nova_request_spec"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatal(err)
	}
	data := func(m map[string]any) map[string]any { return m["nova_object.data"].(map[string]any) }
	spec := data(body.Spec)
	spec["num_instances"] = float64(n)
	change(spec, data(spec["flavor"].(map[string]any)))
	form, err := structpb.NewStruct(body.Spec)
	if err != nil {
		t.Fatal(err)
	}
	req := ask(1, n)
	req.Spec = &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: form}
	return req
}

// Dedicated CPUs are PCPU on a host that reports them, and VCPU on one that does
// not, whichever cell each is in: every host is judged for itself.
func TestDedicatedCPUsFallBackHostByHost(t *testing.T) {
	modern := testHost(1, 1)
	modern.Resources[0] = schedule.Resource{Class: "PCPU", Capacity: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1}
	for name, c := range map[string]struct {
		off  bool
		want map[string]string
	}{
		"on":  {want: map[string]string{"host001": "PCPU", "host002": "VCPU"}},
		"off": {off: true, want: map[string]string{"host001": "PCPU"}},
	} {
		w := start(t, []*testCell{newCell(1, modern), newCell(2, testHost(2, 4))}, func(cfg *Config) {
			cfg.Options = &rules.Options{HostSubsetSize: 1, NoPCPUFallback: c.off}
		})
		seen := map[string]string{}
		for i, host := range []string{"host001", "host002"} {
			req := novaAsk(t, 1, func(spec, flavor map[string]any) {
				spec["force_hosts"] = []any{host}
				flavor["extra_specs"] = map[string]any{"hw:cpu_policy": "dedicated"}
				flavor["vcpus"] = 2.0
			})
			req.InstanceUuids = []string{testUUID(0xe, i)}
			resp, err := w.scheduler.SelectDestinations(t.Context(), req)
			if err != nil {
				continue // with the option there is no host
			}
			s := resp.GetDestinations()[0].GetSelected()
			for k, cell := range w.cells {
				for _, claim := range cell.live() {
					for _, a := range claim.GetAllocations() {
						if a.GetResourceClass() == "PCPU" || a.GetResourceClass() == "VCPU" {
							seen[claim.GetServiceHost()] = a.GetResourceClass()
							if a.GetAmount() != 2 || a.GetProviderUuid() != testUUID(0xa, k+1) {
								t.Errorf("%s: allocation %v", name, a)
							}
						}
					}
				}
			}
			allocations, err := allocationsIn(s.GetAllocationRequest())
			if err != nil || len(allocations) == 0 || allocations[len(allocations)-1].GetResourceClass() != seen[s.GetServiceHost()] {
				t.Errorf("%s: allocation_request %s, claimed %v: %v", name, s.GetAllocationRequest(), seen, err)
			}
		}
		if len(seen) != len(c.want) || seen["host001"] != c.want["host001"] || seen["host002"] != c.want["host002"] {
			t.Errorf("%s: claimed %v, want %v", name, seen, c.want)
		}
	}
}
