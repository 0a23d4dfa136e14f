package legacytest

import (
	"context"
	"database/sql"
	_ "embed" // the definitions of Nova's tables
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib" // also the driver "pgx"

	"cellgate/internal/mariatest"
	"cellgate/internal/pgtest"
	"cellgate/internal/testlong"
)

//go:embed testdata/nova-cell-mysql.sql
var cellMySQL string

//go:embed testdata/nova-cell-postgresql.sql
var cellPostgres string

//go:embed testdata/nova-api-mysql.sql
var apiMySQL string

//go:embed testdata/nova-api-postgresql.sql
var apiPostgres string

//go:embed testdata/sample-data.sql
var sample string

// Server is a running database server.
type Server interface {
	Addr() string
	Freeze(t testing.TB)
	Thaw(t testing.TB)
	Kill(t testing.TB)
	Run(t testing.TB)
}

// Servers runs test on each kind of server; Kind.Shared starts the server. A kind that is not
// installed is skipped.
func Servers(t *testing.T, test func(t *testing.T, k Kind)) {
	t.Helper()
	for _, k := range []Kind{MariaDB, PostgreSQL} {
		t.Run(string(k), func(t *testing.T) { test(t, k) })
	}
}

// OneServer is Servers with MariaDB only, and with PostgreSQL too in make test-long. It is for
// tests of what follows from rows; novadb tests that both give the same rows.
func OneServer(t *testing.T, test func(t *testing.T, k Kind)) {
	t.Helper()
	t.Run(string(MariaDB), func(t *testing.T) { test(t, MariaDB) })
	t.Run(string(PostgreSQL), func(t *testing.T) {
		testlong.Only(t, "MariaDB")
		test(t, PostgreSQL)
	})
}

// Kind is the kind of a database server.
type Kind string

// The kinds.
const (
	MariaDB    Kind = "MariaDB"
	PostgreSQL Kind = "PostgreSQL"
)

// Shared gives the server that the tests of a package share, and starts it if necessary.
func (k Kind) Shared(t testing.TB) Server {
	t.Helper()
	if k == MariaDB {
		return mariatest.Start(t)
	}
	return pgtest.Start(t)
}

// New starts a server for one test.
func (k Kind) New(t testing.TB) Server {
	t.Helper()
	if k == MariaDB {
		return mariatest.New(t)
	}
	return pgtest.New(t, pgtest.Options{})
}

// Stop stops the shared servers and ends the process; it is for goleak.Cleanup.
func Stop(code int) { pgtest.Stop(mariatest.StopShared(code)) }

// Database is one of Nova's databases.
type Database struct {
	Kind Kind
	// URL logs in as superuser.
	URL string
	DB  *sql.DB
	// tables lists the tables; those that others reference come last.
	tables []string
}

var (
	cellTables = []string{"compute_nodes", "services", "instances"}
	apiTables  = []string{"aggregate_metadata", "aggregate_hosts", "aggregates", "host_mappings", "cell_mappings"}
)

// NewCell makes a cell database without rows.
func NewCell(t testing.TB, s Server) *Database {
	t.Helper()
	return newDatabase(t, s, cellMySQL, cellPostgres, cellTables)
}

// NewAPI makes an API database without rows.
func NewAPI(t testing.TB, s Server) *Database {
	t.Helper()
	return newDatabase(t, s, apiMySQL, apiPostgres, apiTables)
}

func newDatabase(t testing.TB, s Server, my, pg string, tables []string) *Database {
	t.Helper()
	var d *Database
	switch s := s.(type) {
	case *mariatest.Server:
		name := s.NewDatabase(t)
		d = &Database{Kind: MariaDB, URL: s.URL(name), DB: s.Open(t, name), tables: tables}
		d.Exec(t, my)
	case *pgtest.Server:
		d = &Database{Kind: PostgreSQL, URL: s.NewDatabase(t), tables: tables}
		var err error
		if d.DB, err = sql.Open("pgx", d.URL); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.DB.Close() }) // the database is dropped
		d.Exec(t, pg)
	default:
		t.Fatalf("no Nova on a %T", s)
	}
	return d
}

// Sample writes the 50 hosts of the sample.
func (d *Database) Sample(t testing.TB) {
	t.Helper()
	if d.Kind == MariaDB {
		d.Exec(t, sample)
		return
	}
	// The sample is MySQL's text: names in backticks, quotes behind backslashes, numbers for booleans.
	text := strings.ReplaceAll(sample, "`", `"`)
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(line, `\"`, `"`), `\n`, "\n"))
	}
	d.Exec(t, "ALTER TABLE services ALTER COLUMN disabled TYPE integer USING disabled::int, ALTER COLUMN forced_down TYPE integer USING forced_down::int;"+
		b.String()+
		"ALTER TABLE services ALTER COLUMN disabled TYPE boolean USING disabled <> 0, ALTER COLUMN forced_down TYPE boolean USING forced_down <> 0")
}

// Exec runs statements without arguments.
func (d *Database) Exec(t testing.TB, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if d.Kind == PostgreSQL {
		// Only the simple protocol accepts several statements.
		if err := d.simple(ctx, statements); err != nil {
			t.Fatalf("%.300s: %v", statements, err)
		}
		return
	}
	if _, err := d.DB.ExecContext(ctx, statements); err != nil {
		t.Fatalf("%.300s: %v", statements, err)
	}
}

// simple runs statements by PostgreSQL's simple protocol, all of them or none.
func (d *Database) simple(ctx context.Context, statements string) error {
	c, err := d.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // gives it back
	return c.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().PgConn().Exec(ctx, statements).ReadAll()
		return err
	})
}

// Row is a row: column by name. Nil is NULL.
type Row map[string]any

// Insert writes rows, which may have different columns, in one transaction.
func (d *Database) Insert(t testing.TB, table string, rows ...Row) {
	t.Helper()
	if err := d.insert(table, rows); err != nil {
		t.Fatalf("rows of %s: %v", table, err)
	}
}

func (d *Database) insert(table string, rows []Row) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tx, err := d.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // fails after a commit
	// Rows with the same columns are inserted together.
	for len(rows) > 0 {
		columns := slices.Sorted(maps.Keys(rows[0]))
		n := 1
		for n < len(rows) && n < 50 && slices.Equal(slices.Sorted(maps.Keys(rows[n])), columns) {
			n++
		}
		var args []any
		var values []string
		for _, r := range rows[:n] {
			var marks []string
			for _, c := range columns {
				args = append(args, r[c])
				marks = append(marks, d.Mark(len(args)))
			}
			values = append(values, "("+strings.Join(marks, ",")+")")
		}
		quoted := make([]string, len(columns))
		for i, c := range columns {
			quoted[i] = d.Quote(c)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" ("+strings.Join(quoted, ",")+") VALUES "+strings.Join(values, ","), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return tx.Commit()
}

// Mark is the placeholder of argument i, from 1.
func (d *Database) Mark(i int) string {
	if d.Kind == MariaDB {
		return "?"
	}
	return fmt.Sprintf("$%d", i)
}

// Quote quotes the name of a column.
func (d *Database) Quote(column string) string {
	if d.Kind == MariaDB {
		return "`" + column + "`"
	}
	return `"` + column + `"`
}

// Now is the server's time in UTC.
func (d *Database) Now(t testing.TB) time.Time {
	t.Helper()
	q := "SELECT UTC_TIMESTAMP(6)"
	if d.Kind == PostgreSQL {
		q = "SELECT clock_timestamp() AT TIME ZONE 'UTC'"
	}
	var now time.Time
	if err := d.DB.QueryRowContext(t.Context(), q).Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now.UTC()
}

// Empty deletes all rows.
func (d *Database) Empty(t testing.TB) {
	t.Helper()
	d.Exec(t, "DELETE FROM "+strings.Join(d.tables, "; DELETE FROM "))
}
