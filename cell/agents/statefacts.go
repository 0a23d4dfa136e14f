package agents

import (
	"bytes"
	"encoding/json"
	"strings"

	"cellgate/internal/hoststate"
	"cellgate/internal/wire"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// factsOf reads the facts of an agent's state or of an imported row.
func factsOf(f *agentv1.Facts) *shard.Facts {
	if f == nil {
		return nil
	}
	return &shard.Facts{
		CPUInfo: f.GetCpuInfo(), SupportedInstances: f.GetSupportedInstances(), Stats: f.GetStats(),
		Metrics: f.GetMetrics(), NUMATopology: f.GetNumaTopology(), PCIStats: f.GetPciStats(),
	}
}

// checkFacts refuses facts that Nova could not parse, so that no request runs into them.
func (r *stateReader) checkFacts(f *schedule.Facts) {
	for _, bad := range hoststate.Unreadable(f) {
		r.Problem(bad.Path, "%s", bad.Problem)
	}
}

// namespaces reads the namespaces of facts that a host reports, as its row stores them; "" for none.
func (r *stateReader) namespaces(in []*agentv1.Namespace) string {
	if len(in) == 0 {
		return ""
	}
	all, size := make(map[string]json.RawMessage, len(in)), 0
	for i, n := range in {
		path := wire.ItemPath("namespaces", i, "")
		if problem := shard.NamespaceProblem(n.GetName()); problem != "" {
			r.Problem(path+".name", "%s", problem)
			continue
		}
		if _, ok := all[n.GetName()]; ok {
			r.Problem(path+".name", "%s stands there already", n.GetName())
		}
		text, err := shard.CanonicalFacts(n.GetFacts())
		if err != nil {
			r.Problem(path+".facts", "%v", err)
			continue
		}
		all[n.GetName()] = json.RawMessage(text)
		size += len(text)
	}
	if size > shard.MaxNamespaceBytes {
		r.Problem("namespaces", "come to %d bytes, must be at most %d", size, shard.MaxNamespaceBytes)
	}
	if len(all) > shard.MaxNamespaces {
		r.Problem("namespaces", "are %d, must be at most %d", len(all), shard.MaxNamespaces)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		r.Problem("namespaces", "%v", err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}
