package pebbleshard

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// Load visits the gate, and hosts, usages, claims, pins, namespaces, admin states and names, each in the order of
// their ids.
func (s *Store) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	kinds := [][]keyed{
		rowsOf(s.rows.hosts, func(h *shard.Host) shard.Change { return shard.Change{Host: h} }),
		rowsOf(s.rows.usages, func(u *shard.Usage) shard.Change { return shard.Change{Usage: u} }),
		rowsOf(s.rows.claims, func(c *shard.Claim) shard.Change { return shard.Change{Claim: c} }),
		rowsOf(s.rows.pins, func(p *shard.Pin) shard.Change { return shard.Change{Pin: p} }),
		nil,
		rowsOf(s.rows.admins, func(a *shard.AdminState) shard.Change { return shard.Change{AdminState: a} }),
		nil,
	}
	for host, of := range s.rows.namespaces {
		for name, n := range of {
			if n.Facts != "" {
				kinds[4] = append(kinds[4], keyed{host + " " + name, shard.Change{Namespace: n}})
			}
		}
	}
	for ref := range s.rows.names {
		kinds[6] = append(kinds[6], keyed{string(ref.Kind) + " " + ref.Name, shard.Change{Name: &shard.CustomName{NameRef: ref}}})
	}
	gate, at, seen := s.rows.gate, s.position(), s.last
	s.mu.Unlock()
	if err := s.durable(ctx, seen); err != nil {
		return nil, err
	}
	if gate != nil {
		if err := visit(shard.Change{Gate: gate}); err != nil {
			return nil, err
		}
	}
	for _, rows := range kinds {
		slices.SortFunc(rows, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
		for _, r := range rows {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := visit(r.change); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

// keyed is a row with its sort key.
type keyed struct {
	key    string
	change shard.Change
}

func rowsOf[T any](rows map[string]T, change func(T) shard.Change) []keyed {
	list := make([]keyed, 0, len(rows))
	for key, row := range rows {
		list = append(list, keyed{key, change(row)})
	}
	return list
}

// position is the end of the journal. The caller holds s.mu.
func (s *Store) position() shard.Cursor {
	at := shard.Cursor{}
	for _, l := range s.lanes {
		if l.last > 0 {
			at[l.id] = l.last
		}
	}
	return at
}

// Due lists the claims to expire.
func (s *Store) Due(ctx context.Context, limit int) ([]shard.ClaimRef, error) {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	refs := s.rows.leases.due(s.clock.tick(), s.rows.claims, limit)
	seen := s.last
	s.mu.Unlock()
	if err := s.durable(ctx, seen); err != nil {
		return nil, err
	}
	return refs, nil
}

const defaultPage = 1000

// FindClaims reads claims by id if the query names claims, consumers or a host without Ended. Otherwise it scans all
// claims.
func (s *Store) FindClaims(ctx context.Context, q shard.ClaimQuery) (shard.ClaimPage, error) {
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	s.using.RLock()
	defer s.using.RUnlock()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return shard.ClaimPage{}, err
	}
	snapshot := s.db.NewSnapshot()
	named, byName := s.liveNamed(q)
	seen := s.last
	s.mu.Unlock()

	page, err := findClaims(ctx, snapshot, q, named, byName)
	err = errors.Join(err, snapshot.Close())
	if err == nil {
		err = s.durable(ctx, seen)
	}
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return shard.ClaimPage{}, ctx.Err()
		}
		return shard.ClaimPage{}, err
	}
	return page, nil
}

// liveNamed gives the ids of the live claims that can match, and whether the query names any. The caller holds s.mu.
func (s *Store) liveNamed(q shard.ClaimQuery) (named []string, byName bool) {
	switch {
	case len(q.ClaimIDs) > 0:
		return slices.Clone(q.ClaimIDs), true
	case len(q.ConsumerUUIDs) > 0:
		for _, u := range q.ConsumerUUIDs {
			named = append(named, s.rows.byConsumer[u]...)
		}
		return named, true
	case q.HostUUID != "" && !q.Ended:
		return s.rows.byHost.claims(q.HostUUID), true
	}
	return nil, false
}

func findClaims(ctx context.Context, r pebble.Reader, q shard.ClaimQuery, named []string, byName bool) (shard.ClaimPage, error) {
	if !byName {
		return scanClaims(ctx, r, q)
	}
	if q.Ended && len(q.ClaimIDs) == 0 {
		ended, err := endedOf(r, q.ConsumerUUIDs)
		if err != nil {
			return shard.ClaimPage{}, err
		}
		named = append(named, ended...)
	}
	var found []*shard.Claim
	slices.Sort(named)
	for _, id := range slices.Compact(named) {
		c, err := readClaim(r, id, q.Ended)
		if err != nil {
			return shard.ClaimPage{}, err
		}
		if c != nil && q.Matches(c) {
			found = append(found, c)
		}
		if len(found) > q.Limit {
			break
		}
	}
	return pageOf(found, q.Limit), ctx.Err()
}

func pageOf(found []*shard.Claim, limit int) shard.ClaimPage {
	return shard.ClaimPage{Claims: found[:min(limit, len(found))], More: len(found) > limit}
}

// placesOf are the letters of live claims and, if ended, of tombstones.
func placesOf(ended bool) []byte {
	if ended {
		return []byte{claimKey, tombstoneKey}
	}
	return []byte{claimKey}
}

// readClaim finds a claim by id; nil if it does not exist.
func readClaim(r pebble.Reader, id string, ended bool) (*shard.Claim, error) {
	for _, p := range placesOf(ended) {
		b, closer, err := r.Get(nameKey(p, id))
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, unreadable(err)
		}
		c, err := rowcodec.Claim(b)
		if err = errors.Join(err, closer.Close()); err != nil {
			return nil, unreadable(err)
		}
		return c, nil
	}
	return nil, nil
}

func endedOf(r pebble.Reader, consumers []string) ([]string, error) {
	var ended []string
	for _, u := range consumers {
		low := endedOfKey(u, "")
		it, err := r.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: after(low)})
		if err != nil {
			return nil, unreadable(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			ended = append(ended, string(it.Key()[len(low):]))
		}
		if err := it.Close(); err != nil {
			return nil, unreadable(err)
		}
	}
	return ended, nil
}

// scanClaims reads the first matching claims of each kind: live ones, and tombstones if the query includes them.
func scanClaims(ctx context.Context, r pebble.Reader, q shard.ClaimQuery) (shard.ClaimPage, error) {
	var found []*shard.Claim
	for _, place := range placesOf(q.Ended) {
		list, err := scanPlace(ctx, r, q, place)
		if err != nil {
			return shard.ClaimPage{}, err
		}
		found = append(found, list...)
	}
	slices.SortFunc(found, func(a, b *shard.Claim) int { return cmp.Compare(a.ClaimID, b.ClaimID) })
	return pageOf(found, q.Limit), nil
}

// scanPlace reads matching claims in the order of their ids, one more than a page.
func scanPlace(ctx context.Context, r pebble.Reader, q shard.ClaimQuery, place byte) (found []*shard.Claim, err error) {
	// Matches leaves out After itself.
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: nameKey(place, q.After), UpperBound: after([]byte{place})})
	if err != nil {
		return nil, unreadable(err)
	}
	for ok := it.First(); ok && len(found) <= q.Limit; ok = it.Next() {
		var c *shard.Claim
		b, err := it.ValueAndErr()
		if err == nil {
			c, err = rowcodec.Claim(b)
		}
		if err != nil {
			return nil, unreadable(errors.Join(err, it.Close()))
		}
		if q.Matches(c) {
			found = append(found, c)
		}
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return nil, unreadable(err)
	}
	return found, nil
}

func unreadable(err error) error {
	return fault.Wrap(fault.CellUnavailable, err, "the shard cannot read its rows")
}
