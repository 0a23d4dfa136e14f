package sqlshard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/shard"
)

// Trim drops entries, lanes without entries and tombstones older than a time. It commits in steps: if its context
// ends, the finished steps remain.
func (s *Store) Trim(ctx context.Context, before time.Time) error {
	var lanes []laneRow
	var now time.Time
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		if lanes, err = lanesOf(ctx, c.Conn()); err != nil {
			return err
		}
		var server time.Time
		if err := c.QueryRow(ctx, serverTime).Scan(&server); err != nil {
			return err
		}
		now, err = s.clock.read(ctx, s, c.Conn(), server)
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if err := s.steps(ctx, func(ctx context.Context, c *pgx.Conn) (int, error) {
			return trimLane(ctx, c, &l, before)
		}); err != nil {
			return err
		}
	}
	if err := s.steps(ctx, func(ctx context.Context, c *pgx.Conn) (int, error) {
		return dropLanes(ctx, c, before, now)
	}); err != nil {
		return err
	}
	if young := now.Add(-shard.TombstoneTTL); before.After(young) {
		before = young
	}
	if before.UnixNano() <= 0 {
		return nil
	}
	for slot := range slots {
		if err := s.steps(ctx, func(ctx context.Context, c *pgx.Conn) (int, error) {
			return trimTombstones(ctx, c, slotName(slot), before)
		}); err != nil {
			return err
		}
	}
	return s.sweepConsumers(ctx)
}

const nextConsumers = `SELECT consumer_uuid FROM consumers WHERE consumer_uuid > $1::text ORDER BY consumer_uuid LIMIT 1000`

// sweepConsumers drops consumers that have no claims: group members that never got one. It looks at a step of them from
// a random uuid on. If one gets a claim meanwhile, its row may be dropped, and is then inserted again.
func (s *Store) sweepConsumers(ctx context.Context) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		next, err := texts(ctx, c.Conn(), nextConsumers, fmt.Sprintf("%08x", rand.Uint32()))
		if err == nil && len(next) < trimStep { // and from the beginning again
			var first []string
			first, err = texts(ctx, c.Conn(), nextConsumers, "")
			next = append(next, first...)
		}
		if err != nil || len(next) == 0 {
			return err
		}
		_, err = c.Exec(ctx, dropConsumers, next)
		return err
	})
}

// trimStep bounds the rows that one transaction of a trim drops.
const trimStep = 1000

// steps runs transactions that drop rows, until one drops fewer than trimStep.
func (s *Store) steps(ctx context.Context, step func(ctx context.Context, c *pgx.Conn) (int, error)) error {
	for n := trimStep; n == trimStep; {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Whether a commit in doubt was done, the next step sees.
		err := s.once(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
			n, err = step(ctx, c)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	lockFloor  = `SELECT floor FROM lanes WHERE replica = $1::text AND incarnation = $2::int8 FOR UPDATE`
	oldEntries = `SELECT seq, written_at FROM journal
WHERE replica = $1::text AND incarnation = $2::int8 AND seq > $3::int8 ORDER BY seq LIMIT 1000`
	deleteEntries = `DELETE FROM journal WHERE replica = $1::text AND incarnation = $2::int8 AND seq > $3::int8 AND seq <= $4::int8`
	putFloor      = `UPDATE lanes SET floor = $3::int8 WHERE replica = $1::text AND incarnation = $2::int8`
)

// trimLane drops a step of a lane's oldest entries. Meanwhile the lane waits.
func trimLane(ctx context.Context, c *pgx.Conn, l *laneRow, before time.Time) (int, error) {
	var floor int64
	replica, incarnation := l.id.Replica, int64(l.id.Incarnation)
	switch err := c.QueryRow(ctx, lockFloor, replica, incarnation).Scan(&floor); {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, nil // another replica's trim dropped it
	case err != nil:
		return 0, err
	}
	rows, err := c.Query(ctx, oldEntries, replica, incarnation, floor)
	if err != nil {
		return 0, err
	}
	to, done := floor, false
	var seq, at int64
	_, err = pgx.ForEachRow(rows, []any{&seq, &at}, func() error {
		if done = done || at >= before.UnixNano(); !done {
			to = seq
		}
		return nil
	})
	if err != nil || to == floor {
		return 0, err
	}
	if _, err := c.Exec(ctx, deleteEntries, replica, incarnation, floor, to); err != nil {
		return 0, err
	}
	_, err = c.Exec(ctx, putFloor, replica, incarnation, to)
	return int(to - floor), err
}

const (
	oldTombstones = `SELECT claim_key FROM ended_claims
WHERE slot = $1::text AND ended_at < $2::int8 ORDER BY ended_at, claim_key LIMIT 1000`
	hostsOfClaims = `SELECT DISTINCT host_uuid FROM ended_claims WHERE claim_key = ANY($1::text[]) AND host_uuid <> '' ORDER BY host_uuid`
	// dropTombstones spares a claim that came back and ended again.
	dropTombstones = `DELETE FROM ended_claims WHERE claim_key = ANY($1::text[]) AND ended_at < $2::int8 RETURNING consumer_uuid`
	dropConsumers  = `DELETE FROM consumers WHERE consumer_uuid = ANY($1::text[])
AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.consumer_uuid = consumers.consumer_uuid)
AND NOT EXISTS (SELECT 1 FROM ended_claims WHERE ended_claims.consumer_uuid = consumers.consumer_uuid)`
)

// trimTombstones drops a step of a slot's ended claims, and the consumers that have no other claims. It locks their
// hosts as lanes do, so that no claim comes back meanwhile. If a consumer's row is dropped while a claim is made, the
// row is inserted again.
func trimTombstones(ctx context.Context, c *pgx.Conn, slot string, before time.Time) (int, error) {
	old, err := texts(ctx, c, oldTombstones, slot, before.UnixNano())
	if err != nil || len(old) == 0 {
		return 0, err
	}
	hosts, err := texts(ctx, c, hostsOfClaims, old)
	if err != nil {
		return 0, err
	}
	if _, err := c.Exec(ctx, lockHosts, hosts); err != nil {
		return 0, err
	}
	consumers, err := texts(ctx, c, dropTombstones, old, before.UnixNano())
	if err != nil {
		return 0, err
	}
	slices.Sort(consumers)
	_, err = c.Exec(ctx, dropConsumers, slices.Compact(consumers))
	return len(old), err
}
