package schedule

import (
	"iter"
	"math/bits"
	"slices"
)

// pmap is a persistent map: a hash trie. set and del give a new map that shares all but one path with the old one,
// which does not change. The zero pmap is empty.
//
// An owner above 0 identifies the edit that writes. Nodes made by the same edit are written in place, since no other
// map can share them yet. Owners increase along a lineage of maps, so an older map never holds a node of a newer
// owner.
type pmap[K pkey[K], V any] struct {
	root *pnode[K, V]
	n    int
}

// pkey is a comparable key with a well mixed hash.
type pkey[K any] interface {
	comparable
	hash() uint64
}

// pnode holds the entries and children of 32 slots, each kind packed in the order of its bitmap. Below the last level
// of hash bits, entries is a plain list and the bitmaps are unused.
type pnode[K pkey[K], V any] struct {
	owner    uint64
	leaves   uint32
	kids     uint32
	entries  []pentry[K, V]
	children []*pnode[K, V]
}

type pentry[K pkey[K], V any] struct {
	key K
	val V
}

const (
	pmapBits  = 5
	pmapDepth = 60 // the shift at which fewer than pmapBits hash bits are left
)

func (m pmap[K, V]) get(k K) (v V, ok bool) {
	h := k.hash()
	for n, shift := m.root, 0; n != nil; shift += pmapBits {
		if shift >= pmapDepth {
			if at := n.find(k); at >= 0 {
				return n.entries[at].val, true
			}
			return v, false
		}
		bit := uint32(1) << (h >> shift & 31)
		if n.leaves&bit != 0 {
			if e := &n.entries[bits.OnesCount32(n.leaves&(bit-1))]; e.key == k {
				return e.val, true
			}
			return v, false
		}
		if n.kids&bit == 0 {
			return v, false
		}
		n = n.children[bits.OnesCount32(n.kids&(bit-1))]
	}
	return v, false
}

func (m pmap[K, V]) set(k K, v V, owner uint64) pmap[K, V] {
	if m.root == nil {
		m.root = &pnode[K, V]{owner: owner}
	}
	root, added := m.root.set(k, v, k.hash(), 0, owner)
	if added {
		m.n++
	}
	m.root = root
	return m
}

func (m pmap[K, V]) del(k K, owner uint64) pmap[K, V] {
	if _, ok := m.get(k); !ok {
		return m
	}
	m.n--
	if m.n == 0 {
		return pmap[K, V]{}
	}
	m.root = m.root.del(k, k.hash(), 0, owner)
	return m
}

// all yields the entries in the order of their hashes.
func (m pmap[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.each(yield)
		}
	}
}

func (n *pnode[K, V]) each(yield func(K, V) bool) bool {
	for i := range n.entries {
		if !yield(n.entries[i].key, n.entries[i].val) {
			return false
		}
	}
	for _, c := range n.children {
		if !c.each(yield) {
			return false
		}
	}
	return true
}

func (n *pnode[K, V]) find(k K) int {
	return slices.IndexFunc(n.entries, func(e pentry[K, V]) bool { return e.key == k })
}

// own gives a node that this owner may write.
func (n *pnode[K, V]) own(owner uint64) *pnode[K, V] {
	if owner != 0 && n.owner == owner {
		return n
	}
	return &pnode[K, V]{
		owner: owner, leaves: n.leaves, kids: n.kids,
		entries: slices.Clone(n.entries), children: slices.Clone(n.children),
	}
}

func (n *pnode[K, V]) set(k K, v V, h uint64, shift int, owner uint64) (_ *pnode[K, V], added bool) {
	n = n.own(owner)
	if shift >= pmapDepth {
		if at := n.find(k); at >= 0 {
			n.entries[at].val = v
			return n, false
		}
		n.entries = append(n.entries, pentry[K, V]{k, v})
		return n, true
	}
	bit := uint32(1) << (h >> shift & 31)
	leaf, kid := bits.OnesCount32(n.leaves&(bit-1)), bits.OnesCount32(n.kids&(bit-1))
	switch {
	case n.kids&bit != 0:
		n.children[kid], added = n.children[kid].set(k, v, h, shift+pmapBits, owner)
		return n, added
	case n.leaves&bit == 0:
		n.leaves |= bit
		n.entries = slices.Insert(n.entries, leaf, pentry[K, V]{k, v})
		return n, true
	case n.entries[leaf].key == k:
		n.entries[leaf].val = v
		return n, false
	}
	// Two keys in one slot: both move down one level.
	old := n.entries[leaf]
	sub := &pnode[K, V]{owner: owner}
	sub, _ = sub.set(old.key, old.val, old.key.hash(), shift+pmapBits, owner)
	sub, _ = sub.set(k, v, h, shift+pmapBits, owner)
	n.leaves &^= bit
	n.kids |= bit
	n.entries = slices.Delete(n.entries, leaf, leaf+1)
	n.children = slices.Insert(n.children, kid, sub)
	return n, true
}

// del removes an existing key. A child left with one entry and no children moves up, so that the shape of the trie
// depends on its keys alone.
func (n *pnode[K, V]) del(k K, h uint64, shift int, owner uint64) *pnode[K, V] {
	n = n.own(owner)
	if shift >= pmapDepth {
		at := n.find(k)
		n.entries = slices.Delete(n.entries, at, at+1)
		return n
	}
	bit := uint32(1) << (h >> shift & 31)
	leaf, kid := bits.OnesCount32(n.leaves&(bit-1)), bits.OnesCount32(n.kids&(bit-1))
	if n.leaves&bit != 0 {
		n.leaves &^= bit
		n.entries = slices.Delete(n.entries, leaf, leaf+1)
		return n
	}
	sub := n.children[kid].del(k, h, shift+pmapBits, owner)
	n.children[kid] = sub
	if len(sub.entries) == 1 && len(sub.children) == 0 {
		n.kids &^= bit
		n.children = slices.Delete(n.children, kid, kid+1)
		n.leaves |= bit
		n.entries = slices.Insert(n.entries, leaf, sub.entries[0])
	}
	return n
}
