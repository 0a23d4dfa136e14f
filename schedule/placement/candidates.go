package placement

import "cmp"

// Candidates finds the ways to allocate what q asks for from the providers of trees, which are those of one cell. It
// returns a *QueryError for a query that asks for nothing sensible, and a *BoundError where the ways are too many.
func Candidates(trees []*Tree, q *Query) (*Result, error) {
	r, err := naive(trees, q)
	if err == nil && q.Limit == 0 && len(r.Requests) > cmp.Or(q.MaxRequests, DefaultMaxRequests) {
		return nil, &BoundError{Requests: cmp.Or(q.MaxRequests, DefaultMaxRequests)}
	}
	return r, err
}
