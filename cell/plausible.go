package cell

import (
	"encoding/json"
	"strings"
	"unicode"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// maxVersion is the highest version of a state: a life that counts on from there is refused
// by name.
const maxVersion = 1 << 62

// plausible refuses of an agent's state what no agent means, though Nova reads the same in a
// row of its tables, which are imported as they are. held is the state before it, whose facts
// need no second look; nil for none.
func plausible(in, held *agentv1.FullState) error {
	var bad problems
	if in.GetVersion() > maxVersion {
		bad.add("version", "must be at most %d", uint64(maxVersion))
	}
	for _, name := range [...]struct{ path, text string }{{"service_host", in.GetServiceHost()}, {"nodename", in.GetNodename()}} {
		if strings.TrimSpace(name.text) == "" || strings.ContainsFunc(name.text, unicode.IsControl) {
			bad.add(name.path, "must not be blank, or have control characters")
		}
	}
	if f := in.GetFacts(); f != nil && f != held.GetFacts() {
		for _, fact := range [...]struct{ path, text string }{{"facts.cpu_info", f.GetCpuInfo()}, {"facts.stats", f.GetStats()}} {
			if fact.text != "" && !isObject(fact.text) {
				bad.add(fact.path, "must be a JSON object")
			}
		}
		if text := f.GetNumaTopology(); text != "" && !namesCells(text) {
			bad.add("facts.numa_topology", "must be a serialized NUMATopology with its cells")
		}
	}
	return fault.InvalidFields(bad)
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}

// namesCells reports whether a NUMATopology, or one as old computes write it, has cells.
func namesCells(text string) bool {
	var t struct {
		Cells json.RawMessage `json:"cells"`
		Data  struct {
			Cells json.RawMessage `json:"cells"`
		} `json:"nova_object.data"`
	}
	return json.Unmarshal([]byte(text), &t) == nil && (t.Cells != nil || t.Data.Cells != nil)
}
