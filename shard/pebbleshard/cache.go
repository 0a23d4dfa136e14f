package pebbleshard

import (
	"fmt"

	"cellgate/shard"
)

// cache has every row that is not a tombstone, decoded, and the indexes of live claims.
type cache struct {
	hosts  map[string]*shard.Host
	usages map[string]*shard.Usage
	claims map[string]*shard.Claim
	pins   map[string]*shard.Pin
	gate   *shard.Gate
	// namespaces by host uuid, then name, including those with an empty name.
	namespaces map[string]map[string]*shard.Namespace
	// admins by host uuid.
	admins map[string]*shard.AdminState
	names  map[shard.NameRef]bool
	// Ids of live claims.
	byConsumer consumers
	byHost     map[string]ids
	byGroup    map[string]ids
	// transferred are those that were transferred, by their first consumer.
	transferred map[string]ids
	leases      leases
}

type ids map[string]struct{}

func newCache() *cache {
	return &cache{
		hosts: map[string]*shard.Host{}, usages: map[string]*shard.Usage{},
		claims: map[string]*shard.Claim{}, pins: map[string]*shard.Pin{}, namespaces: map[string]map[string]*shard.Namespace{},
		admins: map[string]*shard.AdminState{}, names: map[shard.NameRef]bool{},
		byConsumer: consumers{one: map[string]string{}, more: map[string]ids{}},
		byHost:     map[string]ids{}, byGroup: map[string]ids{}, transferred: map[string]ids{},
	}
}

// put stores a row.
func (c *cache) put(ch shard.Change) {
	switch {
	case ch.Host != nil:
		c.hosts[ch.Host.UUID] = ch.Host
	case ch.Usage != nil:
		c.usages[ch.Usage.HostUUID] = ch.Usage
	case ch.Claim != nil:
		c.putClaim(ch.Claim)
	case ch.Gate != nil:
		c.gate = ch.Gate
	case ch.Namespace != nil:
		c.putNamespace(ch.Namespace)
	case ch.AdminState != nil:
		c.admins[ch.AdminState.HostUUID] = ch.AdminState
	case ch.Name != nil && ch.Name.Gone:
		delete(c.names, ch.Name.NameRef)
	case ch.Name != nil:
		c.names[ch.Name.NameRef] = true
	case len(ch.Pin.Holders) == 0:
		delete(c.pins, ch.Pin.GroupUUID)
	default:
		c.pins[ch.Pin.GroupUUID] = ch.Pin
	}
}

func (c *cache) putNamespace(n *shard.Namespace) {
	of := c.namespaces[n.HostUUID]
	switch {
	case n.Deleted():
		delete(of, n.Name)
	case of == nil:
		c.namespaces[n.HostUUID] = map[string]*shard.Namespace{n.Name: n}
	default:
		of[n.Name] = n
	}
}

func (c *cache) putClaim(n *shard.Claim) {
	old := c.claims[n.ClaimID]
	if old != nil {
		c.byConsumer.drop(old.ConsumerUUID, old.ClaimID)
		if old.TransferredFrom != "" {
			drop(c.transferred, old.TransferredFrom, old.ClaimID)
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
	c.byConsumer.keep(n.ConsumerUUID, n.ClaimID)
	if n.TransferredFrom != "" {
		keep(c.transferred, n.TransferredFrom, n.ClaimID)
	}
	keep(c.byHost, n.HostUUID, n.ClaimID)
	if n.Group != nil {
		keep(c.byGroup, n.Group.UUID, n.ClaimID)
	}
	if n.State == shard.Pending && (old == nil || !old.ExpiresAt.Equal(n.ExpiresAt)) {
		c.leases.push(lease{end: n.ExpiresAt, claimID: n.ClaimID})
	}
}

// load stores a live claim's row that was read from disk.
func (c *cache) load(n *shard.Claim) error {
	if !n.State.Live() {
		return fmt.Errorf("claim %s is %s among the live ones", n.ClaimID, n.State)
	}
	for _, id := range c.byConsumer.claimsOf(n.ConsumerUUID) {
		if !shard.MayCoexist(c.claims[id], n) {
			return fmt.Errorf("consumer %s has two live claims and neither moves the other: %s and %s", n.ConsumerUUID, id, n.ClaimID)
		}
	}
	c.putClaim(n)
	return nil
}

// consumers are the live claims by consumer. Nearly always there is one; sometimes a second one moves it (I2). There
// are more if the Placement API wrote them, or while put stores the rows of one transaction, in no particular order.
type consumers struct {
	one  map[string]string
	more map[string]ids
}

func (c consumers) keep(consumer, id string) {
	if one, ok := c.one[consumer]; ok && one != id {
		keep(c.more, consumer, id)
		return
	}
	c.one[consumer] = id
}

func (c consumers) drop(consumer, id string) {
	if c.one[consumer] != id {
		drop(c.more, consumer, id)
		return
	}
	delete(c.one, consumer)
	for next := range c.more[consumer] {
		c.one[consumer] = next
		drop(c.more, consumer, next)
		return
	}
}

// claimsOf lists a consumer's claims, in no order.
func (c consumers) claimsOf(consumer string) []string {
	one, ok := c.one[consumer]
	if !ok {
		return nil
	}
	list := []string{one}
	for id := range c.more[consumer] {
		list = append(list, id)
	}
	return list
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
