package sqlshard

import "sync"

// rowCache has the rows of hosts as last read or written, by host uuid. A cached row is valid if its generation
// equals the one in the database, because a generation is only reused in a database that was restored to an earlier
// state; its replicas load it again, and Load forgets all rows. This saves reading and decoding rows.
type rowCache[T any] struct {
	mu   sync.Mutex
	rows map[string]cachedRow[T]
}

type cachedRow[T any] struct {
	generation int64
	row        *T
}

// get gives the row of a generation; nil if it is not cached.
func (c *rowCache[T]) get(host string, generation int64) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rows[host]; r.generation == generation {
		return r.row
	}
	return nil
}

func (c *rowCache[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = nil
}

func (c *rowCache[T]) put(host string, generation int64, row *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = map[string]cachedRow[T]{}
	}
	if old := c.rows[host]; old.row == nil || old.generation < generation {
		c.rows[host] = cachedRow[T]{generation, row}
	}
}
