package sqlshard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is what a database runs on. All differences between the two are here.
type server int

const (
	postgres server = iota
	cockroach
)

func (s server) String() string {
	if s == cockroach {
		return "CockroachDB"
	}
	return "PostgreSQL"
}

// detect asks a server what it is.
func detect(ctx context.Context, c *pgx.Conn) (server, string, error) {
	var version string
	if err := c.QueryRow(ctx, "SELECT version()").Scan(&version); err != nil {
		return 0, "", err
	}
	if strings.Contains(version, "CockroachDB") {
		return cockroach, version, nil
	}
	if !strings.HasPrefix(version, "PostgreSQL") {
		return 0, version, fmt.Errorf("the server is %q: neither CockroachDB nor PostgreSQL", version)
	}
	return postgres, version, nil
}

// mustBe fails for a server that is not what a URL's scheme demands, if it does.
func (s server) mustBe(demanded *server, version string) error {
	if demanded != nil && *demanded != s {
		return fmt.Errorf("its URL says %v, and the server is %s", *demanded, version)
	}
	return nil
}

// keyType is the type of text that sorts by its bytes. PostgreSQL sorts by the
// database's locale by default; CockroachDB's plain strings always sort so, and of
// the 20.2 line it has no COLLATE "C".
func (s server) keyType() string {
	if s == cockroach {
		return "text"
	}
	return `text COLLATE "C"`
}

// needsGuards reports whether rows stand for the claims of a consumer and of a group
// (ADR 10). CockroachDB itself sees a claim that was added to what a transaction read.
func (s server) needsGuards() bool { return s == postgres }

// readLane is how a transaction reads its lane.
func (s server) readLane() string {
	if s == cockroach {
		return readLane
	}
	return lockLane
}

// hints are what statements say to CockroachDB alone: by which index to find rows. While a
// table fills, its statistics are old or none, and for 62 consumers CockroachDB reads all
// claims instead: slow, and in conflict with each claim of another transaction. PostgreSQL
// has settings of the session for it.
var hints = strings.NewReplacer(
	"@claims_by_consumer", "", "@claims_by_host", "",
	"@ended_claims_by_consumer", "", "@ended_claims_by_host", "",
	"INNER LOOKUP JOIN", "JOIN",
)

// hinted gives a statement as the server reads it.
func (s server) hinted(sql string) string {
	if s == cockroach {
		return sql
	}
	return hints.Replace(sql)
}

// putHostUsages writes over rows that are locked.
func (s server) putHostUsages() string {
	if s == cockroach {
		return upsertHostUsages
	}
	return putHostUsages
}

// begin starts a transaction that locks what it depends on. CockroachDB always
// checks serializability; newer ones have weaker levels, so the level is named.
func (s server) begin(isolation string) string {
	if s == cockroach {
		return "BEGIN ISOLATION LEVEL SERIALIZABLE"
	}
	return "BEGIN ISOLATION LEVEL " + isolation
}

// beginSnapshot starts a transaction that reads as of one moment.
func (s server) beginSnapshot() string {
	if s == cockroach {
		return "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY"
	}
	return "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
}

// session runs on each new connection. statement_timeout is a number of
// milliseconds: CockroachDB has it without units too.
//
// PostgreSQL keeps the plan of a prepared statement: made while a table is small, it
// would read the whole of it for ever. Every statement here finds its rows by an index,
// so other plans are off; their costs then must not start its compiler. By default it
// would plan statements for short lists each time, as short lists appear cheap.
func (s server) session(o Options) string {
	set := fmt.Sprintf("SET statement_timeout = %d", o.StatementTimeout.Milliseconds())
	if s == postgres {
		set += "; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan"
	}
	return set
}

// idleLimit says how long a session may stand still in a transaction before the server ends
// it; 0 for ever. Both servers keep the locks of a client that stands still:
// CockroachDB's heartbeats are its node's. CockroachDB has the setting since 20.2; one
// that does not refuses it.
func idleLimit(d time.Duration) string {
	return fmt.Sprintf("SET idle_in_transaction_session_timeout = %d", d.Milliseconds())
}

// mayRefuseIdle: PostgreSQL has had the setting since 9.6.
func (s server) mayRefuseIdle() bool { return s == cockroach }

// filters readies a transaction to look for hosts; "" for nothing to say. What
// session says is right for a filter that goes from host to host. One that reads whole
// tables must be let, and must be kept from going on host by host: its conditions
// depend on each other, so PostgreSQL takes far too few hosts for left after each.
func (s server) filters(whole bool) string {
	if s == cockroach {
		return ""
	}
	set := "SET LOCAL plan_cache_mode = force_custom_plan"
	if whole {
		set += "; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '64MB'"
	}
	return set
}

// ddlInTransaction: CockroachDB's schema changes run as jobs after the commit, and
// can fail there.
func (s server) ddlInTransaction() bool { return s == postgres }

// checkName fails for a database's name of which PostgreSQL would drop the end: two cells
// could come to share a database.
func (s server) checkName(name string) error {
	if most := 63; s == postgres && len(name) > most {
		return fmt.Errorf("the name of database %s has %d bytes, and PostgreSQL's have %d at most", name, len(name), most)
	}
	return nil
}

// createDatabase makes a database. PostgreSQL copies template1 by default, which
// somebody may be connected to.
func (s server) createDatabase(name string) string {
	quoted := pgx.Identifier{name}.Sanitize()
	if s == cockroach {
		return "CREATE DATABASE IF NOT EXISTS " + quoted
	}
	return "CREATE DATABASE " + quoted + " TEMPLATE template0 ENCODING 'UTF8'"
}

// system is a database that is always there.
func (s server) system() string {
	if s == cockroach {
		return "defaultdb"
	}
	return "postgres"
}
