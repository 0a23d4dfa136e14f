package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"cellgate/internal/bench"
	"cellgate/internal/config"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

const (
	// A shard that cannot write stops its cell.
	leastFree, enoughFree = 256 << 20, 5 << 30
	// Every claim waits for a sync.
	slowSync = 10 * time.Millisecond
	syncs    = 21
)

// shardDirectory is a directory that one process has to itself. Without a name it is memory, as for a
// cell that has only Nova's tables.
type shardDirectory struct{ config.Cell }

func (d shardDirectory) options() pebbleshard.Options {
	return pebbleshard.Options{
		Cell: d.Name, CellUUID: d.UUID, MaxDecisionBytes: int64(d.DecisionMiB) << 20,
		MaxClockJump: d.MaxClockJump, MaxJournalBytes: int64(d.JournalMiB) << 20, MaxEndedBytes: int64(d.EndedMiB) << 20,
	}
}

func (d shardDirectory) String() string { return d.Data }

func (d shardDirectory) flag() string { return "--data" }

func (d shardDirectory) check(context.Context) error {
	seen, err := pebbleshard.Inspect(d.Data, d.options())
	if err == nil && seen.HeldBy != "" {
		err = fmt.Errorf("data directory %s is held by %s; stop it, or give another directory", d.Data, seen.HeldBy)
	}
	return err
}

func (d shardDirectory) open(_ context.Context, memTable uint64, log *slog.Logger) (shard.Store, error) {
	opts := d.options()
	opts.Log, opts.MemTable = log, memTable
	if d.Data == "" {
		return pebbleshard.OpenMem(opts)
	}
	return pebbleshard.Open(d.Data, opts)
}

func (d shardDirectory) examine(context.Context) results {
	out := d.examineContents()
	at, err := nearest(d.Data)
	if err != nil {
		return append(out, diagnose(unhealthy, err.Error(), "give a directory on a disk that is there").named("disk")...)
	}
	return slices.Concat(out, examineDisk(at).named("disk"), d.timeDisk(at).named("disk's speed"))
}

// examineContents reports the shard in the directory, and which process has its lock.
func (d shardDirectory) examineContents() results {
	seen, err := pebbleshard.Inspect(d.Data, d.options())
	if err != nil {
		return diagnose(unhealthy, err.Error(), "do what it says; nothing of it was changed").named("shard " + d.Data)
	}
	out, lock := good("is of cell %s, format version %d", d.Name, pebbleshard.FormatVersion), good("is free")
	if !seen.Exists {
		out = good("is not there yet; it will be made")
	}
	if seen.HeldBy != "" {
		lock = diagnose(noted, fmt.Sprintf("is held by %s", seen.HeldBy), "nothing, if it is this cell that runs already; else stop that process first: a shard has one")
	}
	return append(out.named("shard "+d.Data), lock.named("lock of the shard")...)
}

func examineDisk(at string) results {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(at, &fs); err != nil {
		return diagnose(warned, fmt.Sprintf("free space under %s is not known: %v", at, err), "look at it yourself")
	}
	free := uint64(fs.Bavail) * uint64(fs.Bsize)
	return atLeast(free, leastFree, enoughFree, fmt.Sprintf("%.1f GiB are free under %s", float64(free)/(1<<30), at), "make room: a shard that cannot write ends its cell")
}

// timeDisk times syncs beside the shard, since the shard's directory has only the shard's files.
func (d shardDirectory) timeDisk(at string) results {
	beside := at
	if _, err := os.Stat(d.Data); err == nil {
		beside = filepath.Dir(at)
	}
	median, err := bench.SyncMedian(beside, syncs)
	what := fmt.Sprintf("a sync takes %v (median of %d, under %s)", median.Round(10*time.Microsecond), syncs, beside)
	switch {
	case err != nil:
		return diagnose(warned, fmt.Sprintf("was not measured: %v", err), "let this user write beside the shard, or measure the disk yourself")
	case median > slowSync:
		return diagnose(warned, what, "use a disk with a safe write cache: every claim waits for a sync or more, though more of them share one under load")
	}
	return good("%s", what)
}

// nearest gives a directory, or the nearest existing one above it.
func nearest(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(at); err == nil {
			if !info.IsDir() {
				return "", fmt.Errorf("%s is a file", at)
			}
			return at, nil
		}
		if !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at, err = filepath.Dir(at), nil
	}
	return "", err
}
