package main

import (
	"context"
	"fmt"
	"log/slog"

	"cellgate/internal/config"
	"cellgate/shard"
)

// shardPlace is where a cell's shard is, with all that commands know of that kind of place. Another
// kind needs another type and a line in placeOf.
type shardPlace interface {
	// String hides the password. flag gives the flag that names the place.
	String() string
	flag() string
	// check gives the error with which open would fail at once, and changes nothing.
	check(ctx context.Context) error
	// open waits while another process keeps the shard, until ctx ends. memTable is for an embedded
	// shard (pebbleshard.Options).
	open(ctx context.Context, memTable uint64, log *slog.Logger) (shard.Store, error)
	// examine gives doctor's results for the place. It changes nothing in the shard.
	examine(ctx context.Context) results
}

func placeOf(c config.Cell) shardPlace {
	if c.Store != "" {
		return shardDatabase{c}
	}
	return shardDirectory{c}
}

// checkShard gives the error with which opening a cell's shard would fail at once, and changes nothing.
// It gives up when ctx ends.
func checkShard(ctx context.Context, c config.Cell) error {
	p := placeOf(c)
	return shardError(c, p, p.check(ctx))
}

func openShard(ctx context.Context, c config.Cell, memTable uint64, log *slog.Logger) (shard.Store, error) {
	p := placeOf(c)
	s, err := p.open(ctx, memTable, log)
	if err != nil {
		return nil, shardError(c, p, err)
	}
	return s, nil
}

// shardError adds whose shard cannot be opened, and the flag that names its place.
func shardError(c config.Cell, p shardPlace, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cell %s: %w (%s)", c.Name, err, p.flag())
}

// examineShard has doctor examine the place of a cell's shard.
func examineShard(p *localProcess) results {
	return placeOf(p.conf.Cell).examine(p.ctx)
}
