package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"cellgate/internal/config"
	"cellgate/internal/telemetry"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
	"cellgate/shard/sqlshard"
)

const (
	// databaseLimit bounds what is asked of a database before a process starts. Another
	// replica may be making the tables.
	databaseLimit = 60 * time.Second
	// migrationLimit is that of who may make them itself: on CockroachDB the steps are some
	// forty jobs, which take a second each on a server that is busy. What is waited for is
	// logged.
	migrationLimit = 10 * time.Minute
)

func shardOptions(c config.Cell) pebbleshard.Options {
	return pebbleshard.Options{
		Cell: c.Name, CellUUID: c.UUID, MaxDecisionBytes: int64(c.DecisionMiB) << 20,
		MaxClockJump: c.MaxClockJump, MaxJournalBytes: int64(c.JournalMiB) << 20, MaxEndedBytes: int64(c.EndedMiB) << 20,
		Holder: fmt.Sprintf("cellgate, cell %s, pid %d", c.Name, os.Getpid()),
	}
}

func databaseOptions(c config.Cell) sqlshard.Options {
	return sqlshard.Options{
		Cell: c.Name, CellUUID: c.UUID, URL: c.Store, PasswordFile: c.StorePasswordFile,
		Create: c.StoreMigrate, Migrate: c.StoreMigrate, MaxDecisionBytes: int64(c.DecisionMiB) << 20,
	}
}

// shardPlace says where a cell's shard is.
func shardPlace(c config.Cell) string {
	if c.Store != "" {
		return sqlshard.Redacted(c.Store)
	}
	return c.Data
}

// shardError says whose shard cannot be opened, and by which flag it is found.
func shardError(c config.Cell, err error) error {
	flag := "--data"
	if c.Store != "" {
		flag = "--store"
	}
	return fmt.Errorf("cell %s: %w (%s)", c.Name, err, flag)
}

// checkShard gives the error with which opening a cell's shard would end at once,
// and changes nothing. It gives up when ctx ends.
func checkShard(ctx context.Context, c config.Cell) error {
	err := error(nil)
	if c.Store == "" {
		err = pebbleshard.Check(c.Data, shardOptions(c))
	} else if !c.StoreMigrate {
		ctx, cancel := context.WithTimeout(ctx, databaseLimit)
		defer cancel()
		err = sqlshard.Check(ctx, databaseOptions(c))
	}
	if err != nil {
		return shardError(c, err)
	}
	return nil
}

// openShard opens a cell's shard, embedded or in a database; for a database it gives up
// when ctx ends. memTable is of an embedded one (pebbleshard.Options).
func openShard(ctx context.Context, c config.Cell, memTable uint64, log *slog.Logger) (shard.Store, error) {
	var s shard.Store
	var err error
	if c.Store == "" {
		opts := shardOptions(c)
		opts.Log, opts.MemTable = log, memTable
		if c.Data == "" { // a command's own cell has a directory: config says so
			s, err = pebbleshard.OpenMem(opts)
		} else {
			s, err = pebbleshard.Open(c.Data, opts)
		}
	} else {
		limit := databaseLimit
		if c.StoreMigrate {
			limit = migrationLimit
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		opts := databaseOptions(c)
		opts.Log = log
		s, err = sqlshard.Open(ctx, opts)
	}
	if err != nil {
		return nil, shardError(c, err)
	}
	return s, nil
}

// watchShard has metrics of what a shard in a database went through.
func watchShard(tel *telemetry.Cell, store shard.Store) {
	s, ok := store.(*sqlshard.Store)
	if !ok {
		return
	}
	tel.WatchStore(func() telemetry.StoreReading {
		c, pool := s.Counts(), s.Connections()
		return telemetry.StoreReading{
			Reruns: c.Races, Relocked: c.Relocked, ConnectionsLost: c.Lost, CommitsUnknown: c.Unknown, CommitsResolved: c.Resolved,
			StatementTimeouts: c.Slow, PoolEmpty: c.PoolEmpty, NoConnectionLeft: c.NoConnectionLeft, Refused: c.Refused,
			ConnectionsInUse: pool.InUse, ConnectionsIdle: pool.Idle, ConnectionsOpening: pool.Opening, ConnectionsMax: pool.Max,
			Waited: pool.Waited,
		}
	})
}
