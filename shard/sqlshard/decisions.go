package sqlshard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
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

	decisionColumns = `decision_key, decided_at, terms, body_bytes`
	readDecisions   = `SELECT ` + decisionColumns + ` FROM decisions WHERE decision_key = ANY($1::text[]) ORDER BY decision_key`
	lockDecisions   = readDecisions + ` FOR UPDATE`
	countDecisions  = `SELECT count(*), coalesce(sum(body_bytes), 0)::int8 FROM decisions`
	oldDecisions    = `SELECT ` + decisionColumns + ` FROM decisions
WHERE decision_key > $1::text AND decision_key < $2::text ORDER BY decision_key LIMIT $3::int8`
)

// named is the name of a term in decision_names. Different terms may have the same name, so readers check the terms.
func named(term string) string {
	sum := sha256.Sum256([]byte(term))
	return hex.EncodeToString(sum[:8])
}

// PutDecisions writes all decisions in one transaction. Of decisions with the same ID that processes write at the
// same time, one remains.
func (s *Store) PutDecisions(ctx context.Context, ds []shard.Decision) error {
	if err := shard.CheckDecisions(ds); err != nil {
		return err
	}
	// Of several with the same ID the last one counts.
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
	return s.once(ctx, func(ctx context.Context, c *pgx.Conn) error {
		old, err := decisionsOf(ctx, c, lockDecisions, keys)
		if err != nil {
			return err
		}
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
}

// once runs a transaction that may run again after its commit.
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

func unname(ctx context.Context, c *pgx.Conn, ds []storedDecision) error {
	return eachName(ctx, c, deleteNames, column(ds, func(d storedDecision) *shard.Decision { return d.Decision }))
}

// storedDecision is a decision without its body, and the size of the stored body.
type storedDecision struct {
	*shard.Decision
	bytes int64
}

func decisionsOf(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]storedDecision, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return scanDecisions(rows)
}

// scanDecisions reads rows of decisionColumns.
func scanDecisions(rows pgx.Rows) (list []storedDecision, err error) {
	var key, terms string
	var at, bytes int64
	_, err = pgx.ForEachRow(rows, []any{&key, &at, &terms, &bytes}, func() error {
		d := &shard.Decision{ID: idOf(key), At: rowcodec.Instant(at)}
		var err error
		d.Terms, err = textList(terms)
		list = append(list, storedDecision{d, bytes})
		return err
	})
	return list, err
}

// TrimDecisions drops the oldest decisions in steps.
func (s *Store) TrimDecisions(ctx context.Context, before time.Time, keep int) error {
	return s.steps(ctx, func(ctx context.Context, c *pgx.Conn) (int, error) { return s.trimDecisions(ctx, c, before, keep) })
}

// trimDecisions drops at most trimStep decisions: those beyond the bounds on number and bytes, and those older than
// before. It gives their number.
func (s *Store) trimDecisions(ctx context.Context, c *pgx.Conn, before time.Time, keep int) (n int, err error) {
	var left, bytes int64
	if err := c.QueryRow(ctx, countDecisions).Scan(&left, &bytes); err != nil {
		return 0, err
	}
	tooMany := func() bool {
		most := s.opts.MaxDecisionBytes
		return left > int64(keep) || most > 0 && bytes > most
	}
	var oldest []storedDecision
	b := &pgx.Batch{}
	for slot := range slots {
		b.Queue(oldDecisions, slotName(slot), slotName(slot+1), trimStep)
	}
	err = eachAnswer(c.SendBatch(ctx, b), slots, func(rows pgx.Rows) error {
		list, err := scanDecisions(rows)
		oldest = append(oldest, list...)
		return err
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(oldest, func(a, b storedDecision) int { return cmp.Compare(a.ID, b.ID) })
	for n < min(trimStep, len(oldest)) && (tooMany() || oldest[n].At.Before(before)) {
		left--
		bytes -= oldest[n].bytes
		n++
	}
	if n == 0 {
		return 0, nil
	}
	keys := column(oldest[:n], func(d storedDecision) string { return keyOf(d.ID) })
	slices.Sort(keys)
	if err := unname(ctx, c, oldest[:n]); err != nil {
		return 0, err
	}
	_, err = c.Exec(ctx, deleteDecisions, keys)
	return n, err
}
