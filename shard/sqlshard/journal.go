package sqlshard

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// laneRow is a lane whose entries up to floor are trimmed.
type laneRow struct {
	id     shard.LaneID
	floor  uint64
	fenced bool
}

func lanesOf(ctx context.Context, c *pgx.Conn) ([]laneRow, error) {
	var all []laneRow
	rows, err := c.Query(ctx, readLanes)
	if err != nil {
		return nil, err
	}
	var replica string
	var incarnation, floor int64
	var fenced bool
	_, err = pgx.ForEachRow(rows, []any{&replica, &incarnation, &floor, &fenced}, func() error {
		all = append(all, laneRow{shard.LaneID{Replica: replica, Incarnation: uint64(incarnation)}, uint64(floor), fenced})
		return nil
	})
	return all, err
}

// positions gives the last entries of lanes.
func positions(ctx context.Context, c *pgx.Conn, lanes []laneRow) (shard.Cursor, error) {
	b := &pgx.Batch{}
	for _, l := range lanes {
		b.Queue(lastEntry, l.id.Replica, int64(l.id.Incarnation))
	}
	at, i := shard.Cursor{}, 0
	err := eachAnswer(c.SendBatch(ctx, b), len(lanes), func(rows pgx.Rows) error {
		l := lanes[i]
		i++
		last := int64(l.floor)
		_, err := pgx.ForEachRow(rows, []any{&last}, func() error { return nil })
		if last > 0 {
			at[l.id] = uint64(last)
		}
		return err
	})
	return at, err
}

// Tail reads the lanes, and the entries of each after the cursor. It gives the entries of all lanes by their time, so
// that no lane waits for another's backlog. It fails if the lane that this store opened last was fenced: a caller
// that only reads would not notice.
func (s *Store) Tail(ctx context.Context, from shard.Cursor, limit int) (entries []shard.Entry, at shard.Cursor, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		lanes, found, err := s.readAfter(ctx, c.Conn(), from, max(0, limit))
		if err != nil {
			return err
		}
		dropped, found := splitDrops(found)
		if at, err = afterDrops(dropped, from); err != nil {
			return err
		}
		for id, seq := range at {
			if !slices.ContainsFunc(lanes, func(l laneRow) bool { return l.id == id }) {
				return lostEntry(id, seq)
			}
		}
		// Within a lane times increase, so sorting by time keeps each lane's order.
		slices.SortStableFunc(found, func(a, b packedEntry) int { return cmp.Compare(a.at, b.at) })
		entries, err = unpackEntries(found[:min(limit, len(found))])
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		at[e.Lane] = e.Seq
	}
	return entries, at, nil
}

// lostEntry is the error for a cursor at an entry that the journal does not have and did not trim: the database was put
// back to an earlier state, or the cursor is of another one.
func lostEntry(id shard.LaneID, seq uint64) error {
	return fault.Wrap(fault.Gone, shard.ErrBroken, "entry %d of lane %s/%d was read and is not in the journal: the database was put back to an earlier state", seq, id.Replica, id.Incarnation)
}

func trimmed(id shard.LaneID, seq uint64) error {
	return fault.New(fault.Gone, "the journal does not have what follows entry %d of lane %s/%d", seq, id.Replica, id.Incarnation)
}

// seenLanes is what a read of the journal learnt about the lanes.
type seenLanes struct {
	all []laneRow
	// ends has the last entries of fenced lanes that were read to their end. No entry follows these, so that a
	// replica that starts again and again does not make every read of the journal longer.
	ends map[shard.LaneID]uint64
}

// unread gives those of lanes that may have entries after a cursor. drops is fenced and still gets entries.
func (seen *seenLanes) unread(lanes []laneRow, from shard.Cursor) []shard.LaneID {
	var ids []shard.LaneID
	for _, l := range lanes {
		if end, ended := seen.ends[l.id]; !ended || !l.fenced || from[l.id] != end {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// readAfter reads the lanes, at most limit entries of each after a cursor, and all entries of drops. It is one
// statement, unless there are lanes that this store does not know yet. The entry at the cursor must exist, unless it
// was trimmed.
func (s *Store) readAfter(ctx context.Context, c *pgx.Conn, from shard.Cursor, limit int) (lanes []laneRow, found []packedEntry, err error) {
	seen := s.lanes.Load()
	if seen == nil {
		seen = &seenLanes{}
	}
	asked := seen.unread(seen.all, from)
	for {
		lanes, entries, err := s.tailOnce(ctx, c, asked, from, limit)
		if err != nil {
			return nil, nil, err
		}
		if err := s.checkFence(lanes); err != nil {
			return nil, nil, err
		}
		ids := seen.unread(lanes, from)
		if slices.ContainsFunc(ids, func(id shard.LaneID) bool { return !slices.Contains(asked, id) }) {
			asked = ids
			continue
		}
		now := &seenLanes{all: lanes, ends: make(map[shard.LaneID]uint64, len(seen.ends))}
		for _, l := range lanes {
			if end, ended := seen.ends[l.id]; ended && l.fenced {
				now.ends[l.id] = end
			}
			if !slices.Contains(ids, l.id) {
				continue
			}
			list, err := l.follow(from[l.id], entries[l.id])
			if err != nil {
				return nil, nil, err
			}
			found = append(found, list...)
			if l.fenced && l.id != drops && len(entries[l.id]) <= limit {
				now.ends[l.id] = from[l.id] + uint64(len(list))
			}
		}
		s.lanes.Store(now)
		return lanes, found, nil
	}
}

// tailOnce reads all lanes, and the entries of the asked lanes from the one at the cursor on.
func (s *Store) tailOnce(ctx context.Context, c *pgx.Conn, asked []shard.LaneID, from shard.Cursor, limit int) (lanes []laneRow, entries map[shard.LaneID][]packedEntry, err error) {
	digits := func(n uint64) string { return strconv.FormatInt(int64(n), 10) }
	args := make([]any, 0, tailParameters*len(asked))
	for _, id := range asked {
		most := limit + 1
		if id == drops {
			most = math.MaxInt32
		}
		args = append(args, id.Replica, digits(id.Incarnation), digits(from[id]), strconv.Itoa(most))
	}
	rows, err := c.Query(ctx, readTail(len(asked)), args...)
	if err != nil {
		return nil, nil, err
	}
	entries = make(map[shard.LaneID][]packedEntry, len(asked))
	var nth, number, at int64
	var replica *string
	var fenced *bool
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&nth, &replica, &number, &at, &fenced, &body}, func() error {
		if replica != nil && fenced != nil {
			lanes = append(lanes, laneRow{shard.LaneID{Replica: *replica, Incarnation: uint64(number)}, uint64(at), *fenced})
			return nil
		}
		id := asked[nth]
		entries[id] = append(entries[id], packedEntry{id, uint64(number), at, bytes.Clone(body)})
		return nil
	})
	return lanes, entries, err
}

// follow gives the entries after the cursor. It fails if one is missing.
func (l laneRow) follow(cursor uint64, entries []packedEntry) ([]packedEntry, error) {
	slices.SortFunc(entries, func(a, b packedEntry) int { return cmp.Compare(a.seq, b.seq) })
	switch {
	case len(entries) > 0 && entries[0].seq == cursor:
		entries = entries[1:]
	case cursor > l.floor:
		return nil, lostEntry(l.id, cursor)
	case cursor < l.floor:
		return nil, trimmed(l.id, cursor)
	}
	for i, e := range entries {
		if e.seq != cursor+uint64(i)+1 {
			return nil, trimmed(l.id, cursor)
		}
	}
	return entries, nil
}

// packedEntry is a row of the journal, still encoded.
type packedEntry struct {
	lane shard.LaneID
	seq  uint64
	at   int64
	body []byte
}

func unpackEntries(packed []packedEntry) ([]shard.Entry, error) {
	entries := make([]shard.Entry, len(packed))
	for i, p := range packed {
		body, err := rowcodec.Unpack(p.body)
		e := shard.Entry{Lane: p.lane, Seq: p.seq}
		if err == nil {
			e.At, e.Changes, err = rowcodec.Entry(body)
		}
		if err != nil {
			return nil, damaged("entry %d of lane %s/%d cannot be read: %v", p.seq, p.lane.Replica, p.lane.Incarnation, err)
		}
		entries[i] = e
	}
	return entries, nil
}

// texts reads a single column.
func texts(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
