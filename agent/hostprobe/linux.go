package hostprobe

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// diskSize is the size of a file system as df tells it.
func diskSize(path string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	unit := int64(s.Frsize)
	if unit <= 0 {
		unit = int64(s.Bsize)
	}
	if unit <= 0 || s.Blocks > uint64(1<<62/unit) {
		return 0, fmt.Errorf("%s: a file system of %d blocks of %d bytes", path, s.Blocks, unit)
	}
	return int64(s.Blocks) * unit, nil
}

// lockFile takes the lock of an open file, which ends with the process; false when
// another has it.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
