package pebbleshard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// Load visits the gate, and hosts, usages, claims, pins, namespaces, admin states and names,
// each by id.
func (s *Store) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	hosts := slices.Collect(maps.Values(s.rows.hosts))
	usages := slices.Collect(maps.Values(s.rows.usages))
	claims := slices.Collect(maps.Values(s.rows.claims))
	pins := slices.Collect(maps.Values(s.rows.pins))
	gate := s.rows.gate
	var namespaces []*shard.Namespace
	for _, of := range s.rows.namespaces {
		for _, n := range of {
			if n.Facts != "" {
				namespaces = append(namespaces, n)
			}
		}
	}
	admins := slices.Collect(maps.Values(s.rows.admins))
	names := slices.Collect(maps.Keys(s.rows.names))
	at := s.position()
	seen := s.last
	s.mu.Unlock()
	if err := s.durable(ctx, seen); err != nil {
		return nil, err
	}

	if gate != nil {
		if err := visit(shard.Change{Gate: gate}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(hosts, func(a, b *shard.Host) int { return cmp.Compare(a.UUID, b.UUID) })
	slices.SortFunc(usages, func(a, b *shard.Usage) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	slices.SortFunc(claims, func(a, b *shard.Claim) int { return cmp.Compare(a.ClaimID, b.ClaimID) })
	slices.SortFunc(pins, func(a, b *shard.Pin) int { return cmp.Compare(a.GroupUUID, b.GroupUUID) })
	err := visitAll(ctx, hosts, func(h *shard.Host) error { return visit(shard.Change{Host: h}) })
	if err == nil {
		err = visitAll(ctx, usages, func(u *shard.Usage) error { return visit(shard.Change{Usage: u}) })
	}
	if err == nil {
		err = visitAll(ctx, claims, func(c *shard.Claim) error { return visit(shard.Change{Claim: c}) })
	}
	if err == nil {
		err = visitAll(ctx, pins, func(p *shard.Pin) error { return visit(shard.Change{Pin: p}) })
	}
	if err == nil {
		shard.SortNamespaces(namespaces)
		err = visitAll(ctx, namespaces, func(n *shard.Namespace) error { return visit(shard.Change{Namespace: n}) })
	}
	if err == nil {
		slices.SortFunc(admins, func(a, b *shard.AdminState) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
		err = visitAll(ctx, admins, func(a *shard.AdminState) error { return visit(shard.Change{AdminState: a}) })
	}
	if err == nil {
		slices.SortFunc(names, func(a, b shard.NameRef) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
		err = visitAll(ctx, names, func(n shard.NameRef) error { return visit(shard.Change{Name: &shard.CustomName{NameRef: n}}) })
	}
	if err != nil {
		return nil, err
	}
	return at, nil
}

func visitAll[T any](ctx context.Context, rows []T, visit func(T) error) error {
	for _, r := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
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

// FindClaims looks claims up by id when the query names claims, consumers or a
// host, and goes through all of them otherwise.
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

// liveNamed gives the ids of the live claims that a query can only mean, and
// whether it names any at all. The caller holds s.mu.
func (s *Store) liveNamed(q shard.ClaimQuery) (named []string, byName bool) {
	switch {
	case len(q.ClaimIDs) > 0:
		return slices.Clone(q.ClaimIDs), true
	case len(q.ConsumerUUIDs) > 0:
		for _, u := range q.ConsumerUUIDs {
			named = append(named, s.rows.byConsumer.claimsOf(u)...)
		}
		return named, true
	case q.HostUUID != "" && !q.Ended:
		return slices.Collect(maps.Keys(s.rows.byHost[q.HostUUID])), true
	}
	return nil, false
}

func findClaims(ctx context.Context, r pebble.Reader, q shard.ClaimQuery, named []string, byName bool) (shard.ClaimPage, error) {
	var page shard.ClaimPage
	take := func(c *shard.Claim) bool {
		if !matches(q, c) {
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

func matches(q shard.ClaimQuery, c *shard.Claim) bool {
	return c.ClaimID > q.After &&
		(len(q.ClaimIDs) == 0 || slices.Contains(q.ClaimIDs, c.ClaimID)) &&
		(len(q.ConsumerUUIDs) == 0 || slices.Contains(q.ConsumerUUIDs, c.ConsumerUUID)) &&
		(q.HostUUID == "" || c.HostUUID == q.HostUUID) &&
		(q.ProjectID == "" || c.ProjectID == q.ProjectID) &&
		(q.Ended || c.State.Live())
}

// readClaim finds one claim by id; nil when there is none.
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

// scanClaims goes through the live claims, and the tombstones when the query
// includes them, by id.
func scanClaims(ctx context.Context, r pebble.Reader, q shard.ClaimQuery, take func(*shard.Claim) bool) error {
	var its []*pebble.Iterator
	places := []byte{claimKey, tombstoneKey}
	if !q.Ended {
		places = places[:1]
	}
	var err error
	for _, p := range places {
		var it *pebble.Iterator
		// After itself is left out by matches.
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
