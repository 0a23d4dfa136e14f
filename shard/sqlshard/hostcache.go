package sqlshard

import (
	"sync"

	"cellgate/shard"
)

// hostCache has hosts as they were read or written last. A row of it counts when its
// generation is the one in the database: a generation is never given twice.
type hostCache struct {
	mu   sync.Mutex
	rows map[string]*shard.Host
}

func (c *hostCache) get(uuid string, generation int64) *shard.Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.rows[uuid]; h != nil && h.Generation == generation {
		return h
	}
	return nil
}

func (c *hostCache) put(h *shard.Host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = map[string]*shard.Host{}
	}
	if old := c.rows[h.UUID]; old == nil || old.Generation < h.Generation {
		c.rows[h.UUID] = h
	}
}
