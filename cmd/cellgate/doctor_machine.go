package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cellgate/internal/bench"
	"cellgate/internal/config"
	"cellgate/shard/pebbleshard"
	"cellgate/shard/sqlshard"
)

const (
	// A shard that cannot write ends its cell.
	leastFree, enoughFree = 256 << 20, 5 << 30
	// Every claim waits for a sync.
	slowSync, verySlowSync = 10 * time.Millisecond, 50 * time.Millisecond
	syncs                  = 21
	leastFiles, manyFiles  = 1024, 8192
)

// database examines the database of a cell's shard.
func (d *doctor) database(c config.Cell) {
	check := "shard " + shardPlace(c)
	ctx, cancel := context.WithTimeout(context.Background(), databaseLimit)
	defer cancel()
	opts := databaseOptions(c)
	opts.Create, opts.Migrate = false, false
	st, err := sqlshard.ReadStatus(ctx, opts)
	if err == nil && len(st.Pending) == 0 {
		err = sqlshard.Check(ctx, opts)
	}
	switch {
	case err != nil:
		d.add(check, unhealthy, err.Error(), "do what it says; nothing of it was changed")
	case len(st.Pending) > 0 && !c.StoreMigrate:
		d.add(check, unhealthy, "its tables lack "+strings.Join(st.Pending, ", "), "run cellgate migrate up")
	case len(st.Pending) > 0:
		d.ok(check, "lacks %s, which the start will make", strings.Join(st.Pending, ", "))
	default:
		d.ok(check, "is of cell %s, schema step %d, on %s", c.Name, len(st.Applied), st.Server)
	}
}

// shard examines the directory of a cell's shard, of which seen or err was found.
// running is whether the cell runs at the address it is to.
func (d *doctor) shard(c config.Cell, seen pebbleshard.Inspection, err error, running bool) {
	check := "shard " + c.Data
	switch {
	case err != nil:
		d.add(check, unhealthy, err.Error(), "do what it says; nothing of it was changed")
	case !seen.Exists:
		d.ok(check, "is not there yet; it will be made")
	default:
		d.ok(check, "is of cell %s, format version %d", c.Name, pebbleshard.FormatVersion)
	}
	switch {
	case err != nil:
	case seen.HeldBy != 0 && running:
		d.ok("lock of the shard", "is held by process %d (%s): already running", seen.HeldBy, orUnnamed(seen.Holder))
	case seen.HeldBy != 0:
		d.add("lock of the shard", warned, fmt.Sprintf("is held by process %d (%s), which does not serve the ports of this configuration", seen.HeldBy, orUnnamed(seen.Holder)), "stop that process before this one starts: a shard has one")
	case seen.Holder != "":
		d.add("lock of the shard", noted, fmt.Sprintf("is free; the last holder (%s) did not stop in order", seen.Holder), "")
	default:
		d.ok("lock of the shard", "is free")
	}
	if newest := seen.Newest; newest.Sub(d.now()) > clockApart {
		d.add("clock and shard", unhealthy, fmt.Sprintf("the shard was written at %v, which is %v from now: the clock was set back, or is wrong", newest.UTC().Format(time.RFC3339), newest.Sub(d.now()).Round(time.Second)), "set the clock; store time never goes back, so leases would still last as long as they say")
	} else if seen.Exists {
		d.ok("clock and shard", "nothing of the shard is from the future")
	}
	d.disk(c.Data)
}

func orUnnamed(holder string) string {
	if holder == "" {
		return "which has not said its name"
	}
	return holder
}

// disk examines the file system that has, or will have, a directory.
func (d *doctor) disk(dir string) {
	at, err := nearest(dir)
	if err != nil {
		d.add("disk", unhealthy, err.Error(), "give a directory on a disk that is there")
		return
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(at, &fs); err != nil {
		d.add("disk", warned, fmt.Sprintf("free space under %s is not known: %v", at, err), "look at it yourself")
	} else {
		free := uint64(fs.Bavail) * uint64(fs.Bsize)
		what := fmt.Sprintf("%.1f GiB are free under %s", float64(free)/(1<<30), at)
		switch {
		case free < leastFree:
			d.add("disk", unhealthy, what, "make room: a shard that cannot write ends its cell")
		case free < enoughFree:
			d.add("disk", warned, what, "make room before it is needed")
		default:
			d.ok("disk", "%s", what)
		}
	}
	// Never inside the shard, whose directory has the shard's files only.
	beside := at
	if at == filepath.Clean(dir) || sameFile(at, dir) {
		beside = filepath.Dir(at)
	}
	median, err := bench.SyncMedian(beside, syncs)
	switch what := fmt.Sprintf("a sync takes %v (median of %d, under %s)", median.Round(10*time.Microsecond), syncs, beside); {
	case err != nil:
		d.add("disk's speed", warned, fmt.Sprintf("was not measured: %v", err), "let this user write beside the shard, or measure the disk yourself")
	case median > verySlowSync:
		d.add("disk's speed", warned, what, "use a disk with a safe write cache: every claim waits for a sync or more")
	case median > slowSync:
		d.add("disk's speed", warned, what, "claims are at least as slow; more of them share a sync under load")
	default:
		d.ok("disk's speed", "%s", what)
	}
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

// machine examines this machine's clock and limits.
func (d *doctor) machine(section string) {
	d.clock()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		d.add("open files", warned, "the limit is not known: "+err.Error(), "look at ulimit -n")
	} else {
		switch what := fmt.Sprintf("at most %d", files.Cur); {
		case files.Cur < leastFiles:
			d.add("open files", unhealthy, what, fmt.Sprintf("ulimit -n %d; with systemd, LimitNOFILE=%d", manyFiles, manyFiles))
		case files.Cur < manyFiles:
			d.add("open files", warned, what, fmt.Sprintf("ulimit -n %d; with systemd, LimitNOFILE=%d", manyFiles, manyFiles))
		default:
			d.ok("open files", "%s", what)
		}
	}
	free, from, err := freeMemory()
	least := int64(256 << 20)
	if section == "cell" {
		least = 512 << 20 // the table, and the store's caches
	}
	switch what := fmt.Sprintf("%.1f GiB are free (%s)", float64(free)/(1<<30), from); {
	case err != nil:
		d.add("memory", noted, "is not known: "+err.Error(), "")
	case free < least/2:
		d.add("memory", unhealthy, what, fmt.Sprintf("a %s needs %d MiB or more", section, least>>20))
	case free < least:
		d.add("memory", warned, what, fmt.Sprintf("a %s needs %d MiB or more", section, least>>20))
	default:
		d.ok("memory", "%s", what)
	}
}

// born is before any machine on which this runs.
var born = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// clock examines that the wall clock is plausible and goes as the monotonic one.
func (d *doctor) clock() {
	began := d.now()
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-d.ctx.Done():
	}
	ended := d.now()
	drift := ended.Round(0).Sub(began.Round(0)) - ended.Sub(began)
	switch {
	case began.Before(born):
		d.add("clock", unhealthy, "says "+began.UTC().Format(time.RFC3339), "set it; keep it by NTP")
	case drift.Abs() > 10*time.Millisecond:
		d.add("clock", warned, fmt.Sprintf("was moved by %v while it was looked at", drift), "see what sets it; a machine should slew its clock, not step it")
	default:
		d.ok("clock", "says %s and goes steadily", began.UTC().Format(time.RFC3339))
	}
}

// freeMemory is what this process may still use, in bytes: the machine's, or
// what its control group leaves.
func freeMemory() (free int64, from string, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, "", err
	}
	free = -1
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
			kib, perr := strconv.ParseInt(f[1], 10, 64)
			free, err = kib<<10, perr
		}
	}
	if free < 0 || err != nil {
		return 0, "", errors.Join(errors.New("/proc/meminfo has no MemAvailable"), err)
	}
	from = "of the machine"
	limit, err1 := numberIn("/sys/fs/cgroup/memory.max")
	used, err2 := numberIn("/sys/fs/cgroup/memory.current")
	if err1 == nil && err2 == nil && limit-used < free {
		return limit - used, "of the control group", nil
	}
	return free, from, nil
}

// numberIn reads a file with one number; "max" and no file are errors.
func numberIn(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
