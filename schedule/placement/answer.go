package placement

import (
	"encoding/binary"
	"slices"
)

// answer collects the requests found.
type answer struct {
	query    *Query
	requests []Request
	// full: the limit is reached.
	full bool
	// seen are the requests that take from sharing providers alone. Every tree that these share with finds them.
	seen map[string]bool
	// used and usedTrees are the providers and trees to be summarized.
	used      []*Provider
	isUsed    map[*Provider]bool
	usedTrees map[*Tree]bool
	// Parts of requests, allocated for many requests at once.
	allocations []Allocation
	mappings    []Mapping
	providers   []*Provider
}

func (a *answer) init(q *Query, trees []*Tree) {
	a.query = q
	a.seen, a.isUsed, a.usedTrees = map[string]bool{}, map[*Provider]bool{}, map[*Tree]bool{}
	if q.Limit > 0 {
		a.requests = make([]Request, 0, min(q.Limit, 2*len(trees), 4096))
	}
}

func (s *search) result() *Result { return &Result{s.requests, s.used} }

// emit adds the request of a pick of one provider for each slot, unless another tree already gave it.
func (s *search) emit(pick []option) error {
	if !slices.ContainsFunc(pick, func(o option) bool { return !s.isSharer(o) }) {
		var key []byte
		for _, o := range pick {
			key = binary.AppendUvarint(key, uint64(s.sharerNumber(o)))
		}
		if s.seen[string(key)] {
			return nil
		}
		s.seen[string(key)] = true
	}
	if len(s.requests) == s.q.maxRequests() {
		return &BoundError{Requests: s.q.maxRequests()}
	}
	s.requests = append(s.requests, Request{s.takes(pick), s.serves(pick)})
	for i, o := range pick {
		if len(s.slots[i].amounts) > 0 {
			s.use(o)
		}
	}
	s.full = s.q.Limit > 0 && len(s.requests) >= s.q.Limit
	return nil
}

func (s *search) isSharer(o option) bool {
	return o.sharing >= 0 || len(s.tree.sharing) > 0 && slices.Contains(s.tree.sharing, o.own)
}

// sharerNumber is the number of an option that is a sharer, of the searched tree or of another.
func (s *search) sharerNumber(o option) int32 {
	if o.sharing >= 0 {
		return o.sharing
	}
	return int32(slices.IndexFunc(s.sharers, func(sh sharer) bool { return sh.tree == s.tree && sh.provider == o.own }))
}

func (s *search) use(o option) {
	if !s.q.Nested {
		if p := s.provider(o); !s.isUsed[p] {
			s.isUsed[p] = true
			s.used = append(s.used, p)
		}
		return
	}
	t := s.treeOf(o)
	if s.usedTrees[t] {
		return
	}
	s.usedTrees[t] = true
	for i := range t.providers {
		s.used = append(s.used, &t.providers[i])
	}
}

// takes lists each provider and class once, those of a provider together.
func (s *search) takes(pick []option) []Allocation {
	start := reserve(&s.allocations, s.amounts())
	for i, o := range pick {
		if slices.Contains(pick[:i], o) {
			continue
		}
		p, first := s.provider(o), len(s.allocations)
		for j := i; j < len(pick); j++ {
			if pick[j] != o {
				continue
			}
			for k := range s.slots[j].amounts {
				a := &s.slots[j].amounts[k]
				own := s.allocations[first:]
				if at := slices.IndexFunc(own, func(x Allocation) bool { return x.Class == a.class }); at >= 0 {
					own[at].Amount += a.n
				} else {
					s.allocations = append(s.allocations, Allocation{p, a.class, a.n})
				}
			}
		}
	}
	return slices.Clip(s.allocations[start:])
}

func (s *search) amounts() (n int) {
	for i := range s.slots {
		n += len(s.slots[i].amounts)
	}
	return n
}

func (s *search) serves(pick []option) []Mapping {
	start := reserve(&s.mappings, len(s.q.Groups))
	reserve(&s.providers, len(pick))
	for i := 0; i < len(pick); {
		g, first := s.slots[i].group, len(s.providers)
		for ; i < len(pick) && s.slots[i].group == g; i++ {
			if p := s.provider(pick[i]); !slices.Contains(s.providers[first:], p) {
				s.providers = append(s.providers, p)
			}
		}
		s.mappings = append(s.mappings, Mapping{g.Suffix, slices.Clip(s.providers[first:])})
	}
	return slices.Clip(s.mappings[start:])
}

// reserve makes room for n more elements without moving existing ones, and returns where the new ones begin.
func reserve[T any](all *[]T, n int) int {
	if cap(*all)-len(*all) < n {
		*all = make([]T, 0, max(n, 16, min(1024, 2*cap(*all))))
	}
	return len(*all)
}
