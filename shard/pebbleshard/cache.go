package pebbleshard

import (
	"fmt"
	"maps"
	"slices"

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
	admins              map[string]*shard.AdminState
	names               map[shard.NameRef]bool
	byConsumer, byGroup index
	byHost              hostIndex
	// transferred are those that were transferred, by their first consumer.
	transferred index
	leases      leases
}

func newCache() *cache {
	return &cache{
		hosts: map[string]*shard.Host{}, usages: map[string]*shard.Usage{},
		claims: map[string]*shard.Claim{}, pins: map[string]*shard.Pin{}, namespaces: map[string]map[string]*shard.Namespace{},
		admins: map[string]*shard.AdminState{}, names: map[shard.NameRef]bool{},
		byConsumer: index{}, byHost: hostIndex{}, byGroup: index{}, transferred: index{},
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
			c.transferred.drop(old.TransferredFrom, old.ClaimID)
		}
		c.byHost.drop(old.HostUUID, old.ClaimID)
		if old.Group != nil {
			c.byGroup.drop(old.Group.UUID, old.ClaimID)
		}
		delete(c.claims, n.ClaimID)
	}
	if !n.State.Live() {
		return
	}
	c.claims[n.ClaimID] = n
	c.byConsumer.add(n.ConsumerUUID, n.ClaimID)
	if n.TransferredFrom != "" {
		c.transferred.add(n.TransferredFrom, n.ClaimID)
	}
	c.byHost.add(n.HostUUID, n.ClaimID)
	if n.Group != nil {
		c.byGroup.add(n.Group.UUID, n.ClaimID)
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
	for _, id := range c.byConsumer[n.ConsumerUUID] {
		if !shard.MayCoexist(c.claims[id], n) {
			return fmt.Errorf("consumer %s has two live claims and neither moves the other: %s and %s", n.ConsumerUUID, id, n.ClaimID)
		}
	}
	c.putClaim(n)
	return nil
}

// index has the ids of live claims by something that they have, in no order.
type index map[string][]string

func (x index) add(key, id string) { x[key] = append(x[key], id) }

func (x index) drop(key, id string) {
	x[key] = slices.DeleteFunc(x[key], func(s string) bool { return s == id })
	if len(x[key]) == 0 {
		delete(x, key)
	}
}

// hostIndex has the ids of live claims by their root provider: a shared storage pool has one for every instance.
type hostIndex map[string]map[string]bool

func (x hostIndex) add(key, id string) {
	if x[key] == nil {
		x[key] = map[string]bool{}
	}
	x[key][id] = true
}

func (x hostIndex) drop(key, id string) {
	delete(x[key], id)
	if len(x[key]) == 0 {
		delete(x, key)
	}
}

func (x hostIndex) claims(key string) []string { return slices.Collect(maps.Keys(x[key])) }
