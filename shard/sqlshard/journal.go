package sqlshard

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// laneRow is a lane's position: it has the entries (floor, last].
type laneRow struct {
	id          shard.LaneID
	floor, last uint64
	fenced      bool
}

func lanesOf(ctx context.Context, c *pgx.Conn) ([]laneRow, error) {
	var all []laneRow
	rows, err := c.Query(ctx, readLanes)
	if err != nil {
		return nil, err
	}
	var replica string
	var incarnation, floor, last int64
	var fenced bool
	_, err = pgx.ForEachRow(rows, []any{&replica, &incarnation, &floor, &last, &fenced}, func() error {
		all = append(all, laneRow{shard.LaneID{Replica: replica, Incarnation: uint64(incarnation)}, uint64(floor), uint64(last), fenced})
		return nil
	})
	return all, err
}

// Tail reads the lanes' positions, which are written with their entries, and then the
// entries up to them. It gives entries of all lanes by their time, so that no lane
// waits for another's backlog. It fails when the lane that this store opened last was
// fenced: who only reads would not hear of it.
func (s *Store) Tail(ctx context.Context, from shard.Cursor, limit int) (entries []shard.Entry, at shard.Cursor, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		lanes, err := lanesOf(ctx, c.Conn())
		if err != nil {
			return err
		}
		if err := s.stands(lanes); err != nil {
			return err
		}
		if at, err = afterDrops(ctx, c.Conn(), lanes, from); err != nil {
			return err
		}
		open, err := behind(lanes, at)
		if err != nil {
			return err
		}
		entries, err = readAfter(ctx, c.Conn(), open, limit)
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

// stretch are the entries of a lane to be read: (from, to].
type stretch struct {
	lane     shard.LaneID
	from, to uint64
}

// behind lists what there is after a cursor.
func behind(lanes []laneRow, from shard.Cursor) ([]stretch, error) {
	known := map[shard.LaneID]uint64{}
	for _, l := range lanes {
		known[l.id] = l.last
	}
	for id, seq := range from {
		if last, ok := known[id]; !ok || seq > last {
			return nil, fault.New(fault.Gone, "the cursor names entry %d of lane %s/%d, which this journal does not have", seq, id.Replica, id.Incarnation)
		}
	}
	var open []stretch
	for _, l := range lanes {
		seq := from[l.id]
		if seq < l.floor {
			return nil, trimmed(l.id, l.floor, seq)
		}
		if seq < l.last {
			open = append(open, stretch{l.id, seq, l.last})
		}
	}
	return open, nil
}

func trimmed(id shard.LaneID, floor, seq uint64) error {
	return fault.New(fault.Gone, "the journal of lane %s/%d begins after entry %d, the cursor is at %d", id.Replica, id.Incarnation, floor, seq)
}

// readAfter reads at most limit entries, the oldest of all lanes, in one trip. An
// entry that is not there was trimmed since the positions were read.
func readAfter(ctx context.Context, c *pgx.Conn, open []stretch, limit int) ([]shard.Entry, error) {
	if len(open) == 0 || limit <= 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	for _, o := range open {
		b.Queue(readEntries, o.lane.Replica, int64(o.lane.Incarnation), int64(o.from), int64(o.to), int64(limit))
	}
	var found []packedEntry
	r := c.SendBatch(ctx, b)
	err := func() error {
		for _, o := range open {
			rows, err := r.Query()
			if err != nil {
				return err
			}
			next := o.from
			var seq, at int64
			var body []byte
			_, err = pgx.ForEachRow(rows, []any{&seq, &at, &body}, func() error {
				if next++; uint64(seq) != next {
					return trimmed(o.lane, uint64(seq)-1, o.from)
				}
				found = append(found, packedEntry{o.lane, next, at, body})
				return nil
			})
			if err != nil {
				return err
			}
			if next == o.from {
				return trimmed(o.lane, o.to, o.from)
			}
		}
		return nil
	}()
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	// Within a lane times ascend, so the order by time keeps each lane's own.
	slices.SortStableFunc(found, func(a, b packedEntry) int { return int(min(1, max(-1, a.at-b.at))) })
	return unpackEntries(found[:min(limit, len(found))])
}

// packedEntry is a row of the journal.
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

// texts reads one column.
func texts(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
