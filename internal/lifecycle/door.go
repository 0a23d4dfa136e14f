package lifecycle

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// quietFor is how long nobody must have come for a door to be shut, lastCalls
	// how long it stays open at most when somebody always comes.
	quietFor  = 20 * time.Millisecond
	lastCalls = 250 * time.Millisecond
)

// door is a listener that does not shut in anybody's face: those who have
// connected and were not accepted yet would see their connection reset, without
// an answer. Close returns at once; Accept goes on until nobody comes, and shuts
// the port then. A door that nobody has accepted from, and one that is closed
// again, shuts at once.
type door struct {
	*net.TCPListener

	mu      sync.Mutex
	served  bool
	closing bool
	last    time.Time

	// left are those who came in as it was shut. Both are Accept's: a server
	// accepts in one goroutine.
	isShut bool
	left   []net.Conn
}

func (d *door) Accept() (net.Conn, error) {
	for {
		if d.isShut {
			if len(d.left) == 0 {
				return nil, errors.Join(net.ErrClosed, d.TCPListener.Close())
			}
			c := d.left[0]
			d.left = d.left[1:]
			return c, nil
		}
		closing := d.enter()
		c, err := d.TCPListener.Accept()
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		if closing { // a whole quietFor without anybody
			if err := d.shut(); err != nil {
				return nil, errors.Join(net.ErrClosed, err, d.TCPListener.Close())
			}
		}
	}
}

// shut takes in who is at the door this instant, then shuts it. Between the two
// the kernel may still let somebody in, whom nobody answers: only who was told to
// go elsewhere before (Limits.Drain) can be sure.
func (d *door) shut() error {
	raw, err := d.SyscallConn()
	if err != nil {
		return err
	}
	var in []int
	if err := raw.Control(func(fd uintptr) {
		for {
			n, _, err := syscall.Accept(int(fd))
			if err != nil {
				// Nobody is left. Shutting fails on a port that is shut only.
				_ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR)
				return
			}
			syscall.CloseOnExec(n)
			in = append(in, n)
		}
	}); err != nil {
		return err
	}
	for _, n := range in {
		f := os.NewFile(uintptr(n), "connection")
		c, cerr := net.FileConn(f) // has a descriptor of its own
		err = errors.Join(err, cerr, f.Close())
		if cerr == nil {
			d.left = append(d.left, c)
		}
	}
	d.isShut = true
	return err
}

// enter begins an Accept; while the door is closing, one that ends soon.
func (d *door) enter() (closing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.served = true
	if d.closing {
		until := time.Now().Add(quietFor)
		if until.After(d.last) {
			until = d.last
		}
		// Fails on a listener that is closed, as the Accept that follows does.
		_ = d.SetDeadline(until)
	}
	return d.closing
}

func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.served || d.closing {
		return d.TCPListener.Close()
	}
	d.closing, d.last = true, time.Now().Add(lastCalls)
	return d.SetDeadline(time.Now()) // wakes who waits in Accept
}
