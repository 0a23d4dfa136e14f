package security

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// pollEvery is how often files are checked for changes.
const pollEvery = 2 * time.Second

// maxFile is the largest file accepted, in bytes.
const maxFile = 32 << 20

// readFile reads a file. Users outside its owner and group must not be able to write any file, or to
// read a secret one.
func readFile(path string, secret bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case secret && info.Mode().Perm()&0o007 != 0:
		return nil, fmt.Errorf("%s is a secret that every user of this machine may open (mode %04o): chmod o-rwx it", path, info.Mode().Perm())
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("%s may be written by every user of this machine (mode %04o): chmod o-w it", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// file is one of the files of a reloaded value.
type file struct {
	// key is the setting that names the file, within the section of TLS.
	key, path string
	secret    bool
}

// FileError says that a file, or the joint content of two files, cannot be used.
type FileError struct {
	// Key is the setting that names the file: cert, key, client_ca, tokens, ca or
	// token_file. Paths are the files that are read together.
	Key   string
	Paths []string
	// what describes the files for people.
	what string
	err  error
}

func (e *FileError) Error() string {
	text := e.err.Error()
	for _, p := range e.Paths {
		if strings.Contains(text, p) {
			return e.what + ": " + text
		}
	}
	return e.what + ": " + strings.Join(e.Paths, " and ") + ": " + text
}

func (e *FileError) Unwrap() error { return e.err }

// Do says what to do about the error.
func (e *FileError) Do() string {
	switch {
	case errors.Is(e.err, os.ErrNotExist):
		return "put the file there, or correct the path"
	case errors.Is(e.err, os.ErrPermission):
		return "let the user who runs this read it"
	}
	return "correct or replace it; see docs/reference/security.md"
}

// reloaded is a value parsed from files, and parsed again when they change.
type reloaded[T any] struct {
	what  string
	files []file
	parse func(texts [][]byte) (*T, error)
	// onChange is called with every new value; may be nil.
	onChange func(*T)
	now      atomic.Pointer[T]
	// sum is the hash of the content last read, lastError the last error logged. Only the poller uses
	// both.
	sum       [sha256.Size]byte
	lastError string
}

// load reads the files; changed is false if their content has not changed since the last call.
func (r *reloaded[T]) load() (changed bool, err error) {
	var texts [][]byte
	var errs []error
	h := sha256.New()
	for _, f := range r.files {
		text, err := readFile(f.path, f.secret)
		if err != nil {
			errs = append(errs, &FileError{Key: f.key, Paths: []string{f.path}, what: r.what, err: err})
			continue
		}
		texts = append(texts, text)
		_, _ = fmt.Fprintf(h, "%d ", len(text)) // hashes never fail
		_, _ = h.Write(text)
	}
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	if r.now.Load() != nil && sum == r.sum {
		return false, nil
	}
	v, err := r.parse(texts)
	if err != nil {
		bad := &FileError{Key: r.files[0].key, what: r.what, err: err}
		for _, f := range r.files {
			bad.Paths = append(bad.Paths, f.path)
		}
		return false, bad
	}
	r.sum = sum
	r.now.Store(v)
	if r.onChange != nil {
		r.onChange(v)
	}
	return true, nil
}

// poll reloads the files. On an error the present value stays in force, and the error is logged once.
func (r *reloaded[T]) poll(log *slog.Logger) {
	switch changed, err := r.load(); {
	case err != nil && err.Error() != r.lastError:
		r.lastError = err.Error()
		log.Error("a changed file cannot be used: what it held before stays in force", "err", err)
	case err == nil:
		r.lastError = ""
		if changed {
			log.Info("a file was read again", "what", r.what, "file", r.files[0].path)
		}
	}
}

// get returns the present value; nil if there are no files.
func (r *reloaded[T]) get() *T {
	if r == nil {
		return nil
	}
	return r.now.Load()
}

// poller is a reloaded of any type.
type poller interface {
	load() (bool, error)
	poll(*slog.Logger)
}

// loadAll reads all files for the first time, and returns all problems at once.
func loadAll(all []poller) error {
	var errs []error
	for _, p := range all {
		_, err := p.load()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pollAll polls all files periodically until ctx ends.
func pollAll(ctx context.Context, log *slog.Logger, all []poller) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				for _, p := range all {
					p.poll(log)
				}
			}
		}
	})
	return g.Wait()
}

func quoted(s string) string { return fmt.Sprintf("%.300q", s) }
