package expression

import "sync"

// maxCached is how many texts a generation of a Cache has; two are kept.
const maxCached = 512

// Cache keeps what was made of the texts asked for last. The zero value is ready.
// Safe for concurrent use.
type Cache struct {
	programs texts[*Program]
	weights  texts[*Weight]
}

// Compile is Compile, once a text.
func (c *Cache) Compile(text string) (*Program, error) { return c.programs.compile(text, Compile) }

// CompileWeight is CompileWeight, once a text.
func (c *Cache) CompileWeight(text string) (*Weight, error) {
	return c.weights.compile(text, CompileWeight)
}

// texts keeps what was made of texts, pointers.
type texts[P comparable] struct {
	mu         sync.Mutex
	young, old map[string]P
}

func (c *texts[P]) compile(text string, compile func(string) (P, error)) (P, error) {
	var none P
	c.mu.Lock()
	found := c.young[text]
	if found == none {
		if found = c.old[text]; found != none {
			c.put(text, found)
		}
	}
	c.mu.Unlock()
	if found != none {
		return found, nil
	}
	made, err := compile(text)
	if err != nil {
		return none, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(text, made)
	return made, nil
}

// put needs mu.
func (c *texts[P]) put(text string, p P) {
	if c.young == nil || len(c.young) >= maxCached {
		c.old, c.young = c.young, make(map[string]P, maxCached)
	}
	c.young[text] = p
}
