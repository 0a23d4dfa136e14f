package sqlshard

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// lane is the lane of one incarnation of a replica.
type lane struct {
	store *Store
	id    shard.LaneID
	// turn is held by the running Apply, and guards the remaining fields.
	turn    chan struct{}
	entries written
	// doubt is the entry whose commit has an unknown outcome; 0 for none.
	doubt uint64
}

// settleTime is the age from which an entry counts as settled. CockroachDB makes readers of newer ones wait while it
// cleans up after their commits.
const settleTime = time.Second

// written is the last committed entry of a lane, and when it was committed.
type written struct {
	last   uint64
	lastAt time.Time
}

func (w *written) add(seq uint64) { w.last, w.lastAt = seq, time.Now() }

// settled is the last entry, which must be in the database unless an earlier state of it was restored; 0 for none to
// look for. On CockroachDB a lane that writes all the time does not look; Tail does.
func (l *lane) settled() uint64 {
	if l.store.server == postgres || time.Since(l.entries.lastAt) >= settleTime {
		return l.entries.last
	}
	return 0
}

// OpenLane starts a lane, and fences the earlier incarnations of its replica. Their running transactions end first;
// later ones are refused.
func (s *Store) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	if replica == "" {
		return nil, fault.Invalid("replica", "must not be empty")
	}
	id := shard.LaneID{Replica: replica}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	err := s.retry(ctx, func(ctx context.Context) error {
		c, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		incarnation, err := s.insertIncarnation(ctx, c.Conn(), replica)
		id.Incarnation = incarnation
		return errors.Join(err, s.rollback(c.Conn()))
	})
	if err != nil {
		return nil, s.typed(ctx, err)
	}
	s.own.Store(&id)
	return &lane{store: s, id: id, turn: make(chan struct{}, 1)}, nil
}

// insertIncarnation writes a lane's row, and fences those of lower incarnations. Of two processes that start at once,
// the second one to insert waits for the first, fails, and runs again: it then fences the first. If the outcome of the
// commit is unknown, an unused lane may remain.
func (s *Store) insertIncarnation(ctx context.Context, c *pgx.Conn, replica string) (uint64, error) {
	if _, err := c.Exec(ctx, s.server.begin(readCommitted)); err != nil {
		return 0, err
	}
	var incarnation int64
	if err := c.QueryRow(ctx, lastIncarnation, replica).Scan(&incarnation); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, err
	}
	var server time.Time
	if err := c.QueryRow(ctx, serverTime).Scan(&server); err != nil {
		return 0, err
	}
	incarnation++
	if _, err := c.Exec(ctx, insertLane, replica, incarnation, server.UnixNano()); err != nil {
		return 0, err
	}
	if _, err := c.Exec(ctx, fenceLanes, replica, incarnation); err != nil {
		return 0, err
	}
	_, err := c.Exec(ctx, "COMMIT")
	return uint64(incarnation), err
}

func (l *lane) ID() shard.LaneID { return l.id }

// Apply runs one transaction, as often as necessary.
func (l *lane) Apply(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
	s := l.store
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return shard.Applied{}, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return shard.Applied{}, err
	}
	if s.isClosed() {
		return shard.Applied{}, s.typed(ctx, fault.New(fault.CellUnavailable, "the shard of cell %s is closed", s.opts.Cell))
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := l.settle(ctx); err != nil {
		return shard.Applied{}, s.typed(ctx, err)
	}
	n := s.namesOf(ops)
	var applied shard.Applied
	err := l.retry(ctx, func(ctx context.Context) error {
		// An earlier try may have lost its commit, and found it not done.
		a, err := l.try(ctx, ops, n)
		applied = a
		return err
	})
	if err == nil {
		return applied, nil
	}
	if l.doubt != 0 {
		return shard.Applied{}, s.outcomeUnknown(err)
	}
	return shard.Applied{}, s.applyError(ctx, err)
}

// try runs the transaction once. If it is not known whether its commit was done, try looks it up. If that fails,
// l.doubt is set.
func (l *lane) try(ctx context.Context, ops []shard.Op, n *names) (shard.Applied, error) {
	applied, unknown, err := l.transact(ctx, ops, n)
	if !unknown {
		return applied, err
	}
	l.store.count.unknown.Add(1)
	l.doubt = applied.Entry.Seq
	if lerr := l.settle(ctx); lerr != nil {
		return shard.Applied{}, l.store.outcomeUnknown(errors.Join(err, lerr))
	}
	if l.entries.last == applied.Entry.Seq {
		return applied, nil
	}
	return shard.Applied{}, restart("a commit was lost with its connection, and not done")
}

// transact runs the transaction. unknown: the commit was sent, and its outcome is not known; applied is then the
// result if it was done.
func (l *lane) transact(ctx context.Context, ops []shard.Op, n *names) (applied shard.Applied, unknown bool, err error) {
	s := l.store
	c, err := s.acquire(ctx)
	if err != nil {
		return applied, false, err
	}
	defer c.Release()
	defer func() {
		// A failed rollback loses nothing: the pool discards the connection.
		_ = s.rollback(c.Conn())
	}()
	p, err := l.lockAndRead(ctx, c.Conn(), n)
	if err != nil {
		return applied, false, err
	}
	if err := s.unlocked(p, n); err != nil {
		return applied, false, err
	}
	now, reserve := s.clock.tick(p.server.Add(s.opts.skew()))
	d := shard.Decide(now, p.view(n), ops)
	if err := s.checkLocks(p, n, d.Changes); err != nil {
		return applied, false, err
	}
	applied.Outcomes = d.Outcomes
	if len(d.Changes) == 0 {
		_, err := c.Exec(ctx, "COMMIT")
		return applied, false, err
	}
	applied.Entry = shard.Entry{Lane: l.id, Seq: l.entries.last + 1, At: now, Changes: d.Changes}
	w := &writes{store: s, names: n, before: p}
	if err := w.entry(applied.Entry); err != nil {
		return shard.Applied{}, false, fault.Wrap(fault.Internal, err, "a batch cannot be written")
	}
	if reserve {
		w.queue(reserveTime, now.Add(reserveAhead).UnixNano())
	}
	if unknown, err = w.commit(ctx, c.Conn()); err != nil {
		if !unknown {
			applied = shard.Applied{}
		}
		return applied, unknown, err
	}
	l.entries.add(applied.Entry.Seq)
	if reserve {
		s.clock.covered(now.Add(reserveAhead))
	}
	l.done(applied.Entry)
	return applied, false, nil
}

// done caches what a transaction wrote.
func (l *lane) done(e shard.Entry) {
	for _, ch := range e.Changes {
		if ch.Host != nil {
			l.store.hosts.put(ch.Host.UUID, ch.Host.Generation, ch.Host)
		}
		if ch.Usage != nil {
			l.store.usages.put(ch.Usage.HostUUID, ch.Usage.Generation, ch.Usage)
		}
	}
	l.store.homes.note(e.Changes)
}

// settle looks up the outcome of the entry in doubt.
func (l *lane) settle(ctx context.Context) error {
	if l.doubt == 0 {
		return nil
	}
	s := l.store
	return l.retry(ctx, func(ctx context.Context) error {
		c, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		var fenced bool
		if err := c.QueryRow(ctx, touchLane, l.id.Replica, int64(l.id.Incarnation)).Scan(&fenced); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				return l.missing()
			}
			return err
		}
		var there bool
		if err := c.QueryRow(ctx, isEntryThere, l.id.Replica, int64(l.id.Incarnation), int64(l.doubt)).Scan(&there); err != nil {
			return err
		}
		s.count.resolved.Add(1)
		if there {
			l.entries.add(l.doubt)
		}
		l.doubt = 0
		return nil
	})
}
