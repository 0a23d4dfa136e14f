package placement

import (
	"cmp"
	"slices"
)

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
	s.equal = map[shape]*outcome{}
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

// outcome is what a round found in a tree. It is kept for trees of the same shape.
type outcome struct {
	// picks are all picks in a row, each with one option for each slot.
	picks []option
	more  bool
}

// An outcome is kept if it took at least keptSteps steps and has at most keptPicks picks: others are found again as
// fast. At most keptOutcomes are kept.
const (
	keptSteps    = 32
	keptPicks    = 64
	keptOutcomes = 1000
)

// searchTree searches a tree, or takes the outcome of an equal tree if one is kept.
func (s *search) searchTree(i int, t *Tree) (more bool, err error) {
	if !s.q.RootTraits.matches(t.Root().Traits) {
		return false, nil
	}
	s.at, s.tree, s.found = i, t, s.found[:0]
	s.keep = !s.treesNamed && len(t.sharing) == 0
	if s.keep && len(s.equal) > 0 {
		if o := s.equal[t.shape]; o != nil {
			for pick := range slices.Chunk(o.picks, len(s.slots)) {
				if err := s.emit(pick); err != nil || s.full {
					return false, err
				}
			}
			return o.more, nil
		}
	}
	s.count, s.more = 0, false
	before := s.steps
	if s.collectOptions() {
		if err := s.place(0); err != nil {
			return false, err
		}
	}
	if s.keep && !s.full && s.steps-before >= keptSteps && len(s.equal) < keptOutcomes {
		s.equal[t.shape] = &outcome{slices.Clone(s.found), s.more}
	}
	return s.more, nil
}

func (q *Query) maxRequests() int { return cmp.Or(q.MaxRequests, DefaultMaxRequests) }

func (q *Query) maxSteps() int { return cmp.Or(q.MaxSteps, DefaultMaxSteps) }
