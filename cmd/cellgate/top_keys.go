package main

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// keyWait is how long a wait for a key lasts, in milliseconds: restore takes as long.
const keyWait = 100

// quitOnKey gives a context that ends when q is pressed at the terminal that in is; of anything else it gives ctx.
// Ctrl-C stays a signal. restore ends the wait for keys, and gives the terminal back as it was.
func quitOnKey(ctx context.Context, in io.Reader) (_ context.Context, restore func()) {
	f, ok := in.(*os.File)
	if !ok || !isTerminal(f) {
		return ctx, func() {}
	}
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return ctx, func() {}
	}
	keys := *was
	keys.Lflag &^= unix.ICANON | unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &keys); err != nil {
		return ctx, func() {}
	}
	ctx, quit := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer quit()
		for ctx.Err() == nil {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(ready, keyWait); n == 0 || err == unix.EINTR {
				continue
			}
			var key [1]byte
			if n, err := unix.Read(fd, key[:]); n < 1 || err != nil || key[0] == 'q' {
				return
			}
		}
	}()
	return ctx, func() {
		quit()
		<-ended
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, was)
	}
}
