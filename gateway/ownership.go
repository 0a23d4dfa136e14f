package gateway

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"

	"cellgate/schedule"
)

// A host's owner is the replica that its claims go to: the rendezvous choice of its
// cell's replicas, so that every gateway sends them to the same one, whose lane then
// commits them together. It is for speed alone: any replica may claim any host, and
// the transaction checks it. Proposals have no owner; a request asks one replica, by
// its seed, so that replicas share them and a repeat asks the same one.

// inOrder gives the cell's replicas in the order to ask them for a key: those in
// doubt last, before them those that load their tables, the rendezvous choice first;
// without a key as configured.
func (c *cell) inOrder(key string) []*replica {
	if len(c.replicas) == 1 {
		return c.replicas
	}
	type ranked struct {
		replica *replica
		worry   int
		score   uint64
	}
	all := make([]ranked, len(c.replicas))
	for i, r := range c.replicas {
		all[i].replica = r
		if r.loading.Load() {
			all[i].worry++
		}
		if r.breaker.inDoubt() {
			all[i].worry += 2
		}
		if key != "" {
			all[i].score = score(key, r.addr)
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.worry, b.worry), cmp.Compare(b.score, a.score))
	})
	order := make([]*replica, len(all))
	for i, r := range all {
		order[i] = r.replica
	}
	return order
}

// askFirst gives the order in which the request asks a cell's replicas.
func (s *selection) askFirst(cell int) []*replica {
	c := s.g.cells[cell]
	if len(c.replicas) == 1 {
		return c.replicas
	}
	via := s.nextReplica[cell]
	if via != nil && via.breaker.inDoubt() {
		via = nil
	}
	return first(via, c.inOrder(strconv.FormatUint(s.seed, 36)))
}

// first puts a replica at the head of an order; nil leaves it.
func first(r *replica, order []*replica) []*replica {
	if r == nil || order[0] == r {
		return order
	}
	out := make([]*replica, 0, len(order))
	out = append(out, r)
	return append(out, slices.DeleteFunc(slices.Clone(order), func(o *replica) bool { return o == r })...)
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
