package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A note is a line of the chaos client's log: an answer that the client wrote and synced before
// acting on it.
type note struct {
	// Kind is one of the constants below.
	Kind string `json:"kind"`
	// Request is the request_id.
	Request string `json:"request"`
	// Sent is when the request was first sent, At when the answer arrived.
	Sent time.Time `json:"sent,omitzero"`
	At   time.Time `json:"at"`
	// Claims are the claims of an acknowledged request, in the order of its instances.
	Claims []noteClaim `json:"claims,omitempty"`
	// Essence is what a repeated request must be answered with.
	Essence string `json:"essence,omitempty"`
	// Claim is the claim_id, for the other kinds.
	Claim string `json:"claim,omitempty"`
	Error string `json:"error,omitempty"`
}

// The kinds of notes. A kind in "-ing" is written before the call, the other after its answer.
const (
	noteAcknowledged = "acknowledged"
	noteConfirming   = "confirming"
	noteConfirmed    = "confirmed"
	noteReleasing    = "releasing"
	noteReleased     = "released"
	// noteEnded: a confirm failed because the claim had ended.
	noteEnded = "ended"
	// noteOdd: an answer that the client must never get.
	noteOdd = "odd"
)

// noteClaim is one acknowledged claim.
type noteClaim struct {
	Consumer string `json:"consumer"`
	Claim    string `json:"claim"`
	Cell     string `json:"cell"`
	Host     string `json:"host"`
	// Expires is the end of the claim's lease in the answer, in store time. Zero for a claim
	// without a lease.
	Expires time.Time `json:"expires,omitzero"`
}

// noteLog appends notes durably. Notes that arrive during a sync share the next sync.
type noteLog struct {
	file  *os.File
	in    chan noteEntry
	ended chan struct{}
	once  sync.Once
	err   error
}

type noteEntry struct {
	line []byte
	done chan error
}

func newNoteLog(path string) (*noteLog, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l := &noteLog{file: f, in: make(chan noteEntry, 4096), ended: make(chan struct{})}
	go l.run()
	return l, nil
}

func (l *noteLog) run() {
	defer close(l.ended)
	w := bufio.NewWriterSize(l.file, 1<<20)
	for first := range l.in {
		batch := []noteEntry{first}
		for more := true; more && len(batch) < 4096; {
			select {
			case e, ok := <-l.in:
				if more = ok; ok {
					batch = append(batch, e)
				}
			default:
				more = false
			}
		}
		var err error
		for _, e := range batch {
			_, werr := w.Write(e.line)
			err = errors.Join(err, werr)
		}
		err = errors.Join(err, w.Flush(), l.file.Sync())
		for _, e := range batch {
			e.done <- err
		}
		l.err = errors.Join(l.err, err)
	}
	l.err = errors.Join(l.err, l.file.Close())
}

// write returns when the note is on disk.
func (l *noteLog) write(n note) error {
	n.At = time.Now()
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	e := noteEntry{line: append(line, '\n'), done: make(chan error, 1)}
	l.in <- e
	return <-e.done
}

func (l *noteLog) close() error {
	l.once.Do(func() { close(l.in) })
	<-l.ended
	return l.err
}

// readNotes reads the notes from an offset, and returns the offset after them.
func readNotes(path string, from int64) ([]note, int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, from, nil
	}
	if err != nil {
		return nil, from, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, from, err
	}
	var all []note
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				return nil, from, fmt.Errorf("%s ends in the middle of a note: %q", path, line)
			}
			return all, from, nil
		}
		if err != nil {
			return nil, from, err
		}
		var n note
		if err := json.Unmarshal(line, &n); err != nil {
			return nil, from, fmt.Errorf("%s at %d: %w", path, from, err)
		}
		all = append(all, n)
		from += int64(len(line))
	}
}
