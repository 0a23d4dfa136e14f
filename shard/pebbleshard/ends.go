package pebbleshard

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// DamagedError is about a file of the shard that no longer has the content written to it. It is in the error chain of
// a store that found one.
type DamagedError struct {
	// Dir is the shard's directory, File the damaged file.
	Dir, File string
	Err       error
	// LossAccepted: the operator wrote accept-loss to MARK, but that did not suffice.
	LossAccepted bool
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("data directory %s: %s is damaged (%v); %s", e.Dir, e.File, e.Err, remedy(e.Dir, e.LossAccepted))
}

func (e *DamagedError) Unwrap() error { return e.Err }

// remedy says what to do about a damaged shard.
func remedy(dir string, lossAccepted bool) string {
	const giveNew = "give a new directory, into which hosts report their instances again"
	if lossAccepted {
		return fmt.Sprintf("%s does not help: Pebble cannot open its files. Bring back a copy of the directory; without one, %s", acceptLoss, giveNew)
	}
	return fmt.Sprintf("bring back a copy of the directory. Without one, acknowledged claims are lost: to serve what can be read, echo %s >%s; if that does not help, %s",
		acceptLoss, filepath.Join(dir, markFile), giveNew)
}

// fatal is an error after which Pebble cannot go on.
type fatal string

func (f fatal) Error() string { return "pebble cannot go on: " + string(f) }

// ends is the first reason why the store cannot go on: a write or sync failed, or Pebble ended. nil while it can.
// Every operation checks it. So the store ends with an error of an operation, never with a panic on one of Pebble's own
// goroutines, which could not be recovered.
type ends struct {
	log *slog.Logger
	dir string
	// logNumber is the number of the log file being written.
	logNumber atomic.Uint64

	mu  sync.Mutex
	err error
	// left: one of Pebble's goroutines ended in the middle of its work.
	left bool
}

func (e *ends) set(err error, left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
	e.left = e.left || left
}

func (e *ends) reason() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// orDamage gives the damage that was found; err if there was none.
func (e *ends) orDamage(err error) error {
	if d := (*DamagedError)(nil); errors.As(e.reason(), &d) {
		return d
	}
	return err
}

func (e *ends) hasLostGoroutine() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left
}

// listener records damage that Pebble finds in its files, and the log that it writes. If a compaction on a goroutine
// of Pebble finds damage, this is the only report.
func listener(e *ends) *pebble.EventListener {
	return &pebble.EventListener{
		WALCreated: func(info pebble.WALCreateInfo) { e.logNumber.Store(uint64(info.FileNum)) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			e.set(&DamagedError{Dir: e.dir, File: info.Path, Err: info.Details}, false)
		},
		// Pebble retries at once, without end. If the machine fails a flush, writers would wait for that. Once the store
		// has ended, further errors tell nothing new.
		BackgroundError: func(err error) {
			switch number := syscall.Errno(0); {
			case errors.As(err, &number):
				e.set(err, false)
			case e.reason() == nil:
				e.log.Error("pebble: "+err.Error(), "directory", e.dir)
			}
		},
	}
}

// logger passes Pebble's error messages to the log.
type logger struct{ ends *ends }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.ends.log.Error("pebble: "+fmt.Sprintf(format, args...), "directory", l.ends.dir)
}

// Fatalf must not return. Within guarded it becomes the error of that call. A goroutine of Pebble ends here, and the
// next operation returns the reason.
func (l logger) Fatalf(format string, args ...any) {
	f := fatal(fmt.Sprintf(format, args...))
	ours := isGuarded()
	l.ends.set(f, !ours)
	if ours {
		panic(f)
	}
	runtime.Goexit()
}

// guarded turns Pebble's fatal error into an error. By default Pebble ends the process; here the call fails like any
// other.
func guarded(call func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fatal:
			err = p
		default:
			panic(p)
		}
	}()
	return call()
}

// isGuarded reports whether the calling goroutine is in guarded.
func isGuarded() bool {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "pebbleshard.guarded") {
			return true
		}
		if !more {
			return false
		}
	}
}
