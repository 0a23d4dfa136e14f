package sqlshard

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
)

// databases of the current schema that no test uses, by server. Making and dropping
// one takes much longer than emptying it.
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

// empty deletes all rows but the schema's version.
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

// cockroachDatabase makes a database on a server, which the test drops, and gives its
// URL. Making one takes seconds there: tests share it, and empty it.
func cockroachDatabase(t testing.TB, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("cellgate_test_%d_%d", os.Getpid(), databases.Add(1))
	run := func(sql string) {
		c, err := pgx.Connect(context.Background(), server)
		if err == nil {
			_, err = c.Exec(context.Background(), sql)
			_ = c.Close(context.Background())
		}
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	run("CREATE DATABASE " + name)
	t.Cleanup(func() { run("DROP DATABASE IF EXISTS " + name + " CASCADE") })
	u.Path = "/" + name
	if _, err := Migrate(t.Context(), testOptions(u.String())); err != nil {
		t.Fatal(err)
	}
	return u.String()
}
