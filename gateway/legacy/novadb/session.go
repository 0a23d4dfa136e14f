package novadb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"
)

// session is one connection, and most often one read-only transaction on it. It is
// for one goroutine. After an error the connection is not used again.
type session struct {
	*database
	conn   *sql.Conn
	begun  bool
	broken bool
}

// openSession takes a connection of the pool.
func (d *database) openSession(ctx context.Context) (*session, error) {
	ctx, cancel := d.soon(ctx)
	defer cancel()
	c, err := d.Conn(ctx)
	if err != nil {
		return nil, d.fail(ctx, err)
	}
	return &session{database: d, conn: c}, nil
}

// soon bounds one step by QueryTimeout.
func (d *database) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d.conf.QueryTimeout)
}

// transaction runs do in a transaction that sees one moment; at is the server's time just
// before it.
func (d *database) transaction(ctx context.Context, do func(s *session, at time.Time) error) error {
	s, at, err := d.alive(ctx)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.exec(ctx, d.begin()); err != nil {
		return err
	}
	s.begun = true
	return do(s, at)
}

// alive takes a connection that answers, and reads the server's time. The pool's connections
// may be stale after a restart of the server: alive closes those and takes the next one.
func (d *database) alive(ctx context.Context) (*session, time.Time, error) {
	for stale := 0; ; stale++ {
		s, err := d.openSession(ctx)
		if err != nil {
			return nil, time.Time{}, err
		}
		at, err := s.time(ctx)
		if err == nil {
			return s, at, nil
		}
		s.close(ctx)
		if TroubleOf(err) != Unreachable || stale == d.conf.Connections {
			return nil, time.Time{}, err
		}
	}
}

// close returns the connection to the pool, or ends it if it cannot be used again.
func (s *session) close(ctx context.Context) {
	if s.begun && !s.broken {
		_ = s.exec(ctx, "ROLLBACK") // an error marks the session broken; nothing was written
	}
	if s.broken {
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // ends it
	}
	_ = s.conn.Close() // gives it back
}

// failed marks the connection as broken if err is not nil, and makes the error.
func (s *session) failed(ctx context.Context, err error) error {
	if err != nil {
		s.broken = true
	}
	return s.fail(ctx, err)
}

func (s *session) exec(ctx context.Context, statement string) error {
	ctx, cancel := s.soon(ctx)
	defer cancel()
	_, err := s.conn.ExecContext(ctx, statement)
	return s.failed(ctx, err)
}

// time gives the server's time.
func (s *session) time(ctx context.Context) (at time.Time, err error) {
	_, err = s.each(ctx, s.now(), nil, func(r *sql.Rows) error { return r.Scan(&at) })
	return at.UTC(), err
}

// each runs a query within QueryTimeout, and calls scan for every row.
func (s *session) each(ctx context.Context, text string, args []any, scan func(*sql.Rows) error) (n int, err error) {
	ctx, cancel := s.soon(ctx)
	defer cancel()
	rows, err := s.conn.QueryContext(ctx, s.sql(text), args...)
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	for rows.Next() {
		n++
		if err := scan(rows); err != nil {
			_ = rows.Close() // the error that counts is the other one
			return n, s.failed(ctx, err)
		}
	}
	return n, s.failed(ctx, rows.Err())
}

// column gives a column of a table by its name, or the expression instead if the database
// lacks it, as databases of older releases of Nova do. A column that exists is not looked up
// again.
func (s *session) column(ctx context.Context, table, column, instead string) (string, error) {
	of := table + "." + column
	if _, known := s.known.Load(of); known {
		return column, nil
	}
	has := 0
	_, err := s.each(ctx, "SELECT count(*) FROM information_schema.columns WHERE table_schema = "+s.schema()+" AND table_name = ? AND column_name = ?",
		[]any{table, column}, func(rows *sql.Rows) error { return rows.Scan(&has) })
	if err != nil || has == 0 {
		return instead, err
	}
	s.known.Store(of, true)
	return column, nil
}

// list is a query for the rows of a table by id, a page at a time. Its text ends in "… AND id
// > ? ORDER BY id LIMIT ?".
type list struct {
	table string
	text  string
	args  []any
	page  int
	// max bounds the rows in total.
	max int
}

// pages runs the query until a page is not full. scan gives the row's id.
func (s *session) pages(ctx context.Context, l list, scan func(*sql.Rows) (id int64, err error)) (total int, err error) {
	for after := int64(0); ; {
		n, err := s.each(ctx, l.text, append(l.args[:len(l.args):len(l.args)], after, l.page), func(r *sql.Rows) error {
			id, err := scan(r)
			after = id
			return err
		})
		if err != nil {
			return total, err
		}
		if total += n; total > l.max {
			return total, s.unavailable(TooManyRows, nil, fmt.Sprintf("has more than %d rows in %s", l.max, l.table))
		}
		if n < l.page {
			return total, nil
		}
	}
}

// few is how many values an IN list has, so that one statement serves lists of every length.
const few = 1000

// inFew runs a query with an IN list for all values, few at a time; the last value fills up a
// shorter list.
func inFew[T any](ctx context.Context, s *session, text string, values []T, scan func(*sql.Rows) error) (total int, err error) {
	for len(values) > 0 {
		some := values[:min(few, len(values))]
		values = values[len(some):]
		args := make([]any, few)
		for i := range args {
			args[i] = some[min(i, len(some)-1)]
		}
		n, err := s.each(ctx, text, args, scan)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// listOfFew has the placeholders of such a list.
var listOfFew = strings.TrimSuffix(strings.Repeat("?,", few), ",")
