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

// diskUse is what df tells as available, and the blocks of all files in the directories of dir whose names
// are uuids: nova/virt/libvirt/driver.py makes disk_available_least of the same, less how large the disks of
// instances may grow. A directory in which there are other things, and nothing of Nova's, is
// errNotInstancesPath.
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

// novasOwn is what nova-compute makes in its instances_path beside directories of instances; none of it
// before the first image comes.
var novasOwn = []string{"_base", "locks", "compute_nodes", "snapshots"}

// blocksBelow is how many bytes the files of a directory have on disk. One that goes meanwhile has none.
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

// lockFile takes the lock of an open file, which ends with the process; false when
// another has it.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
