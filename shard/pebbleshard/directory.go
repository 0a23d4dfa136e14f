package pebbleshard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cellgate/internal/fault"
)

// FormatVersion is the version of the layout in doc.go and keys.go and of the
// rows in storagev1 that this package reads and writes.
const FormatVersion = 1

const (
	formatFile = "FORMAT"
	holderFile = "HOLDER"
	lockFile   = "LOCK"
	pebbleDir  = "pebble"
	newSuffix  = ".new"
)

// directory is a shard's directory, locked.
type directory struct {
	fs   vfs.FS
	path string
	lock io.Closer
}

// holdDirectory makes the directory if need be, locks it, and checks that it is
// the shard asked for. A directory that is not is left as it is.
func holdDirectory(fs vfs.FS, path string, opts Options) (*directory, error) {
	path, err := makeDirectory(fs, path)
	if err != nil {
		return nil, err
	}
	d := &directory{fs: fs, path: path}
	if err := d.checkFiles(); err != nil {
		return nil, err
	}
	if d.lock, err = fs.Lock(d.in(lockFile)); err != nil {
		holder := "another process"
		if text, rerr := d.read(holderFile); rerr == nil && strings.TrimSpace(text) != "" {
			holder = strings.TrimSpace(text)
		}
		return nil, fault.Wrap(fault.CellUnavailable, err, "data directory %s is held by: %s", path, holder)
	}
	if err := d.claimFor(opts); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// makeDirectory gives the directory's one name, by which locks of this process
// are known.
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
		return "", fault.Wrap(fault.CellUnavailable, err, "data directory %s cannot be made", path)
	}
	if fs != vfs.Default {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fault.Wrap(fault.CellUnavailable, err, "data directory %s cannot be found", path)
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

// checkFiles refuses a directory with files of something else, before anything
// is written to it.
func (d *directory) checkFiles() error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return fault.Wrap(fault.CellUnavailable, err, "data directory %s cannot be read", d.path)
	}
	if slices.Contains(names, formatFile) {
		return nil
	}
	for _, n := range names {
		// What a crash before the first FORMAT leaves.
		if n == lockFile || n == formatFile+newSuffix {
			continue
		}
		inside, err := d.fs.List(d.in(n))
		if n != pebbleDir || err != nil || len(inside) > 0 {
			return fault.New(fault.InvalidRequest, "data directory %s is not a cellgate shard: it has %s and no %s file", d.path, n, formatFile)
		}
	}
	return nil
}

// claimFor checks FORMAT against what is wanted, or writes it, and writes HOLDER.
func (d *directory) claimFor(opts Options) error {
	text, err := d.read(formatFile)
	switch {
	case err == nil:
		if err := d.checkFormat(text, opts); err != nil {
			return err
		}
		if _, err := d.fs.Stat(d.in(pebbleDir)); err != nil {
			return fault.Wrap(fault.InvalidRequest, err, "data directory %s has lost its rows: it has a %s file and no %s directory", d.path, formatFile, pebbleDir)
		}
	case errors.Is(err, os.ErrNotExist):
		// The directory of the rows is there before FORMAT says that it is.
		err := d.fs.MkdirAll(d.in(pebbleDir), 0o750)
		if err == nil {
			err = d.write(formatFile, formatText(opts))
		}
		if err != nil {
			return fault.Wrap(fault.CellUnavailable, err, "data directory %s: %s cannot be written", d.path, formatFile)
		}
	default:
		return fault.Wrap(fault.CellUnavailable, err, "data directory %s: %s cannot be read", d.path, formatFile)
	}
	holder := opts.Holder
	if holder == "" {
		holder = fmt.Sprintf("pid %d", os.Getpid())
	}
	if err := d.write(holderFile, holder+"\n"); err != nil {
		return fault.Wrap(fault.CellUnavailable, err, "data directory %s: %s cannot be written", d.path, holderFile)
	}
	return nil
}

func formatText(opts Options) string {
	return fmt.Sprintf("cellgate shard\nformat %d\ncell %s\nuuid %s\n", FormatVersion, opts.Cell, opts.CellUUID)
}

func (d *directory) checkFormat(text string, opts Options) error {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	version := 0
	if len(lines) >= 2 && lines[0] == "cellgate shard" {
		if v, ok := strings.CutPrefix(lines[1], "format "); ok {
			version, _ = strconv.Atoi(v) // 0, not a version, when it is no number
		}
	}
	if version == 0 {
		return fault.New(fault.InvalidRequest, "data directory %s is not a cellgate shard: its %s file begins with %q", d.path, formatFile, lines[0])
	}
	if version != FormatVersion {
		return fault.New(fault.InvalidRequest, "data directory %s has format version %d, this program reads and writes version %d", d.path, version, FormatVersion)
	}
	if text != formatText(opts) {
		var cell, uuid string
		if len(lines) == 4 {
			cell, uuid = strings.TrimPrefix(lines[2], "cell "), strings.TrimPrefix(lines[3], "uuid ")
		}
		return fault.New(fault.InvalidRequest, "data directory %s is of cell %q (uuid %q), not of cell %q (uuid %q)", d.path, cell, uuid, opts.Cell, opts.CellUUID)
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

// release gives the directory up.
func (d *directory) release() error {
	return errors.Join(d.fs.Remove(d.in(holderFile)), d.lock.Close())
}
