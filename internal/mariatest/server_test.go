package mariatest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(Stop)) }

func query(t *testing.T, s *Server, database, sql string) string {
	t.Helper()
	var text string
	if err := s.Open(t, database).QueryRowContext(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func TestDatabasesAreApart(t *testing.T) {
	s := Start(t)
	if again := Start(t); again != s {
		t.Error("a package has two servers")
	}
	a, b := s.NewDatabase(t), s.NewDatabase(t)
	if _, err := s.Open(t, a).ExecContext(t.Context(), "CREATE TABLE x AS SELECT 'one' AS y"); err != nil {
		t.Fatal(err)
	}
	if got := query(t, s, b, "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()"); got != "0" {
		t.Errorf("the other database has %s tables", got)
	}
}

// A killed server comes back at the same address with the same data.
func TestServersComeBack(t *testing.T) {
	s := New(t)
	name := s.NewDatabase(t)
	if _, err := s.Open(t, name).ExecContext(t.Context(), "CREATE TABLE x AS SELECT 'kept' AS y"); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	s.Run(t)
	if got := query(t, s, name, "SELECT y FROM x"); got != "kept" {
		t.Errorf("it has %q", got)
	}
}

func TestFrozenServersDoNotAnswer(t *testing.T) {
	s := New(t)
	db := s.Open(t, "")
	s.Freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.PingContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server answers: %v", err)
	}
	s.Thaw(t)
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("a server that was thawed: %v", err)
	}
}
