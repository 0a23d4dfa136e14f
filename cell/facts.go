package cell

import (
	"sync"

	"cellgate/internal/hoststate"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// readFacts are what a host says of itself. They are parsed when they are asked for the
// first time; all rows of the host that say the same share them, and so does the state
// that the newest of them came in.
type readFacts struct {
	texts  schedule.FactTexts
	parse  sync.Once
	parsed *schedule.Facts
}

func (f *readFacts) facts() *schedule.Facts {
	f.parse.Do(func() { f.parsed = schedule.ParseFacts(f.texts) })
	return f.parsed
}

// factTextsOf are the texts that a host's facts are read from.
func factTextsOf(h *shard.Host) schedule.FactTexts {
	t := schedule.FactTexts{HypervisorType: h.HypervisorType, HypervisorHostname: h.NodeName, HostIP: h.HostIP}
	if f := h.Facts; f != nil {
		t.CPUInfo, t.SupportedInstances, t.Stats, t.Metrics = f.CPUInfo, f.SupportedInstances, f.Stats, f.Metrics
		t.NUMATopology, t.PCIPools = f.NUMATopology, f.PCIStats
	}
	return t
}

// factsOf are those texts of an agent's state or of an imported row.
func factsOf(f *agentv1.Facts) *shard.Facts {
	if f == nil {
		return nil
	}
	return &shard.Facts{
		CPUInfo: f.GetCpuInfo(), SupportedInstances: f.GetSupportedInstances(), Stats: f.GetStats(),
		Metrics: f.GetMetrics(), NUMATopology: f.GetNumaTopology(), PCIStats: f.GetPciStats(),
	}
}

// checkFacts refuses facts that Nova could not read, so that no request meets them.
func (r *stateReader) checkFacts(f *schedule.Facts) {
	for _, bad := range hoststate.Unreadable(f) {
		r.Problem(bad.Path, "%s", bad.Problem)
	}
}

// read gives a host's facts, as they were read already where its row, or a state that is on
// its way, says the same.
func (r *rows) read(h *shard.Host) *readFacts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.readLocked(h)
}

// readLocked needs mu.
func (r *rows) readLocked(h *shard.Host) *readFacts {
	texts := factTextsOf(h)
	if row := r.hosts[h.UUID]; row != nil && row.facts != nil && row.facts.texts == texts {
		return row.facts
	}
	if coming := r.coming[h.UUID]; coming != nil && coming.texts == texts {
		return coming
	}
	return &readFacts{texts: texts}
}

// expect notes the facts of a state that is on its way, until the function that it gives is
// called.
func (r *rows) expect(host string, f *readFacts) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming[host] = f
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.coming[host] == f { // else it is a later state's
			delete(r.coming, host)
		}
	}
}

// read gives the facts of the row's host.
func (row *hostRow) read() *schedule.Facts {
	if row.facts == nil {
		return schedule.ParseFacts(factTextsOf(row.host))
	}
	return row.facts.facts()
}
