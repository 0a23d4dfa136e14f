package schedule

import (
	"cmp"
	"slices"
	"sort"
)

// slotSet is a persistent set of slots. Most sets are within one chunk, which is stored inline; rest has the other
// chunks.
type slotSet struct {
	chunk number
	mask  uint64
	rest  *pmap[number, uint64]
}

func (s slotSet) add(at number, owner uint64) slotSet {
	chunk, bit := at/chunkSize, uint64(1)<<(at%chunkSize)
	switch {
	case s.mask == 0 || s.chunk == chunk:
		s.chunk = chunk
		s.mask |= bit
	default:
		var rest pmap[number, uint64]
		if s.rest != nil {
			rest = *s.rest
		}
		old, _ := rest.get(chunk)
		rest = rest.set(chunk, old|bit, owner)
		s.rest = &rest
	}
	return s
}

// remove removes a slot; mask is 0 if none is left.
func (s slotSet) remove(at number, owner uint64) slotSet {
	chunk, bit := at/chunkSize, uint64(1)<<(at%chunkSize)
	if s.mask != 0 && s.chunk == chunk {
		s.mask &^= bit
		if s.mask == 0 && s.rest != nil {
			for chunk, mask := range s.rest.all() {
				s.chunk, s.mask = chunk, mask
				return s.without(chunk, owner)
			}
		}
		return s
	}
	if s.rest == nil {
		return s
	}
	old, _ := s.rest.get(chunk)
	if old &^= bit; old == 0 {
		return s.without(chunk, owner)
	}
	rest := s.rest.set(chunk, old, owner)
	s.rest = &rest
	return s
}

func (s slotSet) without(chunk number, owner uint64) slotSet {
	rest := s.rest.del(chunk, owner)
	s.rest = &rest
	if rest.n == 0 {
		s.rest = nil
	}
	return s
}

// parts appends the set's words to a list.
func (s slotSet) parts(to slotWords) slotWords {
	if s.mask != 0 {
		to = append(to, slotWord{s.chunk, s.mask})
	}
	if s.rest != nil {
		for chunk, mask := range s.rest.all() {
			to = append(to, slotWord{chunk, mask})
		}
	}
	return to
}

// slotWords is a set of slots for one query: words by chunk, sorted.
type slotWords []slotWord

type slotWord struct {
	chunk number
	mask  uint64
}

// sorted sorts the words and joins those of one chunk.
func (s slotWords) sorted() slotWords {
	slices.SortFunc(s, func(a, b slotWord) int { return cmp.Compare(a.chunk, b.chunk) })
	out := s[:0]
	for _, w := range s {
		if n := len(out); n > 0 && out[n-1].chunk == w.chunk {
			out[n-1].mask |= w.mask
			continue
		}
		out = append(out, w)
	}
	return out
}

// in gives the word of a chunk.
func (s slotWords) in(chunk int) uint64 {
	i := sort.Search(len(s), func(i int) bool { return int(s[i].chunk) >= chunk })
	if i < len(s) && int(s[i].chunk) == chunk {
		return s[i].mask
	}
	return 0
}
