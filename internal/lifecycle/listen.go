package lifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// Listen opens a TCP listener. flag is the name of the flag that sets addr, without dashes; errors name
// both.
func Listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s: the port is in use; stop what uses it or give another address with --%s", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen on %s: not allowed; give a port above 1023 with --%s", addr, flag)
	}
	return nil, fmt.Errorf("cannot listen on %s (--%s): %w", addr, flag, err)
}

// unixMode allows the owner and the group of the socket's file to connect.
const unixMode = 0o660

// ListenUnix opens a listener at a path. At no moment can anyone but the owner and the group connect.
// It replaces a socket that a process left behind. A socket that is served, or a file of another kind,
// is an error that names the path and the flag. Closing the listener removes the file. It must not run
// beside code that makes files for others: it sets the process's umask for a moment.
func ListenUnix(path, flag string) (net.Listener, error) {
	err := makeVacant(path)
	if err == nil {
		before := syscall.Umask(0o777 &^ unixMode)
		defer syscall.Umask(before)
		var l net.Listener
		if l, err = net.Listen("unix", path); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("cannot listen on %s (--%s): %w", path, flag, err)
}

// makeVacant removes a socket that nobody serves. It returns an error if no socket can be created at a
// path.
func makeVacant(path string) error {
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
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path) // nobody serves it
	case err != nil:
		return err
	}
	_ = c.Close() // nothing was sent
	return errors.New("another process serves it; stop that or give another path")
}
