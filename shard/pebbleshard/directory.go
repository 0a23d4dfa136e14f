package pebbleshard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	formatFile = "FORMAT"
	lockFile   = "LOCK"
	pebbleDir  = "pebble"
	newSuffix  = ".new"
)

// directory is a shard's locked directory.
type directory struct {
	fs   vfs.FS
	path string
	lock io.Closer
}

// holdDirectory makes the directory if it does not exist, locks it, and checks that it has the requested shard. It
// does not change the directory of another shard.
func holdDirectory(fs vfs.FS, path string, opts Options) (*directory, error) {
	path, err := makeDirectory(fs, path)
	if err != nil {
		return nil, err
	}
	d := &directory{fs: fs, path: path}
	if err := d.checkFiles(); err != nil {
		return nil, err
	}
	if d.lock, err = d.hold(); err != nil {
		return nil, err
	}
	if err := d.claimFor(opts); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// hold locks the directory.
func (d *directory) hold() (io.Closer, error) {
	lock, err := d.fs.Lock(d.in(lockFile))
	if err == nil {
		return lock, nil
	}
	holder := "this process" // Pebble has its own text for that
	var file *os.PathError
	var number syscall.Errno
	switch {
	case errors.As(err, &file): // LOCK itself cannot be created or opened
		return nil, fmt.Errorf("data directory %s cannot be locked: %w; give one that this user may write to", d.path, err)
	case errors.As(err, &number):
		// POSIX allows two numbers for a lock that another process holds.
		if number != syscall.EAGAIN && number != syscall.EACCES {
			return nil, fmt.Errorf("data directory %s cannot be locked: %w", d.path, err)
		}
		holder, _ = lockedBy(d.in(lockFile))
	}
	return nil, fmt.Errorf("data directory %s is held by %s (%w); stop it, or give another directory", d.path, holder, err)
}

// makeDirectory makes the directory, and gives its canonical name.
func makeDirectory(fs vfs.FS, path string) (string, error) {
	var missing []string
	for p := path; p != fs.PathDir(p); p = fs.PathDir(p) {
		if _, err := fs.Stat(p); !errors.Is(err, os.ErrNotExist) {
			break
		}
		missing = append(missing, p)
	}
	err := fs.MkdirAll(path, 0o750)
	for _, p := range missing {
		if err == nil {
			err = syncDirectory(fs, fs.PathDir(p))
		}
	}
	if err != nil {
		return "", fmt.Errorf("data directory %s cannot be made: %w; give a place this user may write to", path, err)
	}
	return oneName(fs, path)
}

// oneName gives the canonical name, which identifies locks of this process.
func oneName(fs vfs.FS, path string) (string, error) {
	if fs != vfs.Default {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("data directory %s cannot be found: %w", path, err)
	}
	return abs, nil
}

// syncDirectory makes the entries of a directory durable.
func syncDirectory(fs vfs.FS, path string) error {
	d, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (d *directory) in(name string) string { return d.fs.PathJoin(d.path, name) }

// checkFiles refuses a directory with foreign files, before anything is written to it.
func (d *directory) checkFiles() error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return fmt.Errorf("data directory %s cannot be read: %w; give a directory that this user may read and write", d.path, err)
	}
	if slices.Contains(names, formatFile) {
		return nil
	}
	if slices.Contains(names, markFile) && d.hasAcknowledged() {
		return fmt.Errorf("data directory %s has lost its %s file; bring that back, or a copy of the directory", d.path, formatFile)
	}
	for _, n := range names {
		// These remain after a crash before the first FORMAT.
		if slices.Contains([]string{lockFile, markFile, markFile + newSuffix, formatFile + newSuffix}, n) {
			continue
		}
		inside, err := d.fs.List(d.in(n))
		if n != pebbleDir || err != nil || len(inside) > 0 {
			return fmt.Errorf("data directory %s is not a cellgate shard: it has %s and no %s file; give an empty or a new one", d.path, n, formatFile)
		}
	}
	return nil
}

// checkShard checks FORMAT against the options, and that the rows exist. found is false if there is no FORMAT yet.
func (d *directory) checkShard(opts Options) (found bool, err error) {
	text, err := d.read(formatFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("data directory %s: %s cannot be read: %w", d.path, formatFile, err)
	}
	if err := checkFormat(text, opts); err != nil {
		return false, fmt.Errorf("data directory %s %w", d.path, err)
	}
	if _, err := d.fs.Stat(d.in(pebbleDir)); err != nil {
		return false, fmt.Errorf("data directory %s has lost its rows: it has a %s file and no %s directory (%w); bring that back, or give a new directory", d.path, formatFile, pebbleDir, err)
	}
	return true, nil
}

// claimFor checks FORMAT, or writes MARK and FORMAT.
func (d *directory) claimFor(opts Options) error {
	found, err := d.checkShard(opts)
	if err != nil || found {
		return err
	}
	// Everything that FORMAT implies must exist before it.
	if err := d.fs.MkdirAll(d.in(pebbleDir), 0o750); err != nil {
		return fmt.Errorf("data directory %s: %s cannot be made: %w", d.path, pebbleDir, err)
	}
	if err := d.write(markFile, markText(highWater{})); err != nil {
		return fmt.Errorf("data directory %s: %s cannot be written: %w", d.path, markFile, err)
	}
	if err := d.write(formatFile, formatText(opts)); err != nil {
		return fmt.Errorf("data directory %s: %s cannot be written: %w", d.path, formatFile, err)
	}
	return nil
}

func (d *directory) read(name string) (string, error) {
	f, err := d.fs.Open(d.in(name))
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	return string(b), errors.Join(err, f.Close())
}

// write replaces a file, whole or not at all.
func (d *directory) write(name, text string) error {
	f, err := d.fs.Create(d.in(name+newSuffix), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.fs.Rename(d.in(name+newSuffix), d.in(name)); err != nil {
		return err
	}
	return syncDirectory(d.fs, d.path)
}

// checkRoom fails if the disk has too little room. A file system that does not say how much it has passes.
func (d *directory) checkRoom() error {
	free, err := d.fs.GetDiskUsage(d.path)
	if err != nil || free.AvailBytes >= leastRoom {
		return nil
	}
	return fmt.Errorf("data directory %s: %d MiB are free, and a start needs %d; give it room, and start again", d.path, free.AvailBytes>>20, leastRoom>>20)
}

func (d *directory) release() error { return d.lock.Close() }

// markersLast syncs a directory before Pebble creates the marker of its newest manifest in it. Pebble syncs the
// directory only afterwards. On a file system that does not order entries, a power cut could keep the marker but not
// the manifest that it names.
type markersLast struct{ vfs.FS }

func (f markersLast) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(f.PathBase(name), "marker.") {
		if err := syncDirectory(f.FS, f.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return f.FS.Create(name, category)
}
