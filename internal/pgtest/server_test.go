package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(Stop)) }

func query(t *testing.T, url, sql string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	var text string
	if err := c.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// A server that is restarted or killed comes back at the same address with the same data.
func TestServersComeBack(t *testing.T) {
	s := New(t, Options{Durable: true, Settings: map[string]string{"application_name": "pgtest's"}})
	url := s.NewDatabase(t)
	if got := query(t, url, "SELECT current_setting('fsync')"); got != "on" {
		t.Errorf("fsync is %s", got)
	}
	execute(t, url, "CREATE TABLE x AS SELECT 'kept' AS y")
	for name, again := range map[string]func(testing.TB){"restart": s.Restart, "crash": s.Crash} {
		before := query(t, url, "SELECT pg_postmaster_start_time()::text")
		again(t)
		if got := query(t, url, "SELECT y FROM x"); got != "kept" {
			t.Errorf("after a %s it has %q", name, got)
		}
		if query(t, url, "SELECT pg_postmaster_start_time()::text") == before {
			t.Errorf("a %s did not end the server", name)
		}
	}
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}
