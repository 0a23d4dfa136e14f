package expression

import "sync"

// maxCached is how many texts a generation of a Cache has; two are kept.
const maxCached = 512

// Cache keeps what was made of the texts asked for last. The zero value is ready.
// Safe for concurrent use.
type Cache struct {
	mu         sync.Mutex
	young, old map[string]*Program
}

// Compile is Compile, once a text.
func (c *Cache) Compile(text string) (*Program, error) {
	c.mu.Lock()
	found := c.young[text]
	if found == nil {
		if found = c.old[text]; found != nil {
			c.put(text, found)
		}
	}
	c.mu.Unlock()
	if found != nil {
		return found, nil
	}
	made, err := Compile(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(text, made)
	return made, nil
}

// put needs mu.
func (c *Cache) put(text string, p *Program) {
	if c.young == nil || len(c.young) >= maxCached {
		c.old, c.young = c.young, make(map[string]*Program, maxCached)
	}
	c.young[text] = p
}
