package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cellgate/internal/bench"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard/pebbleshard"
	"cellgate/shard/sqlshard"
)

const (
	// A shard that cannot write ends its cell.
	leastFree, enoughFree = 256 << 20, 5 << 30
	// Every claim waits for a sync.
	slowSync              = 10 * time.Millisecond
	syncs                 = 21
	leastFiles, manyFiles = 1024, 8192
)

// atLeast judges an amount by the least that works and by what is enough.
func atLeast(n, least, enough uint64, what, do string) results {
	switch {
	case n < least:
		return diagnose(unhealthy, what, do)
	case n < enough:
		return diagnose(warned, what, do)
	}
	return good("%s", what)
}

// checkDatabase examines a shard in a database.
func checkDatabase(p *localProcess) (out results) {
	c := p.conf.Cell
	if c.Store == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, databaseLimit)
	defer cancel()
	opts := databaseOptions(c)
	opts.Create, opts.Migrate = false, false
	st, err := sqlshard.ReadStatus(ctx, opts)
	if err == nil && len(st.Pending) == 0 {
		err = sqlshard.Check(ctx, opts)
	}
	switch {
	case err != nil:
		out = diagnose(unhealthy, err.Error(), "do what it says; nothing of it was changed")
	case len(st.Pending) > 0 && !c.StoreMigrate:
		out = diagnose(unhealthy, "its tables lack "+strings.Join(st.Pending, ", "), "run cellgate migrate up")
	case len(st.Pending) > 0:
		out = good("lacks %s, which the start will make", strings.Join(st.Pending, ", "))
	default:
		out = good("is of cell %s, schema step %d, on %s", c.Name, len(st.Applied), st.Server)
	}
	return out.named("shard " + shardPlace(c))
}

// checkDirectory examines an embedded shard: what is there, who has its lock, and the clock.
func checkDirectory(p *localProcess) results {
	c, seen, ahead := p.conf.Cell, p.shard, p.shard.Newest.Sub(p.now())
	switch {
	case c.Store != "":
		return nil
	case p.shardErr != nil:
		return diagnose(unhealthy, p.shardErr.Error(), "do what it says; nothing of it was changed").named("shard " + c.Data)
	}
	out, lock := good("is of cell %s, format version %d", c.Name, pebbleshard.FormatVersion), good("is free")
	if !seen.Exists {
		out = good("is not there yet; it will be made")
	}
	if out = out.named("shard " + c.Data); ahead > clockApart {
		out = append(out, diagnose(unhealthy, fmt.Sprintf("the shard was written %v from now: the clock was set back, or is wrong", ahead.Round(time.Second)), "set the clock; store time never goes back, so leases would still last as long as they say").named("clock and shard")...)
	}
	switch {
	case seen.HeldBy != 0:
		holder := cmp.Or(seen.Holder, "which has not said its name")
		lock = diagnose(noted, fmt.Sprintf("is held by process %d (%s)", seen.HeldBy, holder), "nothing, if it is this cell that runs already; else stop that process first: a shard has one")
	case seen.Holder != "":
		lock = diagnose(noted, fmt.Sprintf("is free; the last holder (%s) did not stop in order", seen.Holder), "")
	}
	return append(out, lock.named("lock of the shard")...)
}

func checkDisk(p *localProcess) results {
	var fs syscall.Statfs_t
	switch {
	case p.conf.Cell.Store != "":
		return nil
	case p.directoryErr != nil:
		return diagnose(unhealthy, p.directoryErr.Error(), "give a directory on a disk that is there")
	}
	if err := syscall.Statfs(p.at, &fs); err != nil {
		return diagnose(warned, fmt.Sprintf("free space under %s is not known: %v", p.at, err), "look at it yourself")
	}
	free := uint64(fs.Bavail) * uint64(fs.Bsize)
	return atLeast(free, leastFree, enoughFree, fmt.Sprintf("%.1f GiB are free under %s", float64(free)/(1<<30), p.at), "make room: a shard that cannot write ends its cell")
}

func checkDiskSpeed(p *localProcess) results {
	if p.conf.Cell.Store != "" || p.directoryErr != nil {
		return nil
	}
	// Never inside the shard, whose directory has the shard's files only.
	beside := p.at
	if _, err := os.Stat(p.conf.Cell.Data); err == nil {
		beside = filepath.Dir(beside)
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

// nearest gives a directory, or the nearest one above it that is there.
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

// checkHost reads the machine and its identity, as its agent would.
func checkHost(p *localProcess) results {
	c := p.conf.Agent
	if c.Hosts > 0 {
		return nil
	}
	report, id, err := readHost(c)
	if err != nil {
		return each(err, "correct it; cellgate agent --print shows what is read")
	}
	amounts := joined(report.State.GetProviders()[0].GetInventories(), func(i *agentv1.Inventory) string { return fmt.Sprintf("%s %d", i.GetResourceClass(), i.GetTotal()) }, ", ")
	out := good("%s has %s", report.State.GetServiceHost(), amounts)
	for _, n := range report.Notes {
		out = append(out, diagnose(warned, n, "correct it, or leave it out")...)
	}
	own := good("%s", id.UUID)
	if id.New {
		own = diagnose(noted, "there is none yet in "+c.Host.StateDir, "the first start makes one; name Nova's compute_id in agent.host.uuid_file where nova-compute runs")
	}
	return append(out, own.named("host's uuid")...)
}

func checkOpenFiles(*localProcess) results {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return diagnose(warned, "the limit is not known: "+err.Error(), "look at ulimit -n")
	}
	return atLeast(files.Cur, leastFiles, manyFiles, fmt.Sprintf("at most %d", files.Cur), fmt.Sprintf("ulimit -n %d; with systemd, LimitNOFILE=%d", manyFiles, manyFiles))
}
