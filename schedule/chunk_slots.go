package schedule

import (
	"cmp"
	"slices"
)

// slotWords is a set of slots: words by chunk, sorted.
type slotWords []slotWord

type slotWord struct {
	chunk number
	mask  uint64
}

// with gives the set with a slot, or without it. s stays as it is.
func (s slotWords) with(at number, in bool) slotWords {
	chunk, bit := at/chunkSize, uint64(1)<<(at%chunkSize)
	i, found := s.find(chunk)
	out := slices.Clone(s)
	if !found {
		out = slices.Insert(out, i, slotWord{chunk: chunk})
	}
	if out[i].mask &^= bit; in {
		out[i].mask |= bit
	}
	if out[i].mask == 0 {
		out = slices.Delete(out, i, i+1)
	}
	return out
}

// find gives the index of a chunk's word, or where it would be.
func (s slotWords) find(chunk number) (int, bool) {
	return slices.BinarySearchFunc(s, chunk, func(w slotWord, chunk number) int { return cmp.Compare(w.chunk, chunk) })
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
	if i, found := s.find(number(chunk)); found {
		return s[i].mask
	}
	return 0
}
