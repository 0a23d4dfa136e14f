package hostprobe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"cellgate/schedule"
)

// diskSize is the size of a file system as df shows it, in bytes.
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

// diskUse returns the available space as df shows it, and the disk blocks of all files in the
// directories of dir whose names are uuids. Nova computes disk_available_least from the same, minus how
// much the disks of instances may still grow (nova/virt/libvirt/driver.py). If dir has other content
// and nothing of Nova's, the error is errNotInstancesPath.
func diskUse(dir string) (use DiskUse, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return use, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := int64(s.Frsize)
	if unit <= 0 {
		unit = int64(s.Bsize)
	}
	use = DiskUse{Available: int64(s.Bavail) * unit, Directories: map[string]int64{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return use, err
	}
	isNovas, isEmpty := false, true
	for _, e := range entries {
		id, err := schedule.ParseID(e.Name())
		if err != nil || !e.IsDir() {
			isNovas = isNovas || slices.Contains(novasOwn, e.Name())
			isEmpty = isEmpty && e.Name() == "lost+found"
			continue
		}
		isNovas = true
		used, err := blocksBelow(filepath.Join(dir, e.Name()))
		if err != nil {
			return use, err
		}
		use.Directories[id.String()] += used
	}
	if !isNovas && !isEmpty {
		return use, errNotInstancesPath
	}
	return use, nil
}

// novasOwn are the names that nova-compute creates in its instances_path beside instances' directories.
// None of them exists before the first image arrives.
var novasOwn = []string{"_base", "locks", "compute_nodes", "snapshots"}

// blocksBelow is how many bytes on disk the files of a directory take. A file that is removed meanwhile
// takes none.
func blocksBelow(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			total += stat.Blocks * 512
		}
		return nil
	})
	return total, err
}

// lockFile locks an open file for as long as the process runs; false if another process holds the lock.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
