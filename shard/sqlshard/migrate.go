package sqlshard

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema. Steps only add, so that replicas of the previous release keep running during a
// step. There is no way back: a program refuses a schema that it does not know.
type migration struct {
	version    int
	name       string
	statements []string
	// sum detects a step that was changed after its release.
	sum string
}

// migrations reads the embedded steps: NNNN_name.sql, numbered from 1 without gaps.
func migrations() ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []migration
	for i, file := range names {
		text, err := migrationFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s is the %d. one", file, i+1)
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{version: version, name: name, statements: statements(string(text)), sum: hex.EncodeToString(sum[:8])})
	}
	return all, nil
}

// statements splits a file at the semicolons that end a line, and drops comments.
func statements(text string) []string {
	var all []string
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		b.WriteString(line)
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			all = append(all, strings.TrimSuffix(strings.TrimSpace(b.String()), ";"))
			b.Reset()
		}
	}
	return all
}

// Applied is a step that a database has taken.
type Applied struct {
	Version int
	Name    string
	At      time.Time
}

// Status is the state of a database's schema.
type Status struct {
	// Server is the version text of the server.
	Server string
	// Applied are the steps that it has taken; Pending are the names of those that it lacks.
	Applied []Applied
	Pending []string
}

// The table of the steps that a database has taken. Version 0 is not a step: a migrating process updates this row in
// a transaction that it rolls back, so that only one migrates at a time. CockroachDB loses a lock by FOR UPDATE when
// a range is split, which creating a table does.
const createVersions = `CREATE TABLE IF NOT EXISTS schema_version (
  version int8 PRIMARY KEY,
  name text NOT NULL,
  sum text NOT NULL,
  applied_at timestamptz NOT NULL
)`

const (
	addVersion   = `INSERT INTO schema_version (version, name, sum, applied_at) VALUES ($1, $2, $3, now()) ON CONFLICT (version) DO NOTHING`
	lockVersions = `UPDATE schema_version SET applied_at = now() WHERE version = 0`
	readVersions = `SELECT version, name, sum, applied_at FROM schema_version WHERE version > 0 ORDER BY version`
)

// Migrate brings a database's schema up to date, and gives the names of the steps taken. Several processes may call
// it at once: one migrates, the others wait.
func Migrate(ctx context.Context, opts Options) (done []string, err error) {
	s, err := connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	done, err = s.migrate(ctx)
	return done, errors.Join(err, s.Close())
}

// ReadStatus reads the state of a database's schema, and changes nothing.
func ReadStatus(ctx context.Context, opts Options) (st Status, err error) {
	err = look(ctx, opts, func(s *Store, c *pgx.Conn) (err error) {
		st.Server = s.version
		st.Applied, st.Pending, err = s.compare(ctx, c)
		return err
	})
	return st, err
}

// Check gives the error that Open would give, about the connection, the schema, the role's rights and the cell. It
// changes nothing.
func Check(ctx context.Context, opts Options) error {
	return look(ctx, opts, func(s *Store, c *pgx.Conn) error {
		err := s.checkSchema(ctx, c)
		if err == nil {
			err = s.checkRights(ctx, c)
		}
		if err == nil {
			err = s.checkCell(ctx, c)
		}
		if err != nil {
			return fmt.Errorf("the shard %s: %w", Redacted(opts.URL), err)
		}
		return nil
	})
}

// look connects without making or checking anything, for one call of read.
func look(ctx context.Context, opts Options, read func(s *Store, c *pgx.Conn) error) error {
	opts.Create = false
	s, err := connect(ctx, opts)
	if err != nil {
		return err
	}
	c, err := s.pool.Acquire(ctx)
	if err == nil {
		err = read(s, c.Conn())
		c.Release()
	}
	return errors.Join(err, s.Close())
}

// compare gives the steps that a database has and lacks. It fails if they are not of this program's history.
func (s *Store) compare(ctx context.Context, c *pgx.Conn) (have []Applied, lack []string, err error) {
	all, err := migrations()
	if err != nil {
		return nil, nil, final{err}
	}
	sums := map[int]string{}
	rows, err := c.Query(ctx, readVersions)
	if err == nil {
		var a Applied
		var sum string
		_, err = pgx.ForEachRow(rows, []any{&a.Version, &a.Name, &sum, &a.At}, func() error {
			have = append(have, a)
			sums[a.Version] = sum
			return nil
		})
	}
	if err != nil && state(err) != undefinedTable {
		return nil, nil, err
	}
	for i, a := range have {
		if a.Version != i+1 {
			return nil, nil, foreign("its schema has step %d where %d belongs", a.Version, i+1)
		}
		if i >= len(all) {
			return nil, nil, foreign("its schema is of step %d (%s), and this program knows %d: it was made by a newer cellgate, which must be used", have[len(have)-1].Version, have[len(have)-1].Name, len(all))
		}
		if sums[a.Version] != all[i].sum {
			return nil, nil, foreign("its schema step %d (%s) is another than this program's", a.Version, a.Name)
		}
	}
	for _, m := range all[len(have):] {
		lack = append(lack, fmt.Sprintf("%04d_%s", m.version, m.name))
	}
	return have, lack, nil
}

// foreign is the error for a schema that is not of this program's history; a retry does not help.
func foreign(format string, args ...any) error { return final{fmt.Errorf(format, args...)} }

// checkSchema fails if the schema is not exactly this program's.
func (s *Store) checkSchema(ctx context.Context, c *pgx.Conn) error {
	have, lack, err := s.compare(ctx, c)
	if err != nil {
		return err
	}
	if len(lack) > 0 {
		return foreign("its schema is of step %d and lacks %s: run cellgate migrate up", len(have), strings.Join(lack, ", "))
	}
	return nil
}

// migrate takes the missing steps, while it holds the migration lock. A step that loses a race, or its connection, is
// taken again.
func (s *Store) migrate(ctx context.Context) (done []string, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.versionTable(ctx); err != nil {
		return nil, err
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		took, err := s.migrateOnce(ctx)
		done = append(done, took...)
		return err
	})
	return done, err
}

func (s *Store) migrateOnce(ctx context.Context) (done []string, err error) {
	err = s.outsidePool(ctx, func(guard *pgx.Conn) error {
		if _, err := guard.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		inTime := s.logIfSlow("another process, which migrates")
		_, err := guard.Exec(ctx, lockVersions)
		if inTime(); err != nil {
			return fmt.Errorf("waiting for another process, which migrates: %w", err)
		}
		return s.outsidePool(ctx, func(worker *pgx.Conn) (err error) {
			done, err = s.takeSteps(ctx, worker)
			return err
		})
	})
	return done, err
}

// takeSteps takes the steps that a database lacks.
func (s *Store) takeSteps(ctx context.Context, c *pgx.Conn) (done []string, err error) {
	all, err := migrations()
	if err != nil {
		return nil, final{err}
	}
	have, lack, err := s.compare(ctx, c)
	if err != nil {
		return nil, err
	}
	for i, m := range all[len(have):] {
		if err := s.step(ctx, c, m); err != nil {
			return done, fmt.Errorf("schema step %s: %w", lack[i], err)
		}
		done = append(done, lack[i])
	}
	return done, nil
}

// slowStep is how long a migration waits before it logs that.
const slowStep = 2 * time.Second

// logIfSlow logs what is waited for, unless inTime is called within slowStep.
func (s *Store) logIfSlow(what string) (inTime func() bool) {
	return time.AfterFunc(slowStep, func() {
		s.opts.Log.Warn("the migration of the schema waits; sessions that hold locks are in pg_stat_activity", "for", what, "since", slowStep)
	}).Stop
}

// outsidePool gives use a connection that is not from the pool: it may take as long as it needs.
func (s *Store) outsidePool(ctx context.Context, use func(c *pgx.Conn) error) error {
	c, err := connectOnce(ctx, s.opts, s.direct)
	if err != nil {
		return err
	}
	err = use(c)
	ctx, cancel := context.WithTimeout(context.Background(), defaultConnectTimeout)
	defer cancel()
	return errors.Join(err, c.Close(ctx))
}

// versionTable makes the table of steps, with the row to lock. On PostgreSQL concurrent creators may make each other
// fail; then the table exists.
func (s *Store) versionTable(ctx context.Context) error {
	return s.retry(ctx, func(ctx context.Context) error {
		// Not from the pool: the migrating process locks the row for as long as it takes.
		return s.outsidePool(ctx, func(c *pgx.Conn) error {
			defer s.logIfSlow("another process, which migrates")()
			if _, err := c.Exec(ctx, createVersions); err != nil {
				if code := state(err); code == duplicateObject || code == duplicateTable {
					return restart("another process makes the table of schema versions")
				}
				return err
			}
			_, err := c.Exec(ctx, addVersion, 0, "lock", "")
			return err
		})
	})
}

// step takes one step and records it, in one transaction if the server allows it. Otherwise it runs statement by
// statement, and each may have been done before.
func (s *Store) step(ctx context.Context, c *pgx.Conn, m migration) (err error) {
	if s.server.ddlInTransaction() {
		if _, err := c.Exec(ctx, s.server.begin(readCommitted)); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, s.rollback(c)) }()
	for _, sql := range m.statements {
		sql = strings.ReplaceAll(sql, "{{key}}", s.server.keyType())
		inTime := s.logIfSlow(sql)
		_, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		if inTime(); err != nil {
			return fmt.Errorf("%w, in: %s", err, sql)
		}
	}
	if _, err := c.Exec(ctx, addVersion, m.version, m.name, m.sum); err != nil {
		return err
	}
	if s.server.ddlInTransaction() {
		_, err = c.Exec(ctx, "COMMIT")
	}
	return err
}
