package pebbleshard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Inspection is what a shard's directory shows without being opened.
type Inspection struct {
	// Exists: the directory exists.
	Exists bool
	// HeldBy is the id of the process that has the shard open; 0 for none. A shard that this process itself has open
	// shows 0.
	HeldBy int
	// Holder is the holder's name of itself. If no process holds the shard, it is that of the last one if it did not
	// stop cleanly. "" for none.
	Holder string
	// Newest is the time of the last write to a file in it; zero if there is none.
	Newest time.Time
}

// Inspect reads a shard's directory while another process may have it open: it writes nothing and takes no lock, not
// even for a moment. It gives the errors of Open for a directory that cannot be created, has foreign files, belongs
// to another cell or format, or has damaged rows. A holder is not an error; the rows of a held shard are not read.
// The calling process must not have opened the shard itself.
func Inspect(dir string, opts Options) (Inspection, error) {
	var seen Inspection
	opts, err := opts.complete()
	if err != nil {
		return seen, err
	}
	if _, err := os.Stat(dir); err != nil {
		return seen, makeable(vfs.Default, dir)
	}
	seen.Exists = true
	const may = 0x2 | 0x1 // to write in a directory and to go through it
	if err := syscall.Access(dir, may); err != nil {
		return seen, fmt.Errorf("data directory %s cannot be written: %w; give one that this user may write to", dir, err)
	}
	d := &directory{fs: vfs.Default, path: dir}
	if err := d.checkFiles(); err != nil {
		return seen, err
	}
	if _, err := d.checkShard(opts); err != nil {
		return seen, err
	}
	if text, err := d.read(holderFile); err == nil {
		seen.Holder = strings.TrimSpace(text)
	}
	if seen.HeldBy, err = lockedBy(d.in(lockFile)); err != nil {
		return seen, fmt.Errorf("data directory %s: %s cannot be looked at: %w", dir, lockFile, err)
	}
	if seen.Newest, err = lastWriteBelow(dir); err != nil || seen.HeldBy != 0 {
		return seen, err
	}
	if err := d.verify(opts); err != nil {
		// A process that opens the shard meanwhile creates and deletes files.
		if seen.HeldBy, _ = lockedBy(d.in(lockFile)); seen.HeldBy == 0 {
			return seen, err
		}
	}
	return seen, nil
}

// verify reads every row of a shard that no process has open, in memory, and checks that nothing acknowledged is
// missing. It writes nothing and takes no lock. It returns the first problem that it finds.
func (d *directory) verify(opts Options) error {
	if _, err := d.fs.Stat(d.in(formatFile)); errors.Is(err, os.ErrNotExist) {
		return nil // no row was written yet
	}
	high, accepted, err := d.readMark()
	if err != nil {
		return err
	}
	if accepted {
		return fmt.Errorf("data directory %s: its %s says %s: the next start goes on without the acknowledged claims that cannot be read", d.path, markFile, acceptLoss)
	}
	opts.Log = slog.New(slog.DiscardHandler)
	s := newStore(opts, d)
	err = s.readOnly(unlocked{d.fs}, func() error {
		if err := s.loadChecked(high); err != nil {
			return err
		}
		it, err := s.db.NewIter(nil)
		if err != nil {
			return err
		}
		for ok := it.First(); ok && err == nil; ok = it.Next() {
			_, err = it.ValueAndErr()
		}
		return errors.Join(err, it.Close())
	})
	if err == nil || high.commit == 0 && errors.Is(err, pebble.ErrDBDoesNotExist) {
		return nil
	}
	return s.refusal(err, false)
}

// unlocked is a file system whose locks do nothing.
type unlocked struct{ vfs.FS }

func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// lockedBy gives the id of the process that has locked a file as Pebble does; 0 for none.
func lockedBy(path string) (pid int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return 0, err
	}
	if lock.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(lock.Pid), nil
}

// lastWriteBelow gives the time of the last write below a directory, also if dir is a link to it, as systemd makes for
// StateDirectory with DynamicUser. Files that disappear meanwhile are ignored: the store may be running.
func lastWriteBelow(dir string) (at time.Time, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(_ string, e fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil && !e.IsDir() && info.ModTime().After(at) {
				at = info.ModTime()
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	return at, err
}
