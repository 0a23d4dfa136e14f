package cellclient

import (
	"cmp"
	"hash/fnv"
	"slices"

	"cellgate/schedule"
)

// A host's owner is the replica that its claims go to: the rendezvous choice of its
// cell's replicas, so that every gateway sends them to the same one, whose lane then
// commits them together. It is for speed alone: any replica may claim any host, and
// the transaction checks it. Proposals have no owner; a request asks one replica, by
// its seed, so that replicas share them and a repeat asks the same one.

// InOrder gives the cell's replicas in the order to ask them for a key: those in
// doubt last, before them those that load their tables, the rendezvous choice first;
// without a key as configured.
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

// OrderFrom gives the cell's replicas in the order to ask them for a key, but first before all others, unless it is nil
// or in doubt.
func (c *Cell) OrderFrom(first *Replica, key string) []*Replica {
	order := c.InOrder(key)
	if first == nil || order[0] == first || first.breaker.inDoubt() {
		return order
	}
	out := append(make([]*Replica, 0, len(order)), first)
	return append(out, slices.DeleteFunc(slices.Clone(order), func(o *Replica) bool { return o == first })...)
}

// score is a name's weight for a key in a rendezvous: the highest is chosen.
func score(key, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write([]byte(name))
	// FNV's high bits hardly depend on the last bytes; Tie mixes them.
	return schedule.Tie(0, h.Sum64())
}

// Rendezvous chooses a cell for a key, by name: the same one wherever it is chosen
// from the same cells. Nil when there are none.
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
