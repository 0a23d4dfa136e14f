package pebbleshard

import (
	"fmt"

	"cellgate/shard"
)

// cache is every row that is not a tombstone, decoded, and the indexes of live
// claims.
type cache struct {
	hosts  map[string]*shard.Host
	usages map[string]*shard.Usage
	claims map[string]*shard.Claim
	pins   map[string]*shard.Pin
	// Ids of live claims: a consumer has one (I2), a host and a group many.
	byConsumer map[string]string
	byHost     map[string]ids
	byGroup    map[string]ids
	leases     leases
}

type ids map[string]struct{}

func newCache() *cache {
	return &cache{
		hosts: map[string]*shard.Host{}, usages: map[string]*shard.Usage{},
		claims: map[string]*shard.Claim{}, pins: map[string]*shard.Pin{},
		byConsumer: map[string]string{}, byHost: map[string]ids{}, byGroup: map[string]ids{},
	}
}

// put takes a row over.
func (c *cache) put(ch shard.Change) {
	switch {
	case ch.Host != nil:
		c.hosts[ch.Host.UUID] = ch.Host
	case ch.Usage != nil:
		c.usages[ch.Usage.HostUUID] = ch.Usage
	case ch.Claim != nil:
		c.putClaim(ch.Claim)
	case len(ch.Pin.Holders) == 0:
		delete(c.pins, ch.Pin.GroupUUID)
	default:
		c.pins[ch.Pin.GroupUUID] = ch.Pin
	}
}

func (c *cache) putClaim(n *shard.Claim) {
	if old := c.claims[n.ClaimID]; old != nil {
		// The consumer may have another live claim by now: rows of one
		// transaction come in no particular order.
		if c.byConsumer[old.ConsumerUUID] == old.ClaimID {
			delete(c.byConsumer, old.ConsumerUUID)
		}
		drop(c.byHost, old.HostUUID, old.ClaimID)
		if old.Group != nil {
			drop(c.byGroup, old.Group.UUID, old.ClaimID)
		}
		delete(c.claims, n.ClaimID)
	}
	if !n.State.Live() {
		return
	}
	c.claims[n.ClaimID] = n
	c.byConsumer[n.ConsumerUUID] = n.ClaimID
	keep(c.byHost, n.HostUUID, n.ClaimID)
	if n.Group != nil {
		keep(c.byGroup, n.Group.UUID, n.ClaimID)
	}
	if n.State == shard.Pending {
		c.leases.push(lease{end: n.ExpiresAt, claimID: n.ClaimID})
	}
}

// load takes over a live claim's row from disk.
func (c *cache) load(n *shard.Claim) error {
	if !n.State.Live() {
		return fmt.Errorf("claim %s is %s among the live ones", n.ClaimID, n.State)
	}
	if other, ok := c.byConsumer[n.ConsumerUUID]; ok {
		return fmt.Errorf("consumer %s has two live claims: %s and %s", n.ConsumerUUID, other, n.ClaimID)
	}
	c.putClaim(n)
	return nil
}

func keep(index map[string]ids, key, id string) {
	set := index[key]
	if set == nil {
		set = ids{}
		index[key] = set
	}
	set[id] = struct{}{}
}

func drop(index map[string]ids, key, id string) {
	delete(index[key], id)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}
