package cell

import (
	"errors"
	"slices"
	"testing"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// What a host says arrives in the table's row; what cannot be read is refused by
// its path.
func TestFactsArrive(t *testing.T) {
	var r reader
	f := r.facts(&agentv1.Facts{
		CpuInfo: `{"arch": "x86_64"}`, SupportedInstances: `[["amd64", "kvm", "hvm"]]`, Stats: `{"rack": "r1"}`,
		Metrics: `[{"name": "cpu.percent", "value": 0.4}]`, NumaTopology: "{}", PciStats: "[]",
	})
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if f.CPUInfo == "" || f.SupportedInstances == "" || f.Stats == "" || f.Metrics == "" || f.NUMATopology == "" || f.PCIStats == "" {
		t.Errorf("lost something: %+v", f)
	}
	if r.facts(nil) != nil {
		t.Error("no facts became some")
	}
}

func TestFactsThatCannotBeRead(t *testing.T) {
	state := plainState(1, 8)
	state.Facts = &agentv1.Facts{
		CpuInfo: "x86", SupportedInstances: `[["vax", "kvm", "hvm"]]`, Stats: `[1]`, Metrics: `[{"name": "heat", "value": 1}]`,
	}
	_, err := putHostOf(state)
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.InvalidRequest {
		t.Fatalf("got %v", err)
	}
	var paths []string
	for _, f := range e.Fields {
		paths = append(paths, f.Path)
	}
	// A cpu_info that is no JSON is a capability as text, as in Nova.
	if want := []string{"facts.metrics", "facts.stats", "facts.supported_instances"}; !slices.Equal(paths, want) {
		t.Errorf("named %v, want %v", paths, want)
	}
}
