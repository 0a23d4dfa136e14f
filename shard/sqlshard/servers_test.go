package sqlshard

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
	"cellgate/shard/shardtest"
)

// cockroachURL names the variable with the URL of a CockroachDB server. Its user must be able to
// make databases.
const cockroachURL = "CELLGATE_TEST_COCKROACH_URL"

// site is a server on which tests make and drop databases.
type site struct {
	name string
	// as is the kind of server that the store treats it as.
	as *server
	// addr is the server's address for proxies; "" if its connections cannot go through a proxy.
	addr string
	// bare makes an empty database; database makes one with the current schema.
	bare, database func(t testing.TB) string
}

func (at site) options(url string) Options {
	o := testOptions(url)
	o.as = at.as
	return o
}

// proxied gives a proxy in front of the server, and a database's URL through it.
func (at site) proxied(t *testing.T, direct string) (*pgproxy.Proxy, string) {
	t.Helper()
	if at.addr == "" {
		shardtest.NotRun(t, at.name, t.Name()+": the proxy does not speak TLS, which the server's URL demands")
	}
	return proxiedAt(t, at.addr, direct)
}

func postgresSite(t testing.TB) site {
	srv := pgtest.Start(t)
	return site{
		name: "PostgreSQL", as: new(postgres), addr: srv.Addr(),
		bare: srv.NewDatabase, database: newDatabase,
	}
}

// onServers runs a test on PostgreSQL and, if the environment names a server, on CockroachDB.
func onServers(t *testing.T, test func(t *testing.T, at site)) {
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgresSite(t)) })
	t.Run("CockroachDB", func(t *testing.T) {
		at := cockroachSite(t)
		test(t, at)
		if !t.Skipped() {
			sum := shardtest.Summary{Backend: at.name, Tests: 1}
			if t.Failed() {
				sum.Violations = 1
			}
			sum.Tell(t)
		}
	})
}

// onServersAndAlike also runs the test on PostgreSQL as if that were CockroachDB. This shows
// nothing about answers that differ between the two.
func onServersAndAlike(t *testing.T, test func(t *testing.T, at site)) {
	t.Run("PostgreSQL as CockroachDB", func(t *testing.T) {
		at := postgresSite(t)
		at.as = new(cockroach)
		test(t, at)
	})
	onServers(t, test)
}

// cockroachSite is the server that the environment names. Without one, the test is reported as not
// run.
func cockroachSite(t *testing.T) site {
	t.Helper()
	at, err := cockroachAt(os.Getenv(cockroachURL))
	if err != nil {
		t.Fatalf("%s: %v", cockroachURL, err)
	}
	if at == nil {
		shardtest.NotRun(t, "CockroachDB", strings.TrimSuffix(t.Name(), "/CockroachDB")+": "+cockroachURL+" is not set")
	}
	return *at
}

// cockroachAt is the site of a server's URL; nil for "".
func cockroachAt(server string) (*site, error) {
	if server == "" {
		return nil, nil
	}
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return nil, err
	}
	at := &site{name: "CockroachDB", as: new(cockroach)}
	plain := config.TLSConfig == nil
	for _, f := range config.Fallbacks {
		plain = plain || f.TLSConfig == nil
	}
	if plain {
		at.addr = fmt.Sprintf("%s:%d", config.Host, config.Port)
	}
	at.bare = func(t testing.TB) string { return cockroachDatabase(t, server) }
	at.database = func(t testing.TB) string {
		url := cockroachDatabase(t, server)
		if _, err := Migrate(t.Context(), at.options(url)); err != nil {
			t.Fatal(err)
		}
		return url
	}
	return at, nil
}

// cockroachDatabase makes an empty database on a server, which the test drops at its end. It
// returns the database's URL.
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
	t.Cleanup(func() { run("DROP DATABASE IF EXISTS " + name) })
	u.Path = "/" + name
	return u.String()
}

// TestNotRunOnCockroachDB reports the tests that never run on CockroachDB.
func TestNotRunOnCockroachDB(t *testing.T) {
	shardtest.NotRun(t, "CockroachDB", "servers that are stopped, killed or frozen, TLS and passwords: tests do no such thing to a server that is not theirs; "+
		"plans and rows read: EXPLAIN is read as PostgreSQL words it; silent connections")
}
