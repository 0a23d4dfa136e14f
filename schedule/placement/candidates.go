package placement

import "cmp"

// Candidates finds the ways to allocate what q asks for from the providers of trees, which must be all trees of one
// cell. It returns a *QueryError for an invalid query, and a *BoundError if there are too many ways.
//
// With a limit it takes the first request of each tree, then more of each. Placement answers a limit with any subset
// of that size.
func Candidates(trees []*Tree, q *Query) (*Result, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	s, ok := newSearch(trees, q)
	if !ok {
		return &Result{}, nil
	}
	if q.Limit <= 0 {
		if _, err := s.round(0, unlimited); err != nil {
			return nil, err
		}
		return s.result(), nil
	}
	for from, to := 0, 1; ; from, to = to, to*8 {
		if finished, err := s.round(from, to); err != nil {
			return nil, err
		} else if finished {
			return s.result(), nil
		}
	}
}

const unlimited = int(^uint(0) >> 1)

// round finds the requests number from to to-1 of each tree. It is finished if no tree has more, or the answer is
// full.
func (s *search) round(from, to int) (finished bool, err error) {
	s.from, s.to = from, to
	finished = true
	for i, t := range s.trees {
		if from > 0 && !s.hasMore[i] {
			continue
		}
		s.hasMore[i], err = s.searchTree(i, t)
		if err != nil {
			return false, err
		}
		if s.full {
			return true, nil
		}
		finished = finished && !s.hasMore[i]
	}
	return finished, nil
}

// searchTree finds the requests of this round in a tree.
func (s *search) searchTree(i int, t *Tree) (more bool, err error) {
	if !s.q.RootTraits.matches(t.Root().Traits) {
		return false, nil
	}
	s.at, s.tree = i, t
	s.count, s.more = 0, false
	if s.collectOptions() {
		err = s.place(0)
	}
	return s.more, err
}

func (q *Query) maxRequests() int { return cmp.Or(q.MaxRequests, DefaultMaxRequests) }

func (q *Query) maxSteps() int { return cmp.Or(q.MaxSteps, DefaultMaxSteps) }
