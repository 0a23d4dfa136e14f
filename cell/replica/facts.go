package replica

import (
	"sync"

	"cellgate/schedule"
	"cellgate/shard"
)

// Facts are what a host says of itself. They are parsed when they are asked for the
// first time; all rows of the host that say the same share them, and so does the state
// that the newest of them came in.
type Facts struct {
	texts  schedule.FactTexts
	parse  sync.Once
	parsed *schedule.Facts
}

// Parsed gives the facts; it parses them the first time.
func (f *Facts) Parsed() *schedule.Facts {
	f.parse.Do(func() { f.parsed = schedule.ParseFacts(f.texts) })
	return f.parsed
}

// NewFacts gives a host's facts, which are parsed when they are asked for.
func NewFacts(h *shard.Host) *Facts { return &Facts{texts: factTextsOf(h)} }

// factTextsOf are the texts that a host's facts are read from.
func factTextsOf(h *shard.Host) schedule.FactTexts {
	t := schedule.FactTexts{HypervisorType: h.HypervisorType, HypervisorHostname: h.NodeName, HostIP: h.HostIP}
	if f := h.Facts; f != nil {
		t.CPUInfo, t.SupportedInstances, t.Stats, t.Metrics = f.CPUInfo, f.SupportedInstances, f.Stats, f.Metrics
		t.NUMATopology, t.PCIPools = f.NUMATopology, f.PCIStats
	}
	return t
}

// ReadFacts gives a host's facts, as they were read already where its row, or a state that is on
// its way, says the same.
func (r *Rows) ReadFacts(h *shard.Host) *Facts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.readLocked(h)
}

// readLocked needs mu.
func (r *Rows) readLocked(h *shard.Host) *Facts {
	texts := factTextsOf(h)
	if row := r.hosts[h.UUID]; row != nil && row.Facts != nil && row.Facts.texts == texts {
		return row.Facts
	}
	if coming := r.comingFacts[h.UUID]; coming != nil && coming.texts == texts {
		return coming
	}
	return &Facts{texts: texts}
}

// ExpectFacts notes the facts of a state that is on its way, until the function that it gives is
// called.
func (r *Rows) ExpectFacts(host string, f *Facts) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.comingFacts[host] = f
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.comingFacts[host] == f { // else it is a later state's
			delete(r.comingFacts, host)
		}
	}
}

// parsedFacts gives the facts of the row's host.
func (row *HostRow) parsedFacts() *schedule.Facts {
	if row.Facts == nil {
		return schedule.ParseFacts(factTextsOf(row.Host))
	}
	return row.Facts.Parsed()
}
