package agent

import (
	"sync"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// claims are the claims on a host that its cell offers. It is safe for concurrent use.
type claims struct {
	mu     sync.Mutex
	ledger *ledger
}

func newClaims(state *agentv1.FullState) *claims {
	return &claims{ledger: newLedger(state)}
}

func (c *claims) observe(state *agentv1.FullState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.observe(state)
}

func (c *claims) offered(by any, o *agentv1.ClaimOffer) *agentv1.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.offered(time.Now(), by, o)
}

func (c *claims) ended(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.ended(id)
}

func (c *claims) set(by any, s *agentv1.ClaimSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.set(time.Now(), by, s)
}
