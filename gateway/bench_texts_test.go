package gateway

import (
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// BenchmarkCheckTexts measures what the search for NUL characters costs a selection of the typed form.
func BenchmarkCheckTexts(b *testing.B) {
	r := &cellgatev1.SelectDestinationsRequest{
		RequestId: "req-1", InstanceUuids: []string{"6f70656e-0000-4000-8000-0000000000a1"}, ReturnAlternates: true,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			ProjectId: "p", UserId: "u", AvailabilityZone: "az1", RequiredTraits: []string{"CUSTOM_GOLD"},
			Flavor: &cellgatev1.Flavor{Vcpus: 2, MemoryMb: 4096, RootGb: 20, ExtraSpecs: map[string]string{"hw:cpu_policy": "shared"}},
		}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := checkTexts(r); err != nil {
			b.Fatal(err)
		}
	}
}
