package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"cellgate/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(pgtest.Stop)) }

// world is a database with a table, a proxy, and a connection past the proxy.
type world struct {
	*testing.T
	proxy  *Proxy
	server *pgtest.Server
	url    string
	direct *pgx.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	srv := pgtest.Start(t)
	database.Do(func() { srv.Exec(t, "CREATE DATABASE wire") })
	w := worldAt(t, srv, srv.URL("wire"))
	w.direct = w.connect(w.directURL(), "cache_statement")
	for _, sql := range []string{"DROP TABLE IF EXISTS x", "CREATE TABLE x (n int8 PRIMARY KEY, m int8, UNIQUE (m) DEFERRABLE INITIALLY DEFERRED)"} {
		if _, err := w.direct.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// database is created once, and removed with the server.
var database sync.Once

func worldAt(t *testing.T, srv *pgtest.Server, direct string) *world {
	t.Helper()
	p, err := New(srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the proxy: %v", err)
		}
	})
	url, err := p.URL(direct)
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, proxy: p, server: srv, url: url}
}

func (w *world) directURL() string {
	return strings.Replace(w.url, w.proxy.Addr(), w.server.Addr(), 1)
}

// modes are pgx's query modes. Batches are pipelines in all but one.
var modes = []string{"simple_protocol", "exec", "cache_statement", "cache_describe", "describe_exec"}

func (w *world) connect(url, mode string) *pgx.Conn {
	w.Helper()
	c, err := pgx.Connect(w.Context(), url+"&default_query_exec_mode="+mode)
	if err != nil {
		w.Fatalf("connecting: %v", err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) }) // it may have been cut
	return c
}

// connectOnce returns a client that never dials again. pgx would otherwise ask the server to cancel
// the work of a broken connection, possibly before a late trip has arrived.
func (w *world) connectOnce(url string) *pgx.Conn {
	w.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		w.Fatal(err)
	}
	dial, dialled := config.DialFunc, false
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialled {
			return nil, errors.New("dialled once already")
		}
		dialled = true
		return dial(ctx, network, addr)
	}
	c, err := pgx.ConnectConfig(w.Context(), config)
	if err != nil {
		w.Fatalf("connecting: %v", err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) }) // it may have been cut
	return c
}

// rows reads the table past the proxy.
func (w *world) rows() string {
	w.Helper()
	var text string
	if err := w.direct.QueryRow(w.Context(), "SELECT coalesce(string_agg(n::text, ' ' ORDER BY n), '') FROM x").Scan(&text); err != nil {
		w.Fatal(err)
	}
	return text
}

// counted checks that exactly these faults happened.
func (w *world) counted(want ...string) {
	w.Helper()
	got := w.proxy.Counts()
	for _, name := range want {
		got[name]--
	}
	for name, n := range got {
		if n != 0 {
			w.Errorf("%d of the fault %q more than there should be (%v)", n, name, w.proxy.Counts())
		}
	}
}

func stateOf(err error) string {
	var e *pgconn.PgError
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &e):
		return e.Code
	}
	return "lost"
}

func is(text string) func(Statement) bool {
	return func(s Statement) bool { return strings.Contains(s.SQL, text) }
}

func isRole(r Role) func(Statement) bool { return func(s Statement) bool { return s.Role == r } }

// transaction inserts rows 1 and 2, statement by statement or as one pipeline, and
// gives the first error.
func transaction(ctx context.Context, c *pgx.Conn, pipelined bool) error {
	if !pipelined {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		for n := 1; n <= 2; n++ {
			if _, err := tx.Exec(ctx, "INSERT INTO x VALUES ($1::int8, $1::int8)", n); err != nil {
				_ = tx.Rollback(ctx)
				return err
			}
		}
		return tx.Commit(ctx)
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("INSERT INTO x VALUES ($1::int8, $1::int8) RETURNING n", 1)
	b.Queue("INSERT INTO x VALUES ($1::int8, $1::int8)", 2)
	b.Queue("COMMIT")
	return c.SendBatch(ctx, b).Close()
}

// TestEachFault checks the error that pgx gets and what the server has done.
func TestEachFault(t *testing.T) {
	second := is("INSERT INTO x VALUES")
	commit := isRole(Commit)
	for _, test := range []struct {
		match   func(Statement) bool
		fault   Fault
		counted string
		// hears is the client's error, has is the table's content afterwards. alive: the connection
		// still works.
		hears string
		has   string
		alive bool
	}{
		{second, Fault{Kind: Error, Code: "40001"}, "40001", "40001", "", true},
		{second, Fault{Kind: Error, Code: "40001", Done: true}, "40001 done", "40001", "", true},
		{second, Fault{Kind: Error, Code: "57P01"}, "57P01", "57P01", "", false},
		{second, Fault{Kind: Cut}, "cut not done", "lost", "", false},
		{isRole(Begin), Fault{Kind: Error, Code: "40001"}, "40001", "40001", "", true},
		{isRole(Begin), Fault{Kind: Cut}, "cut not done", "lost", "", false},
		{commit, Fault{Kind: Error, Code: "40001"}, "40001 commit not done", "40001", "", true},
		{commit, Fault{Kind: Error, Code: "40003"}, "40003 commit not done", "40003", "", true},
		{commit, Fault{Kind: Error, Code: "40003", Done: true}, "40003 commit done", "40003", "1 2", true},
		{commit, Fault{Kind: Error, Code: "57P01"}, "57P01 commit not done", "57P01", "", false},
		{commit, Fault{Kind: Error, Code: "57P01", Done: true}, "57P01 commit done", "57P01", "1 2", false},
		{commit, Fault{Kind: Cut}, "cut commit not done", "lost", "", false},
		{commit, Fault{Kind: Cut, Done: true}, "cut commit done", "lost", "1 2", false},
		{commit, Fault{Kind: Delay, Delay: time.Millisecond}, "delay commit", "done", "1 2", true},
		{second, Fault{Kind: Delay, Delay: time.Millisecond}, "delay", "done", "1 2", true},
	} {
		for _, mode := range modes {
			for _, pipelined := range []bool{false, true} {
				if pipelined && mode == "simple_protocol" {
					continue // a batch is one text then, see TestTextsOfSeveralStatements
				}
				t.Run(fmt.Sprintf("%s/%s/pipelined=%v", test.counted, mode, pipelined), func(t *testing.T) {
					w := newWorld(t)
					c := w.connect(w.url, mode)
					if _, err := c.Exec(t.Context(), "INSERT INTO x VALUES ($1, $1)", 9); err != nil {
						t.Fatal(err)
					}
					w.proxy.SetPlan(When(test.match, test.fault))
					err := transaction(t.Context(), c, pipelined)
					if got := stateOf(err); got != test.hears {
						t.Errorf("the client hears %s (%v), want %s", got, err, test.hears)
					}
					if got, want := w.rows(), strings.TrimSpace(test.has+" 9"); got != want {
						t.Errorf("the table has %q, want %q", got, want)
					}
					w.counted(test.counted)
					if !test.alive {
						if _, err := c.Exec(t.Context(), "SELECT 1"); err == nil {
							t.Error("the connection goes on")
						}
						return
					}
					if got := c.PgConn().TxStatus(); got != 'I' {
						if got != 'E' || !pipelined || test.match(Statement{Role: Commit}) {
							t.Errorf("the session is in state %c", got)
						}
						if _, err := c.Exec(t.Context(), "ROLLBACK"); err != nil {
							t.Error(err)
						}
					}
					if _, err := c.Exec(t.Context(), "INSERT INTO x VALUES ($1, $1)", 10); err != nil {
						t.Errorf("afterwards: %v", err)
					}
					if got := w.rows(); !strings.HasSuffix(got, "9 10") {
						t.Errorf("afterwards the table has %q", got)
					}
					w.counted(test.counted)
				})
			}
		}
	}
}

// TestLateTrips cuts the client's connection. Its commit arrives at the server afterwards.
func TestLateTrips(t *testing.T) {
	for _, at := range []Role{Work, Commit} {
		w := newWorld(t)
		c := w.connectOnce(w.url)
		w.proxy.SetPlan(When(isRole(at), Fault{Kind: Late, Delay: time.Millisecond}))
		if got := stateOf(transaction(t.Context(), c, true)); got != "lost" {
			t.Errorf("the client hears %s", got)
		}
		began := time.Now()
		for w.rows() != "1 2" {
			if time.Since(began) > time.Minute {
				t.Fatal("the trip never arrives")
			}
		}
		w.counted("late commit")
	}
}

// Outside of a transaction a statement that was done is committed.
func TestStatementsWithoutATransaction(t *testing.T) {
	for _, mode := range modes {
		for _, f := range []Fault{{Kind: Cut, Done: true}, {Kind: Error, Code: "40003", Done: true}, {Kind: Error, Code: "40003"}} {
			w := newWorld(t)
			c := w.connect(w.url, mode)
			w.proxy.SetPlan(When(is("INSERT"), f))
			_, err := c.Exec(t.Context(), "INSERT INTO x VALUES ($1, $1)", 1)
			want := map[Kind]string{Cut: "lost", Error: "40003"}[f.Kind]
			if got := stateOf(err); got != want {
				t.Errorf("%s, %+v: the client hears %s (%v)", mode, f, got, err)
			}
			if got := w.rows() == "1"; got != f.Done {
				t.Errorf("%s, %+v: done is %v", mode, f, got)
			}
			w.counted(f.name(false))
		}
	}
}

func TestTextsOfSeveralStatements(t *testing.T) {
	w := newWorld(t)
	c := w.connect(w.url, "simple_protocol")
	w.proxy.SetPlan(When(is("COMMIT"), Fault{Kind: Error, Code: "40001"}))
	if got := stateOf(transaction(t.Context(), c, true)); got != "40001" {
		t.Errorf("the client hears %s", got)
	}
	if err := transaction(t.Context(), c, true); err != nil || w.rows() != "1 2" {
		t.Errorf("the table has %s, %v", w.rows(), err)
	}
	w.counted("40001")
}

// If a statement fails by itself, the client gets the true error, not the fault's.
func TestTrueErrorsComeFirst(t *testing.T) {
	for _, mode := range modes {
		for _, f := range []Fault{{Kind: Error, Code: "40003", Done: true}, {Kind: Cut, Done: true}} {
			w := newWorld(t)
			c := w.connect(w.url, mode)
			if _, err := w.direct.Exec(t.Context(), "INSERT INTO x VALUES (7, 2)"); err != nil {
				t.Fatal(err)
			}
			// The commit fails, since the constraint is deferred.
			w.proxy.SetPlan(When(isRole(Commit), f))
			for _, pipelined := range []bool{false, mode != "simple_protocol"} {
				if got := stateOf(transaction(t.Context(), c, pipelined)); got != "23505" {
					t.Errorf("%s, pipelined=%v: the client hears %s, want 23505", mode, pipelined, got)
				}
				if got := c.PgConn().TxStatus(); got != 'I' {
					t.Errorf("%s: the session is in state %c", mode, got)
				}
				w.proxy.SetPlan(When(isRole(Commit), f))
			}
			// An earlier statement fails.
			w.proxy.SetPlan(When(isRole(Commit), f))
			b := &pgx.Batch{}
			b.Queue("BEGIN")
			b.Queue("INSERT INTO x VALUES (7, 8)")
			b.Queue("COMMIT")
			if mode != "simple_protocol" {
				if got := stateOf(c.SendBatch(t.Context(), b).Close()); got != "23505" {
					t.Errorf("%s: the client hears %s, want 23505", mode, got)
				}
				if _, err := c.Exec(t.Context(), "ROLLBACK"); err != nil {
					t.Errorf("%s: afterwards: %v", mode, err)
				}
			}
			if got := w.rows(); got != "7" {
				t.Errorf("the table has %q", got)
			}
			w.counted()
		}
	}
}

func TestConnectionsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for name, f := range map[string]Fault{
		"lost": {Kind: Cut}, "57P03": {Kind: Error, Code: "57P03"}, "53300": {Kind: Error, Code: "53300"},
	} {
		w.proxy.SetPlan(When(isRole(Connect), f))
		_, err := pgx.Connect(t.Context(), w.url)
		if got := stateOf(err); got != name {
			t.Errorf("the client hears %s (%v), want %s", got, err, name)
		}
		w.connect(w.url, "exec")
	}
	w.counted("refused connect", "57P03 connect", "53300 connect")
	w.proxy.SetPlan(When(isRole(Connect), Fault{Kind: Cut}))
	w.proxy.On(false)
	w.connect(w.url, "exec")
	w.counted("refused connect", "57P03 connect", "53300 connect")
}

func TestAServerThatIsNotThere(t *testing.T) {
	p, err := New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), "postgres://u@"+p.Addr()+"/x?sslmode=disable"); err == nil {
		t.Error("connected")
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
}
