package lifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// unixMode allows the owner and the group of the socket's file to connect.
const unixMode fs.FileMode = 0o660

// maxUnixPath is the longest socket path that the kernel accepts, in bytes.
const maxUnixPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// ListenUnix opens a listener at a path. At no moment can anyone but the owner and the group connect.
// It replaces a socket that a process left behind. A socket that is served, or a file of another kind,
// is an error that names the path and the flag. Closing the listener removes the file.
func ListenUnix(path, flag string) (net.Listener, error) {
	l, err := listenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s (--%s): %w", path, flag, err)
	}
	return l, nil
}

func listenUnix(path string) (net.Listener, error) {
	if err := vacant(path); err != nil {
		return nil, err
	}
	// Create the socket where nobody else has access, and move it to its place once its mode is right.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // empty, or not needed any more
	made := filepath.Join(dir, "s")
	if over := len(made) - maxUnixPath; over > 0 {
		return nil, fmt.Errorf("the directory's path is %d bytes too long for a socket", over)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	info, err := os.Stat(made)
	if err = errors.Join(err, os.Chmod(made, unixMode), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &unixListener{UnixListener: l, path: path, file: info}, nil
}

// vacant returns an error if no socket can be created at a path.
func vacant(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file is there and is no socket; remove it or give another path")
	}
	c, err := (&net.Dialer{Timeout: time.Second}).Dial("unix", path)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil // nobody serves it
	case err != nil:
		return err
	}
	_ = c.Close() // nothing was sent
	return errors.New("another process serves it; stop that or give another path")
}

// unixListener removes its file when it is closed, if the file is still its own.
type unixListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
	once sync.Once
	err  error
}

func (l *unixListener) Close() error {
	l.once.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.file) {
			l.err = os.Remove(l.path)
		}
		l.err = errors.Join(l.err, l.UnixListener.Close())
	})
	return l.err
}
