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
		return slices.Clone(s.rows.byHost[q.HostUUID]), true
	}
	return nil, false
}

func findClaims(ctx context.Context, r pebble.Reader, q shard.ClaimQuery, named []string, byName bool) (shard.ClaimPage, error) {
	var page shard.ClaimPage
	take := func(c *shard.Claim) bool {
		if !q.Matches(c) {
			return true
		}
		if len(page.Claims) == q.Limit {
			page.More = true
			return false
		}
		page.Claims = append(page.Claims, c)
		return true
	}
	if !byName {
		return page, scanClaims(ctx, r, q, take)
	}
	if q.Ended && len(q.ClaimIDs) == 0 {
		ended, err := endedOf(r, q.ConsumerUUIDs)
		if err != nil {
			return page, err
		}
		named = append(named, ended...)
	}
	slices.Sort(named)
	for _, id := range slices.Compact(named) {
		c, err := readClaim(r, id, q.Ended)
		if err != nil {
			return page, err
		}
		if c != nil && !take(c) {
			break
		}
	}
	return page, ctx.Err()
}

// readClaim finds a claim by id; nil if it does not exist.
func readClaim(r pebble.Reader, id string, ended bool) (*shard.Claim, error) {
	places := []byte{claimKey, tombstoneKey}
	if !ended {
		places = places[:1]
	}
	for _, p := range places {
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

// scanClaims visits the live claims, and tombstones if the query includes them, in the order of ids.
func scanClaims(ctx context.Context, r pebble.Reader, q shard.ClaimQuery, take func(*shard.Claim) bool) error {
	var its []*pebble.Iterator
	places := []byte{claimKey, tombstoneKey}
	if !q.Ended {
		places = places[:1]
	}
	var err error
	for _, p := range places {
		var it *pebble.Iterator
		// Matches leaves out After itself.
		it, err = r.NewIter(&pebble.IterOptions{LowerBound: nameKey(p, q.After), UpperBound: after([]byte{p})})
		if err != nil {
			break
		}
		it.First()
		its = append(its, it)
	}
	for err == nil {
		var next *pebble.Iterator
		for _, it := range its {
			if it.Valid() && (next == nil || string(it.Key()[1:]) < string(next.Key()[1:])) {
				next = it
			}
		}
		if next == nil {
			break
		}
		var b []byte
		var c *shard.Claim
		if b, err = next.ValueAndErr(); err == nil {
			c, err = rowcodec.Claim(b)
		}
		if err != nil || !take(c) {
			break
		}
		next.Next()
		if err = ctx.Err(); err != nil {
			break
		}
	}
	for _, it := range its {
		err = errors.Join(err, it.Close())
	}
	if err != nil && ctx.Err() == nil {
		return unreadable(err)
	}
	return err
}

func unreadable(err error) error {
	return fault.Wrap(fault.CellUnavailable, err, "the shard cannot read its rows")
}
