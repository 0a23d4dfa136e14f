package cell

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// A host's facts arrive in the table's row. Facts that cannot be read are refused, with their field
// path.
func TestFactsArrive(t *testing.T) {
	state := plainState(1, 8)
	state.Facts = &agentv1.Facts{
		CpuInfo: `{"arch": "x86_64"}`, SupportedInstances: `[["amd64", "kvm", "hvm"]]`, Stats: `{"rack": "r1"}`,
		Metrics: `[{"name": "cpu.percent", "value": 0.4}]`, NumaTopology: "{}", PciStats: "[]",
	}
	put, err := readHost(state)
	if err != nil {
		t.Fatal(err)
	}
	f := put.Host.Facts
	if f.CPUInfo == "" || f.SupportedInstances == "" || f.Stats == "" || f.Metrics == "" || f.NUMATopology == "" || f.PCIStats == "" {
		t.Errorf("lost something: %+v", f)
	}
	state.Facts = nil
	if put, err := readHost(state); err != nil || put.Host.Facts != nil {
		t.Errorf("no facts became %+v, %v", put, err)
	}
}

func TestFactsThatCannotBeRead(t *testing.T) {
	state := plainState(1, 8)
	state.Facts = &agentv1.Facts{
		CpuInfo: "x86", SupportedInstances: `[["vax", "kvm", "hvm"]]`, Stats: `[1]`, Metrics: `[{"name": "heat", "value": 1}]`,
	}
	_, err := readHost(state)
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

// The facts of a host are parsed once. The table, the rows and the states with equal facts share
// them, whichever replica wrote them.
func TestFactsAreParsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		all := []*testCell{start(t, store, named("r1")), start(t, store, named("r2"))}
		facts := func(r *testCell) *schedule.Facts {
			h, _ := r.cell.versions.Current().Host(mustParse(t, hostUUID(1)))
			return h.Facts
		}
		m := boot(t, 1, 8, all...)
		var before [2]*schedule.Facts
		for i, r := range all {
			if row := r.cell.rows.Host(hostUUID(1)); facts(r) != row.Facts.Parsed() {
				t.Errorf("%s: the table's are %p, the row's %p", r.cell.cfg.Replica, facts(r), row.Facts.Parsed())
			}
			before[i] = facts(r)
		}
		m.run(1, 2)
		for i, r := range all {
			if facts(r) != before[i] {
				t.Errorf("%s: the same facts were parsed again", r.cell.cfg.Replica)
			}
		}
		s := m.state()
		s.HostIp = "192.0.2.7"
		m.host.Put(s)
		calm()
		for i, r := range all {
			if facts(r) == before[i] || !facts(r).HasAddress() {
				t.Errorf("%s: other facts are not in the table", r.cell.cfg.Replica)
			}
		}
	})
}
