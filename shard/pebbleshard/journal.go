package pebbleshard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// Tail gives the entries of all lanes by their time, so that no lane waits for another's backlog.
func (s *Store) Tail(ctx context.Context, from shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	s.using.RLock()
	defer s.using.RUnlock()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	open, err := s.behind(from)
	if err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	var snapshot *pebble.Snapshot
	if len(open) > 0 {
		snapshot = s.db.NewSnapshot()
	}
	seen := s.last
	s.mu.Unlock()

	at := shard.Cursor{}
	maps.Copy(at, from)
	if snapshot == nil {
		return nil, at, nil
	}
	var entries []shard.Entry
	for _, l := range open {
		list, lerr := entriesAfter(snapshot, l, from[l.id], limit)
		entries, err = append(entries, list...), errors.Join(err, lerr)
	}
	if err = errors.Join(err, snapshot.Close()); err != nil {
		return nil, nil, unreadable(err)
	}
	if err := s.durable(ctx, seen); err != nil {
		return nil, nil, err
	}
	// Within a lane times increase, so sorting by time keeps each lane's order.
	slices.SortStableFunc(entries, func(a, b shard.Entry) int { return a.At.Compare(b.At) })
	entries = entries[:min(limit, len(entries))]
	for _, e := range entries {
		at[e.Lane] = e.Seq
	}
	return entries, at, nil
}

// behind lists the lanes that have entries after a cursor. The caller holds s.mu.
func (s *Store) behind(from shard.Cursor) ([]laneState, error) {
	for id, seq := range from {
		if l := s.lanes[id.Incarnation]; l == nil || l.id != id || seq > l.last {
			return nil, fault.New(fault.Gone, "the cursor names entry %d of lane %s/%d, which this journal does not have", seq, id.Replica, id.Incarnation)
		}
	}
	var open []laneState
	for _, l := range s.lanes {
		seq := from[l.id]
		if seq < l.floor {
			return nil, fault.New(fault.Gone, "the journal of lane %s/%d begins after entry %d, the cursor is at %d", l.id.Replica, l.id.Incarnation, l.floor, seq)
		}
		if seq < l.last {
			open = append(open, *l)
		}
	}
	return open, nil
}

// entriesAfter reads at most limit entries of a lane after one, without gaps.
func entriesAfter(r pebble.Reader, l laneState, seq uint64, limit int) (entries []shard.Entry, err error) {
	it, err := r.NewIter(&pebble.IterOptions{
		LowerBound: journalKey(l.id.Incarnation, seq+1), UpperBound: journalKey(l.id.Incarnation, l.last+1),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	it.First()
	for seq++; seq <= l.last && len(entries) < limit; seq++ {
		if !it.Valid() || string(it.Key()) != string(journalKey(l.id.Incarnation, seq)) {
			return nil, errors.Join(it.Error(), fault.New(fault.Internal, "the journal of lane %s/%d has no entry %d", l.id.Replica, l.id.Incarnation, seq))
		}
		b, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		e := shard.Entry{Lane: l.id, Seq: seq}
		if e.At, e.Changes, err = rowcodec.Entry(b); err != nil {
			return nil, err
		}
		entries = append(entries, e)
		it.Next()
	}
	return entries, nil
}

// trimStep bounds the rows that Trim drops under one lock.
const trimStep = 1000

// Trim drops entries and tombstones older than a time, and the oldest beyond the byte bounds of the options. If its
// context ends, the finished steps remain.
func (s *Store) Trim(ctx context.Context, before time.Time) error {
	s.using.RLock()
	defer s.using.RUnlock()
	s.mu.Lock()
	incarnations := slices.Sorted(maps.Keys(s.lanes)) // the oldest first
	s.mu.Unlock()
	for _, incarnation := range incarnations {
		if err := s.trimSteps(ctx, func() (bool, error) { return s.trimLane(incarnation, before) }); err != nil {
			return err
		}
	}
	return s.trimSteps(ctx, func() (bool, error) { return s.trimTombstones(before) })
}

// excessBytes is by how many bytes size exceeds most; 0 without a bound.
func excessBytes(size, most int64) int64 {
	if most <= 0 {
		return 0
	}
	return max(size-most, 0)
}

// trimSteps runs steps until one is the last. Each runs under the lock, and is then synced.
func (s *Store) trimSteps(ctx context.Context, step func() (more bool, err error)) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		err := s.usable()
		if err == nil {
			more, err = step()
		}
		seen := s.last
		s.mu.Unlock()
		if err == nil {
			err = s.durable(ctx, seen)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) trimLane(incarnation uint64, before time.Time) (bool, error) {
	l := *s.lanes[incarnation]
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: journalKey(incarnation, l.floor+1), UpperBound: journalKey(incarnation, l.last+1),
	})
	if err != nil {
		return false, unreadable(err)
	}
	low, n, dropped := l.floor+1, 0, int64(0)
	for ok := it.First(); ok && n < trimStep; ok = it.Next() {
		b, err := it.ValueAndErr()
		var at time.Time
		if err == nil {
			at, err = rowcodec.Time(b)
		}
		if err != nil {
			return false, unreadable(errors.Join(err, it.Close()))
		}
		if !at.Before(before) && dropped >= excessBytes(s.sizes.journal, s.opts.MaxJournalBytes) {
			break
		}
		l.floor++
		n++
		dropped += int64(len(it.Key()) + len(b))
	}
	if err := it.Close(); err != nil {
		return false, unreadable(err)
	}
	if n == 0 {
		return false, nil
	}
	b := s.db.NewBatch()
	err = b.DeleteRange(journalKey(incarnation, low), journalKey(incarnation, l.floor+1), nil)
	if err == nil {
		err = setLane(b, &l)
	}
	if err == nil {
		_, err = s.commit(b)
	}
	if err != nil {
		return false, err
	}
	*s.lanes[incarnation] = l
	s.sizes.journal -= dropped
	return n == trimStep, nil
}

func (s *Store) trimTombstones(before time.Time) (bool, error) {
	now := s.clock.tick()
	if young := now.Add(-shard.TombstoneTTL); before.After(young) {
		before = young
	}
	last, excess := before, excessBytes(s.sizes.ended, s.opts.MaxEndedBytes)
	if youngest := now.Add(-shard.MinTombstoneTTL); excess > 0 && youngest.After(before) {
		last = youngest
	}
	if last.UnixNano() <= 0 {
		return false, nil
	}
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{endKey}, UpperBound: tombstoneEndKey(last, ""),
	})
	if err != nil {
		return false, unreadable(err)
	}
	b := s.db.NewBatch()
	n, dropped := 0, int64(0)
	for ok := it.First(); ok && n < trimStep; ok = it.Next() {
		if dropped >= excess && string(it.Key()) >= string(tombstoneEndKey(before, "")) {
			break
		}
		id := string(it.Key()[len(tombstoneEndKey(before, "")):])
		c, size, err := s.tombstone(id)
		if err == nil {
			err = b.Delete(it.Key(), nil)
		}
		if err == nil && c != nil {
			dropped += tombstoneSize(1+len(id), size)
			err = errors.Join(
				b.Delete(nameKey(tombstoneKey, id), nil),
				b.Delete(endedOfKey(c.ConsumerUUID, id), nil),
			)
		}
		if err != nil {
			return false, unreadable(errors.Join(err, it.Close(), b.Close()))
		}
		n++
	}
	if err := it.Close(); err != nil {
		return false, unreadable(errors.Join(err, b.Close()))
	}
	if n == 0 {
		return false, b.Close()
	}
	if _, err := s.commit(b); err != nil {
		return false, err
	}
	s.sizes.ended -= dropped
	return n == trimStep, nil
}
