package hoststate

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// MaxVersion is the highest version of a state. A state beyond it is refused with a problem that names
// it.
const MaxVersion = 1 << 62

// NotPlausible lists values of an agent's state that no agent can mean. Nova accepts the same values in
// a row of its tables, so imported rows may have them. held is the state before, whose facts are not
// checked again; nil for none.
func NotPlausible(in, held *agentv1.FullState) (bad []fault.Field) {
	add := func(path, problem string) { bad = append(bad, fault.Field{Path: path, Problem: problem}) }
	if in.GetVersion() > MaxVersion {
		add("version", fmt.Sprintf("must be at most %d", uint64(MaxVersion)))
	}
	for _, name := range [...]struct{ path, text string }{{"service_host", in.GetServiceHost()}, {"nodename", in.GetNodename()}} {
		if problem := NameProblem(name.text); problem != "" {
			add(name.path, problem)
		}
	}
	for i, p := range in.GetProviders() {
		for k, v := range p.GetInventories() {
			if float64(v.GetTotal()-v.GetReserved())*v.GetAllocationRatio() > math.MaxInt32 {
				add(fmt.Sprintf("providers[%d].inventories[%d].total", i, k), fmt.Sprintf("is %d, less %d reserved, times %v: must be at most %d after the ratio", v.GetTotal(), v.GetReserved(), v.GetAllocationRatio(), math.MaxInt32))
			}
		}
	}
	if f := in.GetFacts(); f != nil && f != held.GetFacts() {
		for _, fact := range [...]struct{ path, text string }{{"facts.cpu_info", f.GetCpuInfo()}, {"facts.stats", f.GetStats()}} {
			if fact.text != "" && !isObject(fact.text) {
				add(fact.path, "must be a JSON object")
			}
		}
		if text := f.GetNumaTopology(); text != "" && !namesCells(text) {
			add("facts.numa_topology", "must be a serialized NUMATopology with its cells")
		}
	}
	return bad
}

// NameProblem says what is wrong with a name of a host; "" when nothing is.
func NameProblem(name string) string {
	if strings.TrimSpace(name) == "" || strings.ContainsFunc(name, unicode.IsControl) {
		return "must not be blank, or have control characters"
	}
	return ""
}

// Unreadable lists the facts that Nova could not parse.
func Unreadable(f *schedule.Facts) (bad []fault.Field) {
	for _, field := range slices.Sorted(maps.Keys(f.Failed)) {
		bad = append(bad, fault.Field{Path: "facts." + field, Problem: "cannot be read: " + f.Failed[field]})
	}
	return bad
}

// FactTexts returns the texts from which a state's facts are parsed.
func FactTexts(in *agentv1.FullState) schedule.FactTexts {
	f := in.GetFacts()
	return schedule.FactTexts{
		HypervisorType: in.GetHypervisorType(), HypervisorHostname: in.GetNodename(), HostIP: in.GetHostIp(),
		CPUInfo: f.GetCpuInfo(), SupportedInstances: f.GetSupportedInstances(), Stats: f.GetStats(), Metrics: f.GetMetrics(),
		NUMATopology: f.GetNumaTopology(), PCIPools: f.GetPciStats(),
	}
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}

// namesCells reports whether the JSON of a NUMATopology, in the present form or that of old computes,
// has cells.
func namesCells(text string) bool {
	var t struct {
		Cells json.RawMessage `json:"cells"`
		Data  struct {
			Cells json.RawMessage `json:"cells"`
		} `json:"nova_object.data"`
	}
	return json.Unmarshal([]byte(text), &t) == nil && (t.Cells != nil || t.Data.Cells != nil)
}
