package cellclient

import (
	"cmp"
	"hash/fnv"
	"slices"

	"cellgate/schedule"
)

// A host's owner is the replica to which its claims go: the rendezvous choice among its
// cell's replicas. So every gateway sends them to the same replica, whose lane commits them
// together. Ownership is for speed only: any replica may claim any host, and the transaction
// checks the claim. Proposals have no owner. A request chooses a replica by its seed, so that
// replicas share the load and a repeat asks the same one.

// InOrder gives the cell's replicas in the order to ask them for a key: first those that are
// well, then those that load their tables, last those in doubt. Within each of these the
// rendezvous choice is first; without a key, the order is the configuration's.
func (c *Cell) InOrder(key string) []*Replica {
	if len(c.Replicas) == 1 {
		return c.Replicas
	}
	type ranked struct {
		Replica *Replica
		worry   int
		score   uint64
	}
	all := make([]ranked, len(c.Replicas))
	for i, r := range c.Replicas {
		all[i].Replica = r
		if r.loading.Load() {
			all[i].worry++
		}
		if r.breaker.inDoubt() {
			all[i].worry += 2
		}
		if key != "" {
			all[i].score = score(key, r.Addr)
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.worry, b.worry), cmp.Compare(b.score, a.score))
	})
	order := make([]*Replica, len(all))
	for i, r := range all {
		order[i] = r.Replica
	}
	return order
}

// OrderFrom is InOrder with first before all others, unless first is nil or in doubt.
func (c *Cell) OrderFrom(first *Replica, key string) []*Replica {
	order := c.InOrder(key)
	if first == nil || order[0] == first || first.breaker.inDoubt() {
		return order
	}
	out := append(make([]*Replica, 0, len(order)), first)
	return append(out, slices.DeleteFunc(slices.Clone(order), func(o *Replica) bool { return o == first })...)
}

// score is a name's rendezvous weight for a key: the highest is chosen.
func score(key, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write([]byte(name))
	// FNV's high bits hardly depend on the last bytes; Tie mixes them.
	return schedule.Tie(0, h.Sum64())
}

// Rendezvous chooses a cell for a key, by name: every process makes the same choice among the
// same cells. It is nil if there are none.
func Rendezvous(key string, cells []*Cell) *Cell {
	var best *Cell
	var most uint64
	for _, c := range cells {
		if s := score(key, c.Name()); best == nil || s > most {
			best, most = c, s
		}
	}
	return best
}
