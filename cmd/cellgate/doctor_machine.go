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

// shardState is what was seen of the directory of a cell's shard: at is it, or the nearest
// directory above that is there.
type shardState struct {
	seen  pebbleshard.Inspection
	err   error
	at    string
	atErr error
}

func hasDatabase(p *localProcess) bool  { return p.conf.Cell.Store != "" }
func hasDirectory(p *localProcess) bool { return p.conf.Cell.Store == "" }

func checkDatabase(p *localProcess) (out results) {
	c := p.conf.Cell
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

func checkShardDir(p *localProcess) (out results) {
	switch s := p.shard; {
	case s.err != nil:
		out = diagnose(unhealthy, s.err.Error(), "do what it says; nothing of it was changed")
	case !s.seen.Exists:
		out = good("is not there yet; it will be made")
	default:
		out = good("is of cell %s, format version %d", p.conf.Cell.Name, pebbleshard.FormatVersion)
	}
	return out.named("shard " + p.conf.Cell.Data)
}

func checkLock(p *localProcess) results {
	seen := p.shard.seen
	holder := cmp.Or(seen.Holder, "which has not said its name")
	switch {
	case p.shard.err != nil:
		return nil
	case seen.HeldBy != 0 && p.served:
		return good("is held by process %d (%s): already running", seen.HeldBy, holder)
	case seen.HeldBy != 0:
		return diagnose(warned, fmt.Sprintf("is held by process %d (%s), which does not serve the ports of this configuration", seen.HeldBy, holder), "stop that process before this one starts: a shard has one")
	case seen.Holder != "":
		return diagnose(noted, fmt.Sprintf("is free; the last holder (%s) did not stop in order", holder), "")
	}
	return good("is free")
}

func checkShardClock(p *localProcess) results {
	newest, now := p.shard.seen.Newest, p.now()
	if newest.Sub(now) > clockApart {
		return diagnose(unhealthy, fmt.Sprintf("the shard was written at %v, which is %v from now: the clock was set back, or is wrong", newest.UTC().Format(time.RFC3339), newest.Sub(now).Round(time.Second)), "set the clock; store time never goes back, so leases would still last as long as they say")
	}
	if !p.shard.seen.Exists {
		return nil
	}
	return good("nothing of the shard is from the future")
}

func checkDisk(p *localProcess) results {
	if p.shard.atErr != nil {
		return diagnose(unhealthy, p.shard.atErr.Error(), "give a directory on a disk that is there")
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(p.shard.at, &fs); err != nil {
		return diagnose(warned, fmt.Sprintf("free space under %s is not known: %v", p.shard.at, err), "look at it yourself")
	}
	free := uint64(fs.Bavail) * uint64(fs.Bsize)
	return atLeast(free, leastFree, enoughFree, fmt.Sprintf("%.1f GiB are free under %s", float64(free)/(1<<30), p.shard.at), "make room: a shard that cannot write ends its cell")
}

func checkDiskSpeed(p *localProcess) results {
	if p.shard.atErr != nil {
		return nil
	}
	// Never inside the shard, whose directory has the shard's files only.
	beside, dir := p.shard.at, p.conf.Cell.Data
	if beside == filepath.Clean(dir) || sameFile(beside, dir) {
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

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
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
func checkHost(p *localProcess) (out results) {
	c := p.conf.Agent
	report, id, err := readHost(c)
	if err != nil {
		for _, e := range split(err) {
			out = append(out, diagnose(unhealthy, chain(e), "correct it; cellgate agent --print shows what is read")...)
		}
		return out
	}
	var amounts []string
	for _, i := range report.State.GetProviders()[0].GetInventories() {
		amounts = append(amounts, fmt.Sprintf("%s %d", i.GetResourceClass(), i.GetTotal()))
	}
	out = good("%s has %s", report.State.GetServiceHost(), strings.Join(amounts, ", "))
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
