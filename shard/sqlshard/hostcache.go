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

// usageCache has usages as they were read or written last, by host; the rule is that
// of hostCache. It spares reading their text.
type usageCache struct {
	mu   sync.Mutex
	rows map[string]*shard.Usage
}

func (c *usageCache) get(uuid string, generation int64) *shard.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.rows[uuid]; u != nil && u.Generation == generation {
		return u
	}
	return nil
}

func (c *usageCache) put(u *shard.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = map[string]*shard.Usage{}
	}
	if old := c.rows[u.HostUUID]; old == nil || old.Generation < u.Generation {
		c.rows[u.HostUUID] = u
	}
}
