package sqlshard

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Lanes whose replica has a newer incarnation, and whose entries are trimmed, are dropped, because every read of the
// journal reads the rows of all lanes.
//
// A lane without a name records this in the journal, with one entry for each dropped lane; its entries are trimmed
// like others. A cursor at its end has seen all drops. Any other cursor goes on if it was at the end of each lane
// dropped since. If it missed entries of one, it is Gone.

// drops is the lane that records dropped lanes.
var drops = shard.LaneID{}

// droppedLane is an entry of drops: a lane and its last entry.
type droppedLane struct {
	Replica     string `json:"replica"`
	Incarnation uint64 `json:"incarnation"`
	Last        uint64 `json:"last"`
}

// splitDrops separates the entries of drops from the others.
func splitDrops(found []packedEntry) (dropped, others []packedEntry) {
	for _, e := range found {
		if e.lane == drops {
			dropped = append(dropped, e)
		} else {
			others = append(others, e)
		}
	}
	return dropped, others
}

// afterDrops moves a cursor past the lanes that were dropped since, and removes them from it.
func afterDrops(dropped []packedEntry, from shard.Cursor) (shard.Cursor, error) {
	at := shard.Cursor{}
	maps.Copy(at, from)
	for _, e := range dropped {
		var d droppedLane
		if err := json.Unmarshal(e.body, &d); err != nil {
			return nil, damaged("entry %d of the dropped lanes cannot be read: %v", e.seq, err)
		}
		id := shard.LaneID{Replica: d.Replica, Incarnation: d.Incarnation}
		if at[id] != d.Last {
			return nil, fault.New(fault.Gone, "lane %s/%d was dropped after its entry %d, the cursor is at %d", d.Replica, d.Incarnation, d.Last, at[id])
		}
		delete(at, id)
		at[drops] = e.seq
	}
	return at, nil
}

const (
	// The newest incarnation of a replica stays: the next one counts from it.
	deadLanes = `SELECT replica, incarnation, floor FROM lanes
WHERE fenced AND opened_at < $1::int8 AND replica <> ''
AND NOT EXISTS (SELECT 1 FROM journal WHERE journal.replica = lanes.replica AND journal.incarnation = lanes.incarnation)
AND EXISTS (SELECT 1 FROM lanes AS newer WHERE newer.replica = lanes.replica AND newer.incarnation > lanes.incarnation)
ORDER BY replica, incarnation LIMIT 1000`

	insertDrops = `INSERT INTO lanes (replica, incarnation, floor, fenced, opened_at) VALUES ('', 0, 0, true, 0)
ON CONFLICT (replica, incarnation) DO NOTHING`
	deleteLanes = `DELETE FROM lanes WHERE (replica, incarnation) IN (SELECT unnest($1::text[]), unnest($2::int8[]))`
	tellDrops   = `INSERT INTO journal (replica, incarnation, seq, written_at, entry)
SELECT '', 0, unnest($1::int8[]), $2::int8, unnest($3::bytea[])`
)

// dropLanes drops lanes that began before a time, a step of them, and records that in drops. Concurrent calls wait
// for each other at the row of drops.
func dropLanes(ctx context.Context, c *pgx.Conn, before, now time.Time) (int, error) {
	dead, err := deadLanesOf(ctx, c, before)
	if err != nil || len(dead) == 0 {
		return 0, err
	}
	if _, err := c.Exec(ctx, insertDrops); err != nil {
		return 0, err
	}
	var last int64
	if err := c.QueryRow(ctx, lockFloor, drops.Replica, int64(drops.Incarnation)).Scan(&last); err != nil {
		return 0, err
	}
	if err := c.QueryRow(ctx, lastEntry, drops.Replica, int64(drops.Incarnation)).Scan(&last); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, err
	}
	if dead, err = deadLanesOf(ctx, c, before); err != nil || len(dead) == 0 {
		return 0, err
	}
	var replicas []string
	var incarnations, seqs []int64
	var entries [][]byte
	for i, d := range dead {
		b, err := json.Marshal(d)
		if err != nil {
			return 0, err
		}
		replicas, incarnations = append(replicas, d.Replica), append(incarnations, int64(d.Incarnation))
		seqs, entries = append(seqs, last+int64(i)+1), append(entries, b)
	}
	if _, err := c.Exec(ctx, deleteLanes, replicas, incarnations); err != nil {
		return 0, err
	}
	_, err = c.Exec(ctx, tellDrops, seqs, now.UnixNano(), entries)
	return len(dead), err
}

func deadLanesOf(ctx context.Context, c *pgx.Conn, before time.Time) ([]droppedLane, error) {
	rows, err := c.Query(ctx, deadLanes, before.UnixNano())
	if err != nil {
		return nil, err
	}
	var all []droppedLane
	var d droppedLane
	_, err = pgx.ForEachRow(rows, []any{&d.Replica, &d.Incarnation, &d.Last}, func() error { all = append(all, d); return nil })
	return all, err
}
