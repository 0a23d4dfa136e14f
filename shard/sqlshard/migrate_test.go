package sqlshard

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgproxy"
	"cellgate/shard"
	"cellgate/shard/shardtest"
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

// elsewhere is the URL of a database that every server has.
func elsewhere(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/postgres"
	return u.String()
}

// Eight replicas start on a server that has no database yet: one makes it and its
// tables, and all can use it.
func TestReplicasMayStartTogether(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.bare(t))
		// The test drops what has this name.
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
		if err != nil || l.ID().Life != 9 {
			t.Errorf("the ninth life is %v, %v", l, err)
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

// Every statement of a step can run again: on CockroachDB each commits by itself, and
// replicas that died after the first, the second and so on leave the rest to another.
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

// before04 takes a database back to where all claims were in one table.
var before04 = []string{
	"INSERT INTO ended_claims SELECT * FROM claims",
	"DROP TABLE claims",
	"ALTER TABLE ended_claims RENAME TO claims",
	"ALTER INDEX IF EXISTS ended_claims_pkey RENAME TO claims_pkey",
	"ALTER INDEX IF EXISTS ended_claims_by_consumer RENAME TO claims_by_consumer",
	"ALTER INDEX IF EXISTS ended_claims_by_host RENAME TO claims_by_host",
	"ALTER TABLE claim_ends RENAME TO tombstones",
	"ALTER INDEX IF EXISTS claim_ends_pkey RENAME TO tombstones_pkey",
	"DELETE FROM schema_version WHERE version >= 4",
}

// A database that is full of claims is taken to separate tables by replicas that start
// together: none is lost, each is found as before, those that ended are still trimmed,
// and a replica of the program before is ended.
func TestClaimsAreKeptWhenEndedOnesMove(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		const claims, ended = 60, 40
		opts := at.options(at.bare(t))
		clock := &testClock{}
		opts.skew = clock.read
		old := newStand(t, opts)
		for n := range 4 {
			if err := old.apply(shard.Op{PutHost: shardtest.NewHost(n, 1000)}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range claims {
			if err := old.apply(shard.Op{Claim: shardtest.NewClaim(n, n%4, 1)}); err != nil {
				t.Fatal(err)
			}
			if n < ended {
				if err := old.apply(shard.Op{Release: shardtest.Ref(n)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := everyClaim(t, old.Store)
		exec(t, opts.URL, before04...)

		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				s, err := Open(t.Context(), opts)
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				mustClose(t, s)
			})
		}
		wg.Wait()
		if err := old.apply(shard.Op{Claim: shardtest.NewClaim(claims, 0, 1)}); !errors.Is(err, shard.ErrFenced) {
			t.Errorf("a lane of before goes on: %v", err)
		}
		s := newStand(t, opts)
		after := everyClaim(t, s.Store)
		if !reflect.DeepEqual(before, after) {
			t.Errorf("the claims were %v and are %v", before, after)
		}
		if n := s.live(); n != claims-ended {
			t.Errorf("Load gives %d claims, want %d", n, claims-ended)
		}
		for n := range claims {
			a, err := s.lane.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(n, n%4, 1)}})
			if err != nil {
				t.Fatal(err)
			}
			if c := a.Outcomes[0].Claim; c == nil || c.State.Live() != (n >= ended) || a.Entry.Seq != 0 {
				t.Errorf("claim %d, sent again: %+v", n, a)
			}
		}
		clock.move(shard.TombstoneTTL + time.Hour)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Trim(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if left := everyClaim(t, s.Store); len(left) != claims-ended {
			t.Errorf("%d claims are left after a trim, want %d", len(left), claims-ended)
		}
	})
}

// everyClaim gives all claims, ended ones too, by id.
func everyClaim(t *testing.T, s *Store) map[string]shard.Claim {
	t.Helper()
	page, err := s.FindClaims(t.Context(), shard.ClaimQuery{Ended: true})
	if err != nil || page.More {
		t.Fatalf("FindClaims: more %v, %v", page.More, err)
	}
	all := map[string]shard.Claim{}
	for _, c := range page.Claims {
		all[c.ClaimID] = *c
	}
	return all
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// A step that loses a race or its connection is taken again, by the same call.
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
			for _, statement := range []string{"UPDATE schema_version", "CREATE TABLE IF NOT EXISTS claims", "ALTER TABLE claims", "INSERT INTO schema_version"} {
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

// A column that is still being added is waited for: what looks like it here is a
// statement that did nothing.
func TestAColumnThatIsNotThereYetIsARace(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		url := at.bare(t)
		exec(t, url, "CREATE TABLE things (a int8)")
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		const sql = "ALTER TABLE things ADD COLUMN IF NOT EXISTS b int8 NOT NULL DEFAULT 0"
		if err := there(t.Context(), c, sql); err == nil || meaning(err) != race {
			t.Errorf("before the column: %v", err)
		}
		exec(t, url, sql)
		if err := there(t.Context(), c, sql); err != nil {
			t.Errorf("with the column: %v", err)
		}
		all, err := migrations()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			for _, sql := range m.statements {
				if strings.Contains(sql, "ADD COLUMN") && addsColumn.FindStringSubmatch(sql) == nil {
					t.Errorf("step %d adds a column that is not looked for: %s", m.version, sql)
				}
			}
		}
	})
}
