package pebbleshard

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cellgate/internal/fault"
	"cellgate/shard"
)

const defaultDecisions = 100

// FindDecisions reads the index of the query's first term, or all rows, from the end. It also finds decisions that
// are not on disk yet.
func (s *Store) FindDecisions(ctx context.Context, q shard.DecisionQuery) (shard.DecisionPage, error) {
	if q.Limit <= 0 {
		q.Limit = defaultDecisions
	}
	s.using.RLock()
	defer s.using.RUnlock()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return shard.DecisionPage{}, err
	}
	snapshot := s.db.NewSnapshot()
	s.mu.Unlock()
	page, err := findDecisions(ctx, snapshot, q)
	err = errors.Join(err, snapshot.Close())
	if err == nil {
		return page, nil
	}
	if ctx.Err() != nil {
		return shard.DecisionPage{}, ctx.Err()
	}
	return shard.DecisionPage{}, unreadable(err)
}

func findDecisions(ctx context.Context, r pebble.Reader, q shard.DecisionQuery) (shard.DecisionPage, error) {
	p := &decisionPage{reader: r, query: q}
	if q.ID != "" {
		d, _, err := readDecision(r, q.ID)
		if err == nil && d != nil {
			_, err = p.addMatching(d)
		}
		return p.page, err
	}
	if q.Before != "" && q.From >= q.Before {
		return p.page, nil
	}
	low := []byte{decisionKey}
	if len(q.Terms) > 0 {
		low = named(q.Terms[0])
	}
	high := prefixEnd(low)
	if q.Before != "" {
		high = append(slices.Clip(low), q.Before...)
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: append(slices.Clip(low), q.From...), UpperBound: high})
	if err != nil {
		return p.page, err
	}
	more := true
	for ok := it.Last(); ok && more && err == nil; ok = it.Prev() {
		var d *shard.Decision
		id := string(it.Key()[len(low):])
		if low[0] == namedKey {
			if d, _, err = readDecision(r, id); err == nil && d == nil {
				err = fault.New(fault.Internal, "decision %s is in an index and has no row", id)
			}
		} else {
			var row []byte
			if row, err = it.ValueAndErr(); err == nil {
				d, _, err = decodeDecision(id, row)
			}
		}
		if err == nil {
			more, err = p.addMatching(d)
		}
		if err == nil {
			err = ctx.Err()
		}
	}
	return p.page, errors.Join(err, it.Close())
}

// decisionPage is a page being filled.
type decisionPage struct {
	reader pebble.Reader
	query  shard.DecisionQuery
	page   shard.DecisionPage
	bytes  int
}

// addMatching adds a decision with its body if it matches; false if the page is full.
func (p *decisionPage) addMatching(d *shard.Decision) (bool, error) {
	if !p.query.Matches(d) {
		return true, nil
	}
	if len(p.page.Decisions) == p.query.Limit {
		p.page.More = true
		return false, nil
	}
	body, closer, err := p.reader.Get(nameKey(bodyKey, d.ID))
	if errors.Is(err, pebble.ErrNotFound) {
		return false, fault.New(fault.Internal, "decision %s has no body", d.ID)
	}
	if err != nil {
		return false, err
	}
	d.Body = bytes.Clone(body)
	if err := closer.Close(); err != nil {
		return false, err
	}
	if p.bytes += len(d.Body); p.bytes > shard.MaxDecisionPage && len(p.page.Decisions) > 0 {
		p.page.More = true
		return false, nil
	}
	p.page.Decisions = append(p.page.Decisions, *d)
	return true, nil
}

// prefixEnd is the end of the range of keys with a prefix. The last bytes of the prefix may be 0xff, but not the first.
func prefixEnd(prefix []byte) []byte {
	i := len(prefix)
	for prefix[i-1] == 0xff {
		i--
	}
	return after(prefix[:i])
}
