package proposals

import (
	"sync"
	"sync/atomic"

	"cellgate/schedule"
)

// maxMemory bounds, in bytes, what a cell keeps about its hosts for the shapes that
// are asked for again and again.
const maxMemory = 64 << 20

// memory is what a shape's queries leave for the next one.
type memory struct {
	// asked counts the queries: the first leaves nothing.
	asked atomic.Int64
	// free is the memory while no query has it; nil while one has, and while there
	// is none.
	free atomic.Pointer[kept]
	// epoch is that in which it was begun; 0 for none. The memories'.
	epoch uint64
}

// kept is a memory and the epoch that it is of.
type kept struct {
	standing *schedule.FilterCache
	epoch    uint64
}

// memories bounds the memory of all shapes together: when one more would be too
// much all are given up, a new epoch begins, and those that are asked for begin
// again. Safe for concurrent use.
type memories struct {
	most  int
	epoch atomic.Uint64

	mu sync.Mutex
	// holders have a memory of this epoch, of so many bytes.
	holders []*Shape
	bytes   int
}

// propose answers a query of a shape as the table does.
func (m *memories) propose(of *Shape, t *schedule.Table, q *schedule.Query) (*schedule.Proposal, error) {
	if of.memory.asked.Add(1) == 1 || len(q.TentativePlacements) > 0 || q.NearMisses > 0 || !schedule.Keeps(of.request, of.rules) {
		return t.Propose(q)
	}
	k := of.memory.free.Swap(nil)
	if k == nil || k.epoch != m.epoch.Load() {
		if k = m.begin(of, t.Len()); k == nil {
			return t.Propose(q)
		}
	}
	p, err := k.standing.Propose(t, q)
	if k.epoch == m.epoch.Load() {
		of.memory.free.Store(k)
	}
	return p, err
}

// begin gives a shape a memory; nil when a query has it, or there is no room even
// when all others are given up.
func (m *memories) begin(of *Shape, hosts int) *kept {
	standing := schedule.NewFilterCache(of.request, of.rules)
	bytes := standing.Bytes(hosts)
	if bytes > m.most {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch.Load() == 0 || m.bytes+bytes > m.most {
		m.epoch.Add(1)
		for _, h := range m.holders {
			h.memory.free.Store(nil)
		}
		m.holders, m.bytes = nil, 0
	}
	epoch := m.epoch.Load()
	if of.memory.epoch == epoch {
		return nil
	}
	of.memory.epoch = epoch
	m.holders, m.bytes = append(m.holders, of), m.bytes+bytes
	return &kept{standing, epoch}
}
