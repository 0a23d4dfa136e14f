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
	entries, err := merge(snapshot, open, limit)
	err = errors.Join(err, snapshot.Close())
	if err != nil {
		return nil, nil, unreadable(err)
	}
	if err := s.durable(ctx, seen); err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		at[e.Lane] = e.Seq
	}
	return entries, at, nil
}

// reading is a lane that is being read; next is the entry after those returned.
type reading struct {
	lane shard.LaneID
	next uint64
	last uint64
	it   *pebble.Iterator
	head shard.Entry
}

// behind lists the lanes that have entries after a cursor. The caller holds
// s.mu.
func (s *Store) behind(from shard.Cursor) ([]*reading, error) {
	for id, seq := range from {
		if l := s.lanes[id.Incarnation]; l == nil || l.id != id || seq > l.last {
			return nil, fault.New(fault.Gone, "the cursor names entry %d of lane %s/%d, which this journal does not have", seq, id.Replica, id.Incarnation)
		}
	}
	var open []*reading
	for _, l := range s.lanes {
		seq := from[l.id]
		if seq < l.floor {
			return nil, fault.New(fault.Gone, "the journal of lane %s/%d begins after entry %d, the cursor is at %d", l.id.Replica, l.id.Incarnation, l.floor, seq)
		}
		if seq < l.last {
			open = append(open, &reading{lane: l.id, next: seq + 1, last: l.last})
		}
	}
	return open, nil
}

// merge gives the oldest entries of the lanes.
func merge(r pebble.Reader, open []*reading, limit int) (entries []shard.Entry, err error) {
	defer func() {
		for _, l := range open {
			if l.it != nil {
				err = errors.Join(err, l.it.Close())
			}
		}
	}()
	for _, l := range open {
		if l.it, err = r.NewIter(&pebble.IterOptions{
			LowerBound: journalKey(l.lane.Incarnation, l.next),
			UpperBound: journalKey(l.lane.Incarnation, l.last+1),
		}); err != nil {
			return nil, err
		}
		l.it.First()
		if err := l.read(); err != nil {
			return nil, err
		}
	}
	for len(entries) < limit {
		var first *reading
		for _, l := range open {
			if l.next <= l.last && (first == nil || l.head.At.Before(first.head.At)) {
				first = l
			}
		}
		if first == nil {
			break
		}
		entries = append(entries, first.head)
		first.next++
		first.it.Next()
		if err := first.read(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// read decodes the next entry.
func (l *reading) read() error {
	if l.next > l.last {
		return nil
	}
	if !l.it.Valid() || string(l.it.Key()) != string(journalKey(l.lane.Incarnation, l.next)) {
		return errors.Join(l.it.Error(), fault.New(fault.Internal, "the journal of lane %s/%d has no entry %d", l.lane.Replica, l.lane.Incarnation, l.next))
	}
	b, err := l.it.ValueAndErr()
	if err != nil {
		return err
	}
	l.head = shard.Entry{Lane: l.lane, Seq: l.next}
	l.head.At, l.head.Changes, err = rowcodec.Entry(b)
	return err
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
