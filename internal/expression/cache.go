package expression

import "sync"

// maxCached is how many texts of a kind a Cache holds; when it is full, it starts over.
const maxCached = 1024

// Cache caches compiled texts. The zero value is ready.
// Safe for concurrent use.
type Cache struct {
	programs texts[*Program]
	weights  texts[*Weight]
}

// Compile is Compile, but compiles each text once.
func (c *Cache) Compile(text string) (*Program, error) { return c.programs.compile(text, Compile) }

// CompileWeight is CompileWeight, but compiles each text once.
func (c *Cache) CompileWeight(text string) (*Weight, error) {
	return c.weights.compile(text, CompileWeight)
}

// texts caches the compiled form of texts, as pointers.
type texts[P any] struct {
	mu   sync.Mutex
	made map[string]P
}

func (c *texts[P]) compile(text string, compile func(string) (P, error)) (P, error) {
	c.mu.Lock()
	found, ok := c.made[text]
	c.mu.Unlock()
	if ok {
		return found, nil
	}
	made, err := compile(text)
	if err != nil {
		return made, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil || len(c.made) >= maxCached {
		c.made = make(map[string]P, maxCached)
	}
	c.made[text] = made
	return made, nil
}
