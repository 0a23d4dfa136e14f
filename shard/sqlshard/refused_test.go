package sqlshard

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/internal/pgtest"
)

// limitedRole makes a role that may read and write all tables of a database. It gives the role, and
// the database's URL for it.
func limitedRole(t *testing.T, database string) (role, limited string) {
	t.Helper()
	role = fmt.Sprintf("limited_%d", databases.Add(1))
	exec(t, database,
		"CREATE ROLE "+role+" LOGIN",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	q := u.Query()
	q.Del("user")
	u.RawQuery = q.Encode()
	return role, u.String()
}

// Counts distinguishes a server without a free connection from one that refuses a statement.
func TestWhatAServerRefusesIsCounted(t *testing.T) {
	database := pgtest.Start(t).NewDatabase(t)
	if _, err := Migrate(t.Context(), testOptions(database)); err != nil {
		t.Fatal(err)
	}
	role, limited := limitedRole(t, database)
	opts := testOptions(limited)
	opts.Create, opts.Migrate = false, false
	s := newStand(t, opts)
	exec(t, database, "ALTER ROLE "+role+" CONNECTION LIMIT 0")
	s.pool.Reset()
	if err := s.claim(1); fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), "no connection left") {
		t.Errorf("without a connection: %v", err)
	}
	if c := s.Counts(); c.NoConnectionLeft != maxLost || c.Refused != 0 {
		t.Errorf("counted %+v", c)
	}
	exec(t, database, "ALTER ROLE "+role+" CONNECTION LIMIT -1", "REVOKE INSERT ON journal FROM "+role)
	if err := s.claim(1); fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), insufficientPrivilege) {
		t.Errorf("without the right: %v", err)
	}
	if c := s.Counts(); c.NoConnectionLeft != maxLost || c.Refused != 1 {
		t.Errorf("counted %+v", c)
	}
	exec(t, database, "GRANT INSERT ON journal TO "+role)
	if err := s.claim(1); err != nil {
		t.Errorf("as before: %v", err)
	}
}

// Check names a right that the role lacks, on any table, before an operation needs that right.
func TestCheckNamesTheRightsThatARoleLacks(t *testing.T) {
	database := pgtest.Start(t).NewDatabase(t)
	mustClose(t, openAt(t, testOptions(database)))
	role, limited := limitedRole(t, database)
	opts := testOptions(limited)
	if err := Check(t.Context(), opts); err != nil {
		t.Fatalf("with all rights: %v", err)
	}
	c, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	all, err := texts(t.Context(), c, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil || len(all) == 0 {
		t.Fatalf("tables %v, %v", all, err)
	}
	for _, table := range all {
		for _, right := range []string{"INSERT", "UPDATE", "DELETE"} {
			if table == "schema_version" {
				continue // the store only reads it
			}
			exec(t, database, "REVOKE "+right+" ON "+table+" FROM "+role)
			if err := Check(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "lacks "+right+" of "+table) || strings.Contains(err.Error(), ", ") {
				t.Errorf("without %s of %s: %v", right, table, err)
			}
			exec(t, database, "GRANT "+right+" ON "+table+" TO "+role)
		}
	}
}
