package sqlshard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is the kind of database server. All differences between the two are here.
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

// mustBe fails if a URL's scheme demands another server.
func (s server) mustBe(demanded *server, version string) error {
	if demanded != nil && *demanded != s {
		return fmt.Errorf("its URL says %v, and the server is %s", *demanded, version)
	}
	return nil
}

// keyType is the type of text that sorts by its bytes. PostgreSQL sorts by the database's locale by default.
// CockroachDB's plain strings always sort by bytes, and its 20.2 line has no COLLATE "C".
func (s server) keyType() string {
	if s == cockroach {
		return "text"
	}
	return `text COLLATE "C"`
}

// needsGuards reports whether rows guard the claims of a consumer and of a group (ADR 10). CockroachDB itself detects
// a claim that was added to what a transaction read.
func (s server) needsGuards() bool { return s == postgres }

// readLane is the statement by which a transaction reads its lane.
func (s server) readLane() string {
	if s == cockroach {
		return readLane
	}
	return lockLane
}

// hints are index hints in statements, for CockroachDB only. While a table fills, its statistics are old or missing.
// For 62 consumers CockroachDB then reads all claims: this is slow, and conflicts with every claim of other
// transactions. PostgreSQL has session settings for this.
var hints = strings.NewReplacer(
	"@claims_by_consumer", "", "@claims_by_host", "",
	"@ended_claims_by_consumer", "", "@ended_claims_by_host", "",
	"INNER LOOKUP JOIN", "JOIN",
)

// hinted gives a statement in the server's syntax.
func (s server) hinted(sql string) string {
	if s == cockroach {
		return sql
	}
	return hints.Replace(sql)
}

// putHostUsages overwrites rows that are locked.
func (s server) putHostUsages() string {
	if s == cockroach {
		return upsertHostUsages
	}
	return putHostUsages
}

// begin starts a transaction that locks what it depends on. CockroachDB checks serializability by default; newer
// versions have weaker levels, so the level is named.
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

// session runs on each new connection. statement_timeout is in milliseconds: CockroachDB accepts it without a unit
// too.
//
// PostgreSQL keeps the plan of a prepared statement: a plan made while a table is small would read the whole table
// for ever. Every statement here finds its rows by an index, so other plans are switched off. Their inflated costs
// must then not start its JIT compiler. By default it would plan statements with short lists each time, because short
// lists look cheap.
func (s server) session(o Options) string {
	set := fmt.Sprintf("SET statement_timeout = %d", o.StatementTimeout.Milliseconds())
	if s == postgres {
		set += "; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan"
	}
	return set
}

// idleLimit bounds how long a session may be idle in a transaction before the server ends it; 0 for no bound.
// Otherwise both servers keep the locks of an idle client: CockroachDB's heartbeats come from its node. CockroachDB
// has the setting since 20.2; older ones refuse it.
func idleLimit(d time.Duration) string {
	return fmt.Sprintf("SET idle_in_transaction_session_timeout = %d", d.Milliseconds())
}

// filters gives the settings for a transaction that searches hosts; "" for none. The settings of session suit a
// filter that goes from host to host. One that reads whole tables must be allowed to, and must not go host by host.
// PostgreSQL underestimates the hosts left after each condition, because the conditions depend on each other.
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

// ddlInTransaction: CockroachDB's schema changes run as jobs after the commit, and can fail there.
func (s server) ddlInTransaction() bool { return s == postgres }

// checkName fails for a database name that PostgreSQL would truncate: two cells could then share a database.
func (s server) checkName(name string) error {
	if most := 63; s == postgres && len(name) > most {
		return fmt.Errorf("the name of database %s has %d bytes, and PostgreSQL's have %d at most", name, len(name), most)
	}
	return nil
}

// createDatabase makes a database. PostgreSQL copies template1 by default, which fails while someone is connected to
// it.
func (s server) createDatabase(name string) string {
	quoted := pgx.Identifier{name}.Sanitize()
	if s == cockroach {
		return "CREATE DATABASE IF NOT EXISTS " + quoted
	}
	return "CREATE DATABASE " + quoted + " TEMPLATE template0 ENCODING 'UTF8'"
}

// system is a database that always exists.
func (s server) system() string {
	if s == cockroach {
		return "defaultdb"
	}
	return "postgres"
}
