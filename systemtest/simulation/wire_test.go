package simulation

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// wire is the dialling end of one connection.
type wire struct {
	net.Conn
	network     *network
	from, to    string
	incarnation *incarnation
	once        sync.Once
	gone        chan struct{}
	mu          sync.Mutex
	rng         *rand.Rand
	last        lastWords
}

var errCut = errors.New("the connection was cut")

// kill ends the wire. Bytes in flight are lost.
func (w *wire) kill() {
	w.once.Do(func() { close(w.gone) })
	_ = w.Conn.Close() // of bufconn: never fails
}

// leave closes only the near end of a wire that outlives its part. It returns false for any other
// wire.
func (w *wire) leave() bool {
	if !w.last.leaves() {
		return false
	}
	w.once.Do(func() { close(w.gone) })
	_ = w.Conn.SetReadDeadline(time.Now()) // of bufconn: never fails
	return true
}

func (w *wire) Close() error {
	if w.leave() {
		return nil
	}
	w.network.mu.Lock()
	delete(w.network.link(w.from, w.to).wires, w)
	w.network.mu.Unlock()
	w.kill()
	return nil
}

func (w *wire) Read(p []byte) (int, error) {
	got, err := w.Conn.Read(p)
	if err != nil {
		return got, err
	}
	return got, w.pass()
}

func (w *wire) Write(p []byte) (int, error) {
	if err := w.pass(); err != nil {
		return 0, err
	}
	if kept, err := w.last.keeps(p); kept {
		return len(p), err
	}
	n, err := w.Conn.Write(p)
	if err != nil {
		w.kill() // the part sees a closed connection, so it must read nothing more
	}
	return n, err
}

// pass waits for the link's delay, and until the link is not held.
func (w *wire) pass() error {
	w.network.mu.Lock()
	l := w.network.link(w.from, w.to)
	late := l.late
	w.network.mu.Unlock()
	if late > 0 {
		w.mu.Lock()
		d := time.Duration(w.rng.Int64N(int64(late)))
		w.mu.Unlock()
		select {
		case <-time.After(d):
		case <-w.gone:
			return errCut
		}
	}
	for {
		w.network.mu.Lock()
		held := l.held
		w.network.mu.Unlock()
		if held == nil {
			break
		}
		select {
		case <-held:
		case <-w.gone:
			return errCut
		}
	}
	select {
	case <-w.gone:
		return errCut
	default:
		return nil
	}
}

// lastWords are the bytes that a dying part sends on a wire. They arrive late, and the wire stays
// open afterwards.
type lastWords struct {
	mu sync.Mutex
	// begun: written bytes are kept here until letGo. dead: nothing more is sent.
	begun, dead bool
	bytes       []byte
}

// keeps takes written bytes. It returns false while the wire works as usual.
func (l *lastWords) keeps(p []byte) (kept bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead:
		return true, errCut
	case l.begun:
		l.bytes = append(l.bytes, p...)
		return true, nil
	}
	return false, nil
}

// leaves ends the near end of the wire if it outlives its part.
func (l *lastWords) leaves() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = l.begun
	return l.begun
}

// letGo returns the bytes that were kept.
func (l *lastWords) letGo() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

func (l *lastWords) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = true
}
