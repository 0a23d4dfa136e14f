package pebbleshard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Inspection is what a shard's directory shows without being opened.
type Inspection struct {
	// Exists: the directory exists.
	Exists bool
	// HeldBy names the process that has the shard open; "" for none. A shard that this process itself has open shows "".
	HeldBy string
}

// Inspect reads a shard's directory while another process may have it open: it writes nothing and takes no lock, not
// even for a moment. It gives the errors of Open for a directory that cannot be created, has foreign files, or belongs
// to another cell or format. It reads no rows. A holder is not an error. The calling process must not have opened the
// shard itself.
func Inspect(dir string, opts Options) (Inspection, error) {
	var seen Inspection
	opts, err := opts.complete()
	if err != nil {
		return seen, err
	}
	if _, err := os.Stat(dir); err != nil {
		return seen, makeable(dir)
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
	if seen.HeldBy, err = lockedBy(d.in(lockFile)); err != nil {
		return seen, fmt.Errorf("data directory %s: %s cannot be looked at: %w", dir, lockFile, err)
	}
	return seen, nil
}

// makeable gives the error that creating a missing directory would give, as far as that shows without creating it.
func makeable(path string) error {
	const may = 0x2 | 0x1 // to write in a directory and to go through it
	var cause error
	for at := path; cause == nil; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			cause = fmt.Errorf("%s is a file, not a directory", at)
		case err == nil:
			if cause = syscall.Access(at, may); cause == nil {
				return nil
			}
			cause = fmt.Errorf("%s: %w", at, cause)
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR), at == filepath.Dir(at):
			cause = err
		default:
			if _, err := os.Lstat(at); err == nil {
				cause = fmt.Errorf("%s is a symbolic link to nothing", at)
			}
		}
	}
	return fmt.Errorf("data directory %s cannot be made: %w; give a place this user may write to", path, cause)
}

// lockedBy names the process that has locked a file as Pebble does; "" for none. It releases a lock of the calling
// process.
func lockedBy(path string) (holder string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return "", err
	}
	switch {
	case lock.Type == syscall.F_UNLCK:
		return "", nil
	case lock.Pid <= 0:
		return "a process of another container", nil
	}
	return fmt.Sprintf("process %d", lock.Pid), nil
}
