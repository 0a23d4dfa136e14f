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

	"github.com/cockroachdb/pebble/v2"
)

// DamagedError is a file of the shard that does not hold what was written to it.
// It is in the chain of the errors of a store that met one.
type DamagedError struct {
	// Dir is the shard's directory, File the damaged file.
	Dir, File string
	Err       error
	// LossAccepted: the operator wrote accept-loss to MARK, and that was not enough.
	LossAccepted bool
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("data directory %s: %s is damaged (%v); %s", e.Dir, e.File, e.Err, remedy(e.Dir, e.LossAccepted))
}

func (e *DamagedError) Unwrap() error { return e.Err }

// remedy says what to do about a shard that is not whole.
func remedy(dir string, lossAccepted bool) string {
	const giveNew = "give a new directory, into which hosts report their instances again"
	if lossAccepted {
		return fmt.Sprintf("%s does not help: Pebble cannot open its files. Bring back a copy of the directory; without one, %s", acceptLoss, giveNew)
	}
	return fmt.Sprintf("bring back a copy of the directory. Without one, acknowledged claims are lost: to serve what can be read, echo %s >%s; if that does not help, %s",
		acceptLoss, filepath.Join(dir, markFile), giveNew)
}

// fatal is what Pebble cannot go on from.
type fatal string

func (f fatal) Error() string { return "pebble cannot go on: " + string(f) }

// ends is why Pebble cannot go on, the first reason; nil while it can. It is asked
// by every operation, so that the store ends by an error of theirs and never by a
// panic on one of Pebble's own goroutines, which nobody could recover.
type ends struct {
	log *slog.Logger
	dir string
	// logNumber is that of the log file that is written.
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

func (e *ends) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// orDamage gives the damage that was met; err when there was none.
func (e *ends) orDamage(err error) error {
	if d := (*DamagedError)(nil); errors.As(e.why(), &d) {
		return d
	}
	return err
}

func (e *ends) gone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left
}

// listener takes what Pebble finds in its files, and which log it writes. Damage found
// by a compaction, on a goroutine of Pebble's, is reported nowhere else.
func listener(e *ends) *pebble.EventListener {
	return &pebble.EventListener{
		WALCreated: func(info pebble.WALCreateInfo) { e.logNumber.Store(uint64(info.FileNum)) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			e.set(&DamagedError{Dir: e.dir, File: info.Path, Err: info.Details}, false)
		},
		// It is tried again and again: once the store has ended that says nothing.
		BackgroundError: func(err error) {
			if e.why() == nil {
				e.log.Error("pebble: "+err.Error(), "directory", e.dir)
			}
		},
	}
}

// logger passes on what Pebble has to say to an operator.
type logger struct{ ends *ends }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.ends.log.Error("pebble: "+fmt.Sprintf(format, args...), "directory", l.ends.dir)
}

// Fatalf must not return. In a call of ours it is the error of that call; a
// goroutine of Pebble's ends here, and the next operation says why.
func (l logger) Fatalf(format string, args ...any) {
	f := fatal(fmt.Sprintf(format, args...))
	ours := isGuarded()
	l.ends.set(f, !ours)
	if ours {
		panic(f)
	}
	runtime.Goexit()
}

// guarded gives Pebble's fatal error as an error. Pebble ends the process at it;
// here it is a failed call like any other.
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

// isGuarded reports whether the calling goroutine is within guarded.
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
