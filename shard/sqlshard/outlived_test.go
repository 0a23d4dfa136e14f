package sqlshard

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
)

// newer gives the options of a program with one step more than this one, which fences and
// changes hosts.
func newer(t *testing.T, opts Options) Options {
	t.Helper()
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	opts.later = []migration{{
		version: len(all) + 1, name: "later", sum: "later",
		statements: []string{fenceAll, "ALTER TABLE hosts ADD COLUMN IF NOT EXISTS later bool NOT NULL DEFAULT false"},
	}}
	return opts
}

// migrating starts a newer program's migration, which waits in the middle of its step for a
// transaction that reads; finish ends that one, and the migration.
func migrating(t *testing.T, opts Options) (finish func()) {
	t.Helper()
	reader, err := pgx.Connect(t.Context(), opts.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close(context.Background()) })
	for _, sql := range []string{"BEGIN", "SELECT count(*) FROM hosts"} {
		if _, err := reader.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	migrated := make(chan error, 1)
	go func() {
		_, err := Migrate(t.Context(), newer(t, opts))
		migrated <- err
	}()
	awaitLocks(t, opts.URL, 1, nil)
	return func() {
		t.Helper()
		if _, err := reader.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := <-migrated; err != nil {
			t.Fatalf("the newer program's migration: %v", err)
		}
	}
}

// awaitLocks returns when so many sessions of the database wait for locks, or done is
// closed.
func awaitLocks(t *testing.T, url string, n int, done <-chan struct{}) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		var waiting int
		err := c.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting >= n {
			return
		}
		select {
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%d sessions did not come to wait for locks", n)
}

func unfenced(t *testing.T, url string) (found []string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	found, err = texts(t.Context(), c, "SELECT replica FROM lanes WHERE NOT fenced ORDER BY replica")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// onPostgresAndAlike runs a test on PostgreSQL, also when it is spoken to as CockroachDB is:
// who waits for whom is read as PostgreSQL tells it.
func onPostgresAndAlike(t *testing.T, test func(t *testing.T, at site)) {
	for _, as := range []server{postgres, cockroach} {
		t.Run(as.String(), func(t *testing.T) {
			at := postgresSite(t)
			at.as = &as
			test(t, at)
		})
	}
}

// A replica of an older program opens its shard while a newer program's migration waits
// in the middle of a step: its lane is not opened, whatever the level of isolation.
func TestNoLaneIsOpenedUnderANewerSchema(t *testing.T) {
	onPostgresAndAlike(t, func(t *testing.T, at site) {
		for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
			t.Run(isolation, func(t *testing.T) {
				opts := at.options(at.bare(t))
				opts.Isolation, opts.StatementTimeout = isolation, 5*time.Minute
				before := newStand(t, opts)
				finish := migrating(t, opts)
				opts.Migrate = false
				old := openAt(t, opts) // its schema is the one it knows, still
				defer mustClose(t, old)
				var opened error
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, opened = old.OpenLane(t.Context(), "of the older program")
				}()
				awaitLocks(t, opts.URL, 2, done)
				finish()
				<-done
				if fault.KindOf(opened) != fault.CellUnavailable || !strings.Contains(opened.Error(), "made by a newer cellgate") {
					t.Errorf("OpenLane of the older program: %v", opened)
				}
				if lanes := unfenced(t, opts.URL); len(lanes) > 0 {
					t.Errorf("these serve under the newer schema: %v", lanes)
				}
				if err := before.claim(1); err == nil {
					t.Error("a lane from before the migration goes on")
				}
			})
		}
	})
}

// A program from before lanes looked at the schema opens one while the step is under way:
// it is fenced with the step.
func TestALaneThatIsOpenedDuringAStepIsFenced(t *testing.T) {
	onPostgresAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.bare(t))
		mustClose(t, openAt(t, opts))
		finish := migrating(t, opts)
		exec(t, opts.URL, "INSERT INTO lanes (replica, life, floor, last, fenced, opened_at) VALUES ('unlooking', 1, 0, 0, false, 1)")
		finish()
		if lanes := unfenced(t, opts.URL); len(lanes) > 0 {
			t.Errorf("these serve under the newer schema: %v", lanes)
		}
	})
}

// Opening a lane and migrating wait for each other: a migration does not begin while a
// lane is being opened.
func TestAMigrationWaitsForWhoOpensALane(t *testing.T) {
	onPostgresAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.bare(t))
		s := openAt(t, opts)
		defer mustClose(t, s)
		c, err := s.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		for _, sql := range []string{idleLimit(0), s.server.begin(readCommitted)} {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.guardSchema(t.Context(), c.Conn()); err != nil {
			t.Fatal(err)
		}
		var took []string
		var failed error
		done := make(chan struct{})
		go func() {
			defer close(done)
			took, failed = Migrate(t.Context(), newer(t, opts))
		}()
		awaitLocks(t, opts.URL, 1, done)
		if _, err := c.Exec(t.Context(), insertLane, "r", int64(1), int64(1)); err != nil {
			t.Error(err)
		}
		if _, err := c.Exec(t.Context(), "COMMIT"); err != nil {
			t.Error(err)
		}
		<-done
		if failed != nil || len(took) != 1 {
			t.Errorf("Migrate took %v, %v", took, failed)
		}
		if lanes := unfenced(t, opts.URL); len(lanes) > 0 {
			t.Errorf("these serve under the newer schema: %v", lanes)
		}
	})
}

// Who comes while a schema is migrated, for longer than a statement may take, is told
// what it waited for.
func TestALaneWaitsForAMigrationAsLongAsAStatementMayTake(t *testing.T) {
	onPostgresAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.bare(t))
		opts.MaxConns = 1
		s := openAt(t, opts)
		defer mustClose(t, s)
		finish := migrating(t, opts)
		c, err := s.acquire(t.Context())
		if err == nil {
			_, err = c.Exec(t.Context(), "SET statement_timeout = 1000")
			c.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.OpenLane(t.Context(), "r")
		if fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), "is being migrated") {
			t.Errorf("OpenLane: %v", err)
		}
		finish()
	})
}

// What fences is told by its text: a step must not have it in another one.
func TestStepsFenceInOneWay(t *testing.T) {
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		speaks := slices.ContainsFunc(m.statements, func(sql string) bool { return strings.Contains(sql, "UPDATE lanes") })
		if speaks != m.fences() {
			t.Errorf("step %d fences: %v, and changes lanes: %v", m.version, m.fences(), speaks)
		}
	}
}
