package sqlshard

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
)

// idle keeps databases of the current schema that no test uses, by server. To empty a database
// takes much less time than to drop it and make another.
var idle struct {
	mu   sync.Mutex
	free map[*pgtest.Server][]string
}

// newDatabase gives the URL of an empty database of the current schema.
func newDatabase(t testing.TB) string {
	t.Helper()
	srv := pgtest.Start(t)
	idle.mu.Lock()
	defer idle.mu.Unlock()
	url := ""
	if free := idle.free[srv]; len(free) > 0 {
		url, idle.free[srv] = free[len(free)-1], free[:len(free)-1]
	} else {
		name := fmt.Sprintf("shard_%d", databases.Add(1))
		srv.Exec(t, "CREATE DATABASE "+name)
		url = srv.URL(name)
		if _, err := Migrate(t.Context(), testOptions(url)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		empty(t, url)
		idle.mu.Lock()
		defer idle.mu.Unlock()
		if idle.free == nil {
			idle.free = map[*pgtest.Server][]string{}
		}
		idle.free[srv] = append(idle.free[srv], url)
	})
	return url
}

// empty deletes the rows of all tables except schema_version.
func empty(t testing.TB, url string) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	tables, err := texts(ctx, c, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_version'")
	if err == nil {
		_, err = c.Exec(ctx, "DELETE FROM "+strings.Join(tables, "; DELETE FROM "))
	}
	if err != nil {
		t.Fatal(err)
	}
}

var databases atomic.Int64
