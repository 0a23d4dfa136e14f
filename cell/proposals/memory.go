package proposals

import (
	"sync"
	"sync/atomic"

	"cellgate/schedule"
)

// maxMemory bounds, in bytes, the filter results that a cell caches for shapes that are asked for
// repeatedly.
const maxMemory = 64 << 20

// memory holds the filter results that queries of a shape leave for the next one.
type memory struct {
	// asked counts the queries; the first one leaves no results.
	asked atomic.Int64
	// free is the cache while no query uses it; nil while one does, and while there is no cache.
	free atomic.Pointer[kept]
	// epoch is when the cache was begun; 0 for none. Guarded by memories.mu.
	epoch uint64
}

// kept is a cache and its epoch.
type kept struct {
	standing *schedule.FilterCache
	epoch    uint64
}

// memories bounds the caches of all shapes together. If another cache would exceed the bound, all are
// dropped, a new epoch begins, and shapes that are asked for start over. Safe for concurrent use.
type memories struct {
	most  int
	epoch atomic.Uint64

	mu sync.Mutex
	// holders are the shapes that have a cache in this epoch; bytes is the sum of the caches' sizes.
	holders []*Shape
	bytes   int
}

// propose answers a query of a shape with the same result as the table.
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

// begin gives a shape a new cache. It returns nil if a query uses the shape's cache, or if the cache
// would exceed the bound on its own.
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
