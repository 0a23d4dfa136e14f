package agent

import (
	"math/rand/v2"
	"time"
)

// backoff computes the waits between attempts to connect. Each wait is drawn from the upper half of a
// span that doubles from least to most, so that the agents of a cell that comes back do not all arrive
// at once.
type backoff struct {
	least, most time.Duration
	tries       int
}

// next returns the wait before the next attempt.
func (b *backoff) next() time.Duration {
	span := b.most
	if b.tries < 30 {
		span = min(b.least<<b.tries, b.most)
	}
	b.tries++
	return span/2 + rand.N(span/2+1)
}

// reset starts over after an attempt that worked.
func (b *backoff) reset() { b.tries = 0 }
