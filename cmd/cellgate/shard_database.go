package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"cellgate/internal/config"
	"cellgate/internal/telemetry"
	"cellgate/shard"
	"cellgate/shard/sqlshard"
)

const (
	// databaseLimit bounds how long a starting process waits for a database. Another replica may be
	// making the tables.
	databaseLimit = 60 * time.Second
	// migrationLimit bounds it for a process that may make the tables itself. On CockroachDB the steps
	// are some forty jobs, which take a second each on a busy server. The log says what the process
	// waits for.
	migrationLimit = 10 * time.Minute
)

// shardDatabase is a database that replicas of a cell share.
type shardDatabase struct{ config.Cell }

func (d shardDatabase) options() sqlshard.Options {
	return sqlshard.Options{
		Cell: d.Name, CellUUID: d.UUID, URL: d.Store, PasswordFile: d.StorePasswordFile,
		Create: d.StoreMigrate, Migrate: d.StoreMigrate, MaxDecisionBytes: int64(d.DecisionMiB) << 20,
	}
}

func (d shardDatabase) String() string { return sqlshard.Redacted(d.Store) }

func (d shardDatabase) flag() string { return "--store" }

func (d shardDatabase) check(ctx context.Context) error {
	if d.StoreMigrate {
		return nil // open makes what is not there
	}
	ctx, cancel := context.WithTimeout(ctx, databaseLimit)
	defer cancel()
	return sqlshard.Check(ctx, d.options())
}

func (d shardDatabase) open(ctx context.Context, _ uint64, log *slog.Logger) (shard.Store, error) {
	limit := databaseLimit
	if d.StoreMigrate {
		limit = migrationLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts := d.options()
	opts.Log = log
	return sqlshard.Open(ctx, opts)
}

func (d shardDatabase) examine(ctx context.Context) (out results) {
	ctx, cancel := context.WithTimeout(ctx, databaseLimit)
	defer cancel()
	st, err := sqlshard.ReadStatus(ctx, d.options())
	if err == nil && len(st.Pending) == 0 {
		err = sqlshard.Check(ctx, d.options())
	}
	switch {
	case err != nil:
		out = diagnose(unhealthy, err.Error(), "do what it says; nothing of it was changed")
	case len(st.Pending) > 0 && !d.StoreMigrate:
		out = diagnose(unhealthy, "its tables lack "+strings.Join(st.Pending, ", "), "run cellgate migrate up")
	case len(st.Pending) > 0:
		out = good("lacks %s, which the start will make", strings.Join(st.Pending, ", "))
	default:
		out = good("is of cell %s, schema step %d, on %s", d.Name, len(st.Applied), st.Server)
	}
	return out.named("shard " + d.String())
}

// watchShard has telemetry read the counts of a shard in a database.
func watchShard(tel telemetry.Cell, store shard.Store) {
	s, ok := store.(*sqlshard.Store)
	if !ok {
		return
	}
	tel.WatchStore(func() telemetry.StoreReading {
		c, pool := s.Counts(), s.Pool()
		return telemetry.StoreReading{
			Reruns: c.Races, Relocked: c.Relocked, ConnectionsLost: c.Lost, CommitsUnknown: c.Unknown, CommitsResolved: c.Resolved,
			StatementTimeouts: c.Slow, PoolEmpty: c.PoolEmpty, NoConnectionLeft: c.NoConnectionLeft, Refused: c.Refused,
			ConnectionsInUse: int(pool.AcquiredConns()), ConnectionsIdle: int(pool.IdleConns()),
			ConnectionsOpening: int(pool.ConstructingConns()), ConnectionsMax: int(pool.MaxConns()), Waited: pool.EmptyAcquireWaitTime(),
		}
	})
}
