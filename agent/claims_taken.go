package agent

// Taken returns, by instance, how much claims take of a provider's resource class in addition to the
// instances on the host, and whether the cell has sent its set of claims.
func (c *Claims) Taken(provider, class string) (byInstance map[string]int64, claimsKnown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.expire(c.now())
	byInstance = map[string]int64{}
	for _, h := range c.ledger.held {
		if !c.ledger.occupies(h) {
			continue
		}
		for _, u := range h.usages {
			if u.GetProviderUuid() == provider && u.GetResourceClass() == class {
				byInstance[h.instance] += int64(u.GetAmount())
			}
		}
	}
	return byInstance, c.ledger.claimsKnown
}
