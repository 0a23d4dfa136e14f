package sqlshard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

const (
	putDecisions = `INSERT INTO decisions (decision_key, decided_at, terms, body_bytes, body)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]), unnest($4::int8[]), unnest($5::bytea[])
ON CONFLICT (decision_key) DO UPDATE SET decided_at = excluded.decided_at, terms = excluded.terms, body_bytes = excluded.body_bytes, body = excluded.body`
	putNames = `INSERT INTO decision_names (name, decision_key)
SELECT unnest($1::text[]), unnest($2::text[]) ON CONFLICT (name, decision_key) DO NOTHING`
	deleteNames     = `DELETE FROM decision_names WHERE (name, decision_key) IN (SELECT unnest($1::text[]), unnest($2::text[]))`
	deleteDecisions = `DELETE FROM decisions WHERE decision_key = ANY($1::text[])`

	decisionColumns = `decision_key, decided_at, terms`
	readDecisions   = `SELECT ` + decisionColumns + ` FROM decisions WHERE decision_key = ANY($1::text[]) ORDER BY decision_key`
	lockDecisions   = readDecisions + ` FOR UPDATE`
	countDecisions  = `SELECT count(*), coalesce(sum(body_bytes), 0)::int8 FROM decisions`
	oldDecisions    = `SELECT ` + decisionColumns + `, body_bytes FROM decisions
WHERE decision_key > $1::text AND decision_key < $2::text ORDER BY decision_key LIMIT $3::int8`
)

// named is what decision_names has of a term. Different terms may share one: who reads checks.
func named(term string) string {
	sum := sha256.Sum256([]byte(term))
	return hex.EncodeToString(sum[:8])
}

// amount is a number of decisions and the bytes of their bodies as they are stored.
type amount struct{ n, bytes int64 }

// decisionCount is how many decisions there are, or some more: what was counted last
// and what was put from here since. To count them reads them all.
type decisionCount struct {
	mu sync.Mutex
	// put is what was ever put from here; counted is what there was when it was then.
	put, then, counted amount
	known              bool
}

func (c *decisionCount) add(a amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put.n += a.n
	c.put.bytes += a.bytes
}

// begin is before a count, whose result goes to set.
func (c *decisionCount) begin() (then amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.put
}

func (c *decisionCount) set(then, counted amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.then, c.counted, c.known = then, counted, true
}

// forget makes the count unknown.
func (c *decisionCount) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = false
}

// is gives the count; false when none was made yet.
func (c *decisionCount) is() (amount, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return amount{c.counted.n + c.put.n - c.then.n, c.counted.bytes + c.put.bytes - c.then.bytes}, c.known
}

// PutDecisions writes all of them in one transaction. One that another process writes
// at the same time is replaced by either.
func (s *Store) PutDecisions(ctx context.Context, ds []shard.Decision, keep int) error {
	if err := shard.CheckDecisions(ds); err != nil {
		return err
	}
	// Of doubles the last one counts.
	last := make(map[string]*shard.Decision, len(ds))
	for i := range ds {
		last[ds[i].ID] = &ds[i]
	}
	rows := make([]*shard.Decision, 0, len(last))
	for _, d := range last {
		rows = append(rows, d)
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	slices.SortFunc(rows, func(a, b *shard.Decision) int { return cmp.Compare(keyOf(a.ID), keyOf(b.ID)) })
	keys := column(rows, func(d *shard.Decision) string { return keyOf(d.ID) })
	bodies := column(rows, func(d *shard.Decision) []byte { return rowcodec.Pack(d.Body) })
	var added amount
	for _, b := range bodies {
		added.bytes += int64(len(b))
	}
	runs := 0
	err := s.once(ctx, func(ctx context.Context, c *pgx.Conn) error {
		runs++
		old, err := decisionsOf(ctx, c, lockDecisions, keys)
		if err != nil {
			return err
		}
		added.n = int64(len(rows) - len(old))
		if err := unname(ctx, c, old); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, putDecisions, keys,
			column(rows, func(d *shard.Decision) int64 { return rowcodec.Nanos(d.At) }),
			column(rows, func(d *shard.Decision) string { return listText(d.Terms) }),
			column(bodies, func(b []byte) int64 { return int64(len(b)) }),
			bodies); err != nil {
			return err
		}
		return eachName(ctx, c, putNames, rows)
	})
	if err != nil {
		s.decisions.forget() // it may have been done
		return err
	}
	if runs > 1 {
		s.decisions.forget() // what an earlier run wrote, this one found there
	} else {
		s.decisions.add(added)
	}
	return s.makeRoom(ctx, keep)
}

// makeRoom drops the oldest decisions when there are too many: of what is known, and
// then of what is counted, which is less when others dropped some.
func (s *Store) makeRoom(ctx context.Context, keep int) error {
	tooMany := func(there amount) bool {
		most := s.opts.MaxDecisionBytes
		return shard.TooMany(there.n, int64(keep)) || most > 0 && shard.TooMany(there.bytes, most)
	}
	there, known := s.decisions.is()
	if known && !tooMany(there) {
		return nil
	}
	then := s.decisions.begin()
	if err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, countDecisions).Scan(&there.n, &there.bytes)
	}); err != nil {
		return err
	}
	s.decisions.set(then, there)
	if !tooMany(there) {
		return nil
	}
	return s.TrimDecisions(ctx, time.Time{}, keep)
}

// once runs a transaction that may be run again after it was done.
func (s *Store) once(ctx context.Context, do func(ctx context.Context, c *pgx.Conn) error) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, s.server.begin(s.opts.Isolation))
		if err == nil {
			err = do(ctx, c.Conn())
		}
		if err == nil {
			_, err = c.Exec(ctx, "COMMIT")
		}
		if rerr := s.rollback(c.Conn()); err == nil {
			err = rerr
		}
		return err
	})
}

// eachName runs a statement with the names of decisions and their keys.
func eachName(ctx context.Context, c *pgx.Conn, sql string, ds []*shard.Decision) error {
	type row struct{ name, key string }
	var rows []row
	for _, d := range ds {
		for _, term := range d.Terms {
			rows = append(rows, row{named(term), keyOf(d.ID)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key)) })
	rows = slices.Compact(rows)
	_, err := c.Exec(ctx, sql, column(rows, func(r row) string { return r.name }), column(rows, func(r row) string { return r.key }))
	return err
}

func unname(ctx context.Context, c *pgx.Conn, ds []*shard.Decision) error {
	return eachName(ctx, c, deleteNames, ds)
}

// decisionsOf reads decisions without their bodies.
func decisionsOf(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]*shard.Decision, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return scanDecisions(rows)
}

func scanDecisions(rows pgx.Rows) ([]*shard.Decision, error) {
	var list []*shard.Decision
	err := scanEachDecision(rows, nil, func(d *shard.Decision) { list = append(list, d) })
	return list, err
}

func scanOld(rows pgx.Rows, to *[]oldDecision) error {
	var bytes int64
	return scanEachDecision(rows, []any{&bytes}, func(d *shard.Decision) { *to = append(*to, oldDecision{d, bytes}) })
}

// scanEachDecision reads rows of decisionColumns and of more.
func scanEachDecision(rows pgx.Rows, more []any, take func(*shard.Decision)) error {
	var d shard.Decision
	var key, terms string
	var at int64
	_, err := pgx.ForEachRow(rows, append([]any{&key, &at, &terms}, more...), func() error {
		one := d
		one.ID, one.At = idOf(key), rowcodec.Instant(at)
		var err error
		if one.Terms, err = textList(terms); err == nil {
			take(&one)
		}
		return err
	})
	return err
}

// TrimDecisions drops the oldest ones in steps.
func (s *Store) TrimDecisions(ctx context.Context, before time.Time, keep int) error {
	for n := trimStep; n == trimStep; {
		if err := ctx.Err(); err != nil {
			return err
		}
		then := s.decisions.begin()
		var left amount
		if err := s.once(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
			n, left, err = s.trimDecisions(ctx, c, before, keep)
			return err
		}); err != nil {
			return err
		}
		s.decisions.set(then, left)
	}
	return nil
}

// oldDecision is a decision and the bytes of its body as they are stored.
type oldDecision struct {
	*shard.Decision
	bytes int64
}

// trimDecisions drops at most trimStep decisions: those over, by number or by bytes,
// and those of before a time. It gives how many, and what is left.
func (s *Store) trimDecisions(ctx context.Context, c *pgx.Conn, before time.Time, keep int) (n int, left amount, err error) {
	if err := c.QueryRow(ctx, countDecisions).Scan(&left.n, &left.bytes); err != nil {
		return 0, left, err
	}
	tooMany := func() bool {
		most := s.opts.MaxDecisionBytes
		return left.n > int64(keep) || most > 0 && left.bytes > most
	}
	if before.IsZero() && !tooMany() {
		return 0, left, nil
	}
	var oldest []oldDecision
	b := &pgx.Batch{}
	for slot := range slots {
		b.Queue(oldDecisions, slotName(slot), slotName(slot+1), trimStep)
	}
	err = eachAnswer(c.SendBatch(ctx, b), slots, func(rows pgx.Rows) error {
		return scanOld(rows, &oldest)
	})
	if err != nil {
		return 0, left, err
	}
	slices.SortFunc(oldest, func(a, b oldDecision) int { return cmp.Compare(a.ID, b.ID) })
	for n < min(trimStep, len(oldest)) && (tooMany() || oldest[n].At.Before(before)) {
		left.n--
		left.bytes -= oldest[n].bytes
		n++
	}
	if n == 0 {
		return 0, left, nil
	}
	gone := column(oldest[:n], func(d oldDecision) *shard.Decision { return d.Decision })
	keys := column(gone, func(d *shard.Decision) string { return keyOf(d.ID) })
	slices.Sort(keys)
	if err := unname(ctx, c, gone); err != nil {
		return 0, left, err
	}
	_, err = c.Exec(ctx, deleteDecisions, keys)
	return n, left, err
}
