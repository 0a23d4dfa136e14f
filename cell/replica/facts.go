package replica

import (
	"sync"

	"cellgate/schedule"
	"cellgate/shard"
)

// Facts are the facts that a host reports. They are parsed on first use. All rows of the host with
// equal texts share them, and so does the state that brought the newest row.
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

// NewFacts returns a host's facts, to be parsed on first use.
func NewFacts(h *shard.Host) *Facts { return &Facts{texts: factTextsOf(h)} }

// factTextsOf returns the texts from which a host's facts are parsed.
func factTextsOf(h *shard.Host) schedule.FactTexts {
	t := schedule.FactTexts{HypervisorType: h.HypervisorType, HypervisorHostname: h.NodeName, HostIP: h.HostIP}
	if f := h.Facts; f != nil {
		t.CPUInfo, t.SupportedInstances, t.Stats, t.Metrics = f.CPUInfo, f.SupportedInstances, f.Stats, f.Metrics
	}
	t.NUMATopology, t.PCIPools = h.HardwareTexts()
	return t
}

// ReadFacts returns a host's facts. If its row, or a state on its way, has the same texts, their parsed
// facts are shared.
func (r *Rows) ReadFacts(h *shard.Host) *Facts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.readLocked(h)
}

// readLocked is ReadFacts for a caller that holds mu.
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

// ExpectFacts registers the facts of a state on its way, until the returned function is called.
func (r *Rows) ExpectFacts(host string, f *Facts) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.comingFacts[host] = f
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.comingFacts[host] == f { // otherwise the facts are a later state's
			delete(r.comingFacts, host)
		}
	}
}

// parsedFacts returns the parsed facts of the row's host.
func (row *HostRow) parsedFacts() *schedule.Facts {
	if row.Facts == nil {
		return schedule.ParseFacts(factTextsOf(row.Host))
	}
	return row.Facts.Parsed()
}
