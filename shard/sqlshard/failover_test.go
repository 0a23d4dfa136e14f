package sqlshard

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/internal/fault"
	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
)

// The pool's connections were made while the server was read-only. The next call drops them all,
// and succeeds.
func TestConnectionsThatTakeNoWritesAreDropped(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		opts.MaxConns = 6 // more connections than attempts of a call
		s := newStand(t, opts)
		for what, do := range map[string]func() error{
			"Apply":    func() error { return s.claim(1) },
			"OpenLane": func() error { _, err := s.OpenLane(t.Context(), "another"); return err },
		} {
			var all []*pgxpool.Conn
			for range opts.MaxConns {
				c := pooled(t, s.Store)
				defer c.Release() // also after a failure: Close waits for all connections
				all = append(all, c)
				if _, err := c.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range all {
				c.Release()
			}
			if err := do(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := s.live(); n != 1 || s.Counts().Unknown != 0 || s.Counts().Lost != 2 {
			t.Errorf("%d claims are live, counted %+v", n, s.Counts())
		}
	})
}

// A read-only server is not used, unless the URL allows it. Then reads work, and a claim fails with
// a known outcome.
func TestAServerThatTakesNoWrites(t *testing.T) {
	srv := pgtest.Start(t)
	for parameter, answers := range map[string]bool{"": false, "target_session_attrs=any": true} {
		opts := testOptions(srv.NewDatabase(t))
		if parameter != "" {
			joint := "?"
			if strings.Contains(opts.URL, "?") {
				joint = "&"
			}
			opts.URL += joint + parameter
		}
		s := newStand(t, opts)
		name := pgx.Identifier{databaseOf(t, opts.URL)}.Sanitize()
		srv.Exec(t, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
		s.pool.Reset()
		if _, err := s.Now(t.Context()); (err == nil) != answers {
			t.Errorf("%q: Now: %v", parameter, err)
		}
		if err := s.claim(1); fault.KindOf(err) != fault.CellUnavailable || answers && !strings.Contains(err.Error(), "takes no writes") {
			t.Errorf("%q: Apply: %v", parameter, err)
		}
		srv.Exec(t, "ALTER DATABASE "+name+" RESET default_transaction_read_only")
		if err := s.claim(2); err != nil {
			t.Errorf("%q: Apply afterwards: %v", parameter, err)
		}
		if n := s.live(); n != 1 || s.Counts().Unknown != 0 {
			t.Errorf("%q: %d claims are live, counted %+v", parameter, n, s.Counts())
		}
	}
}

// The store does not ask CockroachDB whether it is read-only: release 20.2 answers only in a
// database that exists. PostgreSQL has to answer.
func TestCockroachDBIsNotAskedWhetherItTakesWrites(t *testing.T) {
	srv := pgtest.Start(t)
	for _, version := range []string{"", "CockroachDB CCL v20.2.19"} {
		proxy, url := proxied(t, srv, newDatabase(t))
		if version != "" {
			proxy.Report("crdb_version", version)
		}
		proxy.SetPlan(func(st pgproxy.Statement) pgproxy.Fault {
			if strings.EqualFold(st.SQL, "show transaction_read_only") {
				return pgproxy.Fault{Kind: pgproxy.Error, Code: invalidCatalogName}
			}
			return pgproxy.Fault{}
		})
		s, err := Open(t.Context(), testOptions(url))
		if (err == nil) != (version != "") {
			t.Errorf("crdb_version %q: %v", version, err)
		}
		if err == nil {
			mustClose(t, s)
		}
	}
}

func TestConnectionsAreReplacedInTime(t *testing.T) {
	url := newDatabase(t)
	joint := "?"
	if strings.Contains(url, "?") {
		joint = "&"
	}
	for parameter, want := range map[string]time.Duration{"": connLifetime, joint + "pool_max_conn_lifetime=1h": time.Hour} {
		s := openAt(t, testOptions(url+parameter))
		if c := s.pool.Config(); c.MaxConnLifetime != want || c.MaxConnLifetimeJitter != connLifetime/5 {
			t.Errorf("%q: replaced after %v and up to %v", parameter, c.MaxConnLifetime, c.MaxConnLifetimeJitter)
		}
		mustClose(t, s)
	}
}

// noticedLog is a log that closes done at its first line about another process.
type noticedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
	once sync.Once
	done chan struct{}
}

func (w *noticedLog) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte("another process")) {
		w.once.Do(func() { close(w.done) })
	}
	return w.text.Write(b)
}

func (w *noticedLog) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestMigrate_WhileAnotherMigrates_LogsThatItWaits(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.bare(t))
		mustClose(t, openAt(t, opts))
		another, err := pgx.Connect(t.Context(), opts.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = another.Close(context.Background()) }()
		for _, sql := range []string{"BEGIN", lockVersions} {
			if _, err := another.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		log := &noticedLog{done: make(chan struct{})}
		opts.Log = slog.New(slog.NewTextHandler(log, nil))
		second := make(chan error, 1)
		go func() {
			_, err := Migrate(t.Context(), opts)
			second <- err
		}()
		select {
		case <-log.done:
		case err := <-second:
			t.Fatalf("Migrate did not wait: %v", err)
		}
		if _, err := another.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil || !strings.Contains(log.String(), "another process") {
			t.Errorf("Migrate: %v; logged: %s", err, log.String())
		}
	})
}

// A database name that the server would truncate is refused: two cells could otherwise share a
// database.
func TestNamesThatAreTooLong(t *testing.T) {
	opts := testOptions(pgtest.Start(t).URL(strings.Repeat("x", 64)))
	opts.Create = true
	if s, err := Open(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "has 64 bytes") {
		t.Errorf("Open: %v, %v", s, err)
	}
}

func TestOpen_PasswordFileReadableByAll_IsLogged(t *testing.T) {
	opts := testOptions(newDatabase(t))
	opts.PasswordFile = filepath.Join(t.TempDir(), "password")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		log := &noticedLog{done: make(chan struct{})}
		opts.Log = slog.New(slog.NewTextHandler(log, nil))
		if err := os.WriteFile(opts.PasswordFile, []byte("any\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(opts.PasswordFile, mode); err != nil {
			t.Fatal(err)
		}
		mustClose(t, openAt(t, opts))
		if got := strings.Contains(log.String(), "chmod o-rwx"); got != want {
			t.Errorf("mode %04o: told %v: %s", mode, got, log.String())
		}
	}
}
