package sqlshard

import (
	"context"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgproxy"
)

func exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func databaseOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// elsewhere is the URL of the server's database "postgres", which every server has.
func elsewhere(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/postgres"
	return u.String()
}

// Eight replicas start on a server that has no database yet. One of them makes the database and its
// tables, and all can use it.
func TestReplicasMayStartTogether(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.bare(t))
		// bare's cleanup drops the database of this name, also after Open made it anew.
		exec(t, elsewhere(t, opts.URL), "DROP DATABASE "+databaseOf(t, opts.URL))
		opts.Create = true
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := Open(t.Context(), opts)
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				defer mustClose(t, s)
				if _, err := s.OpenLane(t.Context(), "r"); err != nil {
					t.Errorf("OpenLane: %v", err)
				}
			})
		}
		wg.Wait()
		all, err := migrations()
		if err != nil {
			t.Fatal(err)
		}
		st, err := ReadStatus(t.Context(), opts)
		if err != nil || len(st.Applied) != len(all) || len(st.Pending) != 0 {
			t.Errorf("the status is %+v, %v; want %d steps", st, err, len(all))
		}
		s := openAt(t, opts)
		defer mustClose(t, s)
		l, err := s.OpenLane(t.Context(), "r")
		if err != nil || l.ID().Incarnation != 9 {
			t.Errorf("the ninth incarnation is %v, %v", l, err)
		}
	})
}

func TestASchemaThatIsBehindIsNotOpened(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.bare(t))
		opts.Migrate = false
		st, err := ReadStatus(t.Context(), opts)
		if err != nil || len(st.Applied) != 0 || len(st.Pending) == 0 || st.Server == "" {
			t.Errorf("the status of an empty database is %+v, %v", st, err)
		}
		if s, err := Open(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "cellgate migrate up") {
			t.Errorf("Open: %v, %v", s, err)
		}
		done, err := Migrate(t.Context(), opts)
		if err != nil || len(done) != len(st.Pending) {
			t.Errorf("Migrate took %v, %v; pending were %v", done, err, st.Pending)
		}
		if done, err := Migrate(t.Context(), opts); err != nil || len(done) != 0 {
			t.Errorf("Migrate again took %v, %v", done, err)
		}
		mustClose(t, openAt(t, opts))
	})
}

func TestASchemaOfAnotherProgramIsNotOpened(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		for sql, want := range map[string]string{
			"INSERT INTO schema_version VALUES (99, 'later', 'x', now())":                                    "99",
			"INSERT INTO schema_version SELECT max(version) + 1, 'later', 'x', now() FROM schema_version":    "newer cellgate",
			"UPDATE schema_version SET sum = 'other' WHERE version = 1":                                      "another than this program's",
			"INSERT INTO cell VALUES (0, 'cell2', 'c2') ON CONFLICT (id) DO UPDATE SET name = excluded.name": "of cell cell2",
		} {
			opts := at.options(at.bare(t))
			mustClose(t, openAt(t, opts))
			exec(t, opts.URL, sql)
			if s, err := Open(t.Context(), opts); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("after %q: %v, %v", sql, s, err)
			}
		}
	})
}

// Every statement of a step can run again. CockroachDB commits each by itself, so a replica that
// dies within a step leaves the rest of it to another replica.
func TestMigrationsMayBeLeftInTheMiddle(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		all, err := migrations()
		if err != nil {
			t.Fatal(err)
		}
		url := at.bare(t)
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		exec(t, url, createVersions)
		for _, m := range all {
			if len(m.statements) == 0 {
				t.Errorf("migration %d has no statements", m.version)
			}
			for n := range m.statements {
				for _, sql := range m.statements[:n+1] {
					if _, err := c.Exec(t.Context(), strings.ReplaceAll(sql, "{{key}}", at.as.keyType())); err != nil {
						t.Fatalf("step %d again, up to its statement %d: %s: %v", m.version, n+1, sql, err)
					}
				}
			}
			if _, err := c.Exec(t.Context(), addVersion, m.version, m.name, m.sum); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, openAt(t, at.options(url)))
	})
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// If a step loses a race or its connection, the same call repeats the step.
func TestMigrationsGoOnAfterRacesAndCuts(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		all, err := migrations()
		if err != nil {
			t.Fatal(err)
		}
		for name, fault := range map[string]pgproxy.Fault{
			"lost race":         {Kind: pgproxy.Error, Code: serializationFailure},
			"restart":           {Kind: pgproxy.Error, Code: cockroachRestartClass},
			"cut":               {Kind: pgproxy.Cut},
			"cut, it was done":  {Kind: pgproxy.Cut, Done: true},
			"server shuts down": {Kind: pgproxy.Error, Code: adminShutdown},
		} {
			for _, statement := range []string{"UPDATE schema_version", "CREATE TABLE IF NOT EXISTS claims", "INSERT INTO schema_version"} {
				if !fault.Done && statement != "UPDATE schema_version" && os.Getenv("CELLGATE_LONG") == "" {
					continue // in short runs, only one fault goes through all statements
				}
				t.Run(name+" at "+statement, func(t *testing.T) {
					proxy, url := at.proxied(t, at.bare(t))
					var met atomic.Bool
					proxy.SetPlan(pgproxy.When(func(st pgproxy.Statement) bool {
						is := strings.HasPrefix(st.SQL, statement)
						if is {
							met.Store(true)
						}
						return is
					}, fault))
					proxy.On(true)
					opts := at.options(url)
					if done, err := Migrate(t.Context(), opts); err != nil || len(done) > len(all) || !met.Load() {
						t.Fatalf("Migrate took %v, %v; the fault was met: %v", done, err, met.Load())
					}
					if st, err := ReadStatus(t.Context(), opts); err != nil || len(st.Applied) != len(all) {
						t.Errorf("the status is %+v, %v; want %d steps", st, err, len(all))
					}
				})
			}
		}
	})
}
