package sqlshard

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
	"cellgate/internal/testwait"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// A process that stands still in a transaction loses its locks after IdleTimeout.
func TestAReplicaThatStandsStillLosesItsLocks(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		patient := opts
		opts.IdleTimeout = 100 * time.Millisecond
		still, other := newStand(t, opts), newStand(t, patient)
		if !still.boundsIdle {
			shardtest.NotRun(t, at.name, t.Name()+": the server has no limit for transactions that stand still")
		}
		c := pooled(t, still.Store)
		defer c.Release()
		lock := &pgx.Batch{} // sent at once, so that a slow machine does not stand still between the two
		lock.Queue("BEGIN")
		lock.Queue(lockHosts, []string{shardtest.HostID(1)})
		if err := c.SendBatch(t.Context(), lock).Close(); err != nil {
			t.Fatal(err)
		}
		if err := other.claim(1); err != nil {
			t.Errorf("Apply of another replica: %v", err)
		}
		if _, err := c.Exec(t.Context(), "COMMIT"); meaning(err) != lost {
			t.Errorf("the one that stood still goes on: %v", err)
		}
	})
}

// The visit function of a Load may stand still. The idle limit applies again to the next user of
// the connection.
func TestALoadMayStandStill(t *testing.T) {
	for _, as := range []server{postgres, cockroach} {
		opts := testOptions(newDatabase(t))
		opts.as, opts.MaxConns, opts.IdleTimeout = &as, 1, 50*time.Millisecond
		s := newStand(t, opts)
		visits := 0
		_, err := s.Load(t.Context(), func(shard.Change) error {
			visits++
			still := "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cellgate cell1' AND datname = current_database() " +
				"AND state = 'idle in transaction' AND clock_timestamp() - state_change > interval '200 ms'"
			waitFor(t, opts.URL, still, 1)
			return nil
		})
		if err != nil || visits != 1 {
			t.Errorf("Load: %d visits, %v", visits, err)
		}
		var limit string
		if err := s.pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&limit); err != nil || limit != "50ms" {
			t.Errorf("afterwards the limit is %s, %v", limit, err)
		}
	}
}

// The store also uses a server that lacks the idle timeout. The log explains the consequence once.
func TestAServerThatCannotEndIdleTransactionsIsUsed(t *testing.T) {
	srv := pgtest.Start(t)
	for _, code := range []string{undefinedObject, invalidParameter, notSupported} {
		proxy, url := proxied(t, srv, newDatabase(t))
		proxy.SetPlan(func(st pgproxy.Statement) pgproxy.Fault {
			if strings.Contains(st.SQL, "idle_in_transaction_session_timeout") {
				return pgproxy.Fault{Kind: pgproxy.Error, Code: code}
			}
			return pgproxy.Fault{}
		})
		proxy.On(true)
		var log strings.Builder
		opts := testOptions(url)
		opts.as, opts.Log = new(cockroach), slog.New(slog.NewTextHandler(&log, nil))
		s := newStand(t, opts)
		if err := s.apply(shard.Op{Claim: shardtest.NewClaim(1, 1, 1)}); err != nil {
			t.Errorf("%s: Apply: %v", code, err)
		}
		s.pool.Reset()
		if n := s.live(); n != 1 {
			t.Errorf("%s: Load gives %d claims", code, n)
		}
		if n := strings.Count(log.String(), "stands still"); n != 1 {
			t.Errorf("%s: it was said %d times: %s", code, n, &log)
		}
	}
	proxy, url := proxied(t, srv, newDatabase(t))
	proxy.SetPlan(func(st pgproxy.Statement) pgproxy.Fault {
		if strings.Contains(st.SQL, "idle_in_transaction_session_timeout") {
			return pgproxy.Fault{Kind: pgproxy.Error, Code: insufficientPrivilege}
		}
		return pgproxy.Fault{}
	})
	proxy.On(true)
	if s, err := Open(t.Context(), testOptions(url)); err == nil {
		t.Error("a server that failed otherwise was used")
		mustClose(t, s)
	}
}

// CockroachDB reports a session that it ended for standing still as an unnamed internal error.
func TestTheEndOfAnIdleSessionIsALostConnection(t *testing.T) {
	for message, want := range map[string]trouble{
		"read tcp 10.0.0.2:26257->10.0.0.3:29501: i/o timeout": lost,
		"index out of range": broken,
	} {
		if got := meaning(&pgconn.PgError{Code: unnamedInternal, Message: message}); got != want {
			t.Errorf("%q means %v, want %v", message, got, want)
		}
	}
}

// If CockroachDB's nodes cannot reach each other, the store treats that as a lost connection: it
// may retry on another one, and a commit may have been done.
func TestNodesThatDoNotReachEachOtherAreALostConnection(t *testing.T) {
	for _, code := range []string{rangeUnavailable, nodeConnectionFailure} {
		if err := (&pgconn.PgError{Code: code}); meaning(err) != lost || commitRefused(err) {
			t.Errorf("%s means %v, refuses a commit: %v", code, meaning(err), commitRefused(err))
		}
	}
}

// waitFor repeats a count until it is want, for at most testwait.Limit.
func waitFor(t *testing.T, url, sql string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for n := -1; n != want; {
		if err := c.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatalf("%s is %d, want %d: %v", sql, n, want, err)
		}
	}
}
