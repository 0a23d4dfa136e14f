package sqlshard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// swapLane claims as Jay Pipes proposed in 2016. It reads without locks. Its transaction writes each host's next
// generation only if the generation is still the one that it read. Otherwise it is rolled back, and everything is
// done again. It reads and writes the same rows as the product, and decides by the same rules. It is only for the
// benchmark: it makes only new claims, and handles neither lost commits nor fenced lanes.
type swapLane struct{ *lane }

// OpenSwapLane is OpenLane for the benchmark of cellgate bench store only. The lane claims by compare-and-swap on the
// generations of hosts. It runs on PostgreSQL. Its conflicts are in Counts as Races.
func (s *Store) OpenSwapLane(ctx context.Context, replica string) (shard.Lane, error) {
	if s.grammar != postgres {
		return nil, fmt.Errorf("claims by compare and swap run on PostgreSQL, and the server is %v", s.grammar)
	}
	l, err := s.OpenLane(ctx, replica)
	if err != nil {
		return nil, err
	}
	return &swapLane{l.(*lane)}, nil
}

const swapHostUsage = `UPDATE host_usages SET generation = $3::int8, pending = $4::int8, confirmed = $5::int8, used = $6::text
WHERE host_uuid = $1::text AND generation = $2::int8`

func (l *swapLane) Apply(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
	n := l.store.namesOf(ops)
	for {
		applied, done, err := l.swap(ctx, ops, n)
		if err == nil && done {
			return applied, nil
		}
		if err != nil && meaning(err) != race || ctx.Err() != nil {
			return shard.Applied{}, err
		}
		l.store.count.races.Add(1)
	}
}

// swap tries once; done is false if a host changed after it was read.
func (l *swapLane) swap(ctx context.Context, ops []shard.Op, n *names) (applied shard.Applied, done bool, err error) {
	s := l.store
	c, err := s.acquire(ctx)
	if err != nil {
		return applied, false, err
	}
	defer c.Release()
	defer func() {
		if rerr := s.rollback(c.Conn()); err == nil {
			err = rerr
		}
	}()
	p, err := l.readUnlocked(ctx, c.Conn(), n)
	if err != nil {
		return applied, false, err
	}
	now, _ := s.clock.tick(p.server)
	d := shard.Decide(now, p.view(n), ops)
	applied.Outcomes = d.Outcomes
	if len(d.Changes) == 0 {
		return applied, true, nil
	}
	applied.Entry = shard.Entry{Lane: l.id, Seq: l.entries.last + 1, At: now, Changes: d.Changes}
	w := &writes{store: s, names: n, before: p}
	if err := w.entry(applied.Entry); err != nil {
		return applied, false, err
	}
	rest := &writes{store: s, names: n, before: p}
	for _, q := range w.batch.QueuedQueries {
		switch q.SQL {
		case putHostUsages:
		case insertHostUsages:
			return applied, false, fault.New(fault.Internal, "a host has no row to swap")
		default:
			rest.queue(q.SQL, q.Arguments...)
		}
	}
	if done, err := l.swapHosts(ctx, c.Conn(), p, d.Changes); err != nil || !done {
		return applied, false, err
	}
	if _, err := rest.commit(ctx, c.Conn()); err != nil {
		return applied, false, err
	}
	l.entries.add(applied.Entry.Seq)
	return applied, true, nil
}

// readUnlocked reads what the product reads, without locks.
func (l *swapLane) readUnlocked(ctx context.Context, c *pgx.Conn, n *names) (*picture, error) {
	p := newPicture(n)
	questions := l.questions(p, n)
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	for _, q := range questions {
		b.Queue(strings.TrimSuffix(q.sql, " FOR UPDATE"), q.args...)
	}
	if err := answers(c.SendBatch(ctx, b), questions); err != nil {
		return nil, err
	}
	return p, l.details(ctx, c, p, n)
}

// swapHosts begins the transaction with the hosts, in the order of their uuids. In any other order, two transactions
// on the same hosts could deadlock.
func (l *swapLane) swapHosts(ctx context.Context, c *pgx.Conn, p *picture, changes []shard.Change) (bool, error) {
	b := &pgx.Batch{}
	b.Queue(l.store.server.begin(l.store.opts.Isolation))
	changes = slices.DeleteFunc(slices.Clone(changes), func(ch shard.Change) bool { return ch.Usage == nil })
	slices.SortFunc(changes, func(a, b shard.Change) int { return cmp.Compare(a.Usage.HostUUID, b.Usage.HostUUID) })
	for _, ch := range changes {
		u := ch.Usage
		b.Queue(swapHostUsage, u.HostUUID, p.usages[u.HostUUID].Generation, u.Generation, int64(u.Pending), int64(u.Confirmed), usedText(u.Used))
	}
	r := c.SendBatch(ctx, b)
	same := true
	for i := range b.Len() {
		tag, err := r.Exec()
		if err != nil {
			_ = r.Close() // it returns the same error
			return false, err
		}
		same = same && (i == 0 || tag.RowsAffected() == 1)
	}
	return same, r.Close()
}
