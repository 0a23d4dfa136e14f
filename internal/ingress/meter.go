package ingress

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

const (
	// receiveWithin is how long a message may take from its length prefix to its end; then its
	// connection is closed.
	receiveWithin = 30 * time.Second
	// claimWithin is how long a complete message stays charged until its call begins (Claim). For a
	// refused call, that never happens.
	claimWithin = 5 * time.Second
	// mostUnfinished is how many streams of a connection may have an unfinished message. It exceeds the
	// number of streams that the server serves at once, since refused streams count until their client
	// ends them.
	mostUnfinished = 2 * 4096
	// After refusedBeforePause refused calls, the next read of a connection is delayed by readPause:
	// many calls then arrive with one read, and are answered with one write. This halves the processor
	// time of a flood of refused calls. A refusal takes little longer than the pause.
	refusedBeforePause = 8
	readPause          = 2 * time.Millisecond
	// refusedStays is how long a connection stays open after its certificate was refused.
	refusedStays  = time.Second
	prefaceBytes  = len(http2.ClientPreface)
	frameHeader   = 9
	messageHeader = 5
)

// Meter charges the messages on an HTTP/2 connection to a caller. Without a caller, they are charged to
// the connection's address if it is admitted. Otherwise they are charged to the strangers until a call
// on it is admitted (Admit).
func (in *Ingress) Meter(c net.Conn, caller string, admitted bool) net.Conn {
	m := &metered{Conn: c, in: in, caller: caller, skip: prefaceBytes, streams: map[uint32]*unfinished{}}
	if admitted {
		m.admit()
	}
	return m
}

// Admit ends a connection's state as a stranger: from now on its messages are charged to its address.
// addr is the address of a call's peer.
func Admit(addr net.Addr) {
	if a, ok := addr.(meteredAddr); ok {
		a.c.admit()
	}
}

// CallRefused counts a refused call of a connection, which slows down its reads. addr is the address of
// the call's peer.
func CallRefused(addr net.Addr) {
	if a, ok := addr.(meteredAddr); ok {
		a.c.refused.Add(1)
	}
}

// CertificateRefused closes a connection after a call was refused for its certificate, once the answer
// had time to leave: the next connection shows the certificate that the caller's files have then. If
// the certificate is valid, but not for that call (known), the connection stays if another call on it
// was admitted. addr is the address of the call's peer.
func CertificateRefused(addr net.Addr, known bool) {
	a, ok := addr.(meteredAddr)
	if !ok || a.c.ending.Swap(true) {
		return
	}
	time.AfterFunc(refusedStays, func() {
		a.c.ending.Store(false)
		if !known || !a.c.admitted.Load() {
			_ = a.c.Close() // there is nobody to report an error to
		}
	})
}

// meteredAddr leads from a call to its connection: gRPC passes on nothing else.
type meteredAddr struct {
	net.Addr
	c *metered
}

// metered is a connection whose frames are parsed as they are read.
type metered struct {
	net.Conn
	in *Ingress
	// refused counts calls that were refused since the last pause.
	refused atomic.Int32
	// admitted: a call of the connection was admitted; ending: CertificateRefused waits.
	admitted, ending atomic.Bool

	// Only Read uses these fields. skip is how many bytes to ignore; head is the header of the next
	// frame, have bytes of which were read.
	skip int
	head [frameHeader]byte
	have int
	// The current DATA frame: its remaining data, its padding, and its stream.
	data, pad int
	padded    bool
	stream    uint32
	last      bool

	mu     sync.Mutex
	caller string
	closed bool
	// streams are those with an unfinished message; arrived are the complete messages that are charged
	// and not claimed yet.
	streams map[uint32]*unfinished
	arrived []*unfinished
}

// unfinished is a message that was not read completely.
type unfinished struct {
	prefix [messageHeader]byte
	have   int
	left   int64
	// charged is the part of its length that is charged to caller until expires fires.
	charged int64
	caller  string
	expires *time.Timer
}

var (
	errUnfinished = errors.New("too many streams of the connection have unfinished messages")
	errRefused    = errors.New("too many bytes of requests are being received")
)

func (c *metered) RemoteAddr() net.Addr { return meteredAddr{c.Conn.RemoteAddr(), c} }

func (c *metered) Read(p []byte) (int, error) {
	if c.refused.Load() >= refusedBeforePause {
		time.Sleep(readPause)
		c.refused.Store(0)
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		if bad := c.follow(p[:n]); bad != nil {
			return 0, bad
		}
	}
	return n, err
}

// Close releases all charges.
func (c *metered) Close() error {
	c.mu.Lock()
	c.closed = true
	for id, m := range c.streams {
		c.finish(m)
		delete(c.streams, id)
	}
	for _, m := range c.arrived {
		c.finish(m)
	}
	c.arrived = nil
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *metered) admit() {
	c.admitted.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.caller == stranger {
		c.caller = HostOf(c.Conn.RemoteAddr().String())
	}
}

// follow parses the bytes that were read. It overwrites the length of a refused message.
func (c *metered) follow(b []byte) error {
	for len(b) > 0 {
		switch {
		case c.skip > 0:
			n := min(c.skip, len(b))
			c.skip -= n
			b = b[n:]
		case c.data > 0:
			if c.padded {
				c.padded, c.pad, c.data = false, int(b[0]), c.data-1
				b = b[1:]
				if c.pad > c.data {
					return errors.New("a DATA frame has more padding than bytes")
				}
				c.data -= c.pad
				c.skipPadding()
				continue
			}
			n := min(c.data, len(b))
			if err := c.message(b[:n]); err != nil {
				return err
			}
			c.data -= n
			b = b[n:]
			c.skipPadding()
		default:
			n := copy(c.head[c.have:], b)
			c.have += n
			b = b[n:]
			if c.have == frameHeader {
				c.have = 0
				c.frame()
			}
		}
	}
	return nil
}

// skipPadding ends a DATA frame once all its data was read.
func (c *metered) skipPadding() {
	if c.data > 0 {
		return
	}
	c.skip, c.pad = c.pad, 0
	if c.last {
		c.endStream(c.stream)
	}
}

// frame parses the header of a frame.
func (c *metered) frame() {
	length := int(c.head[0])<<16 | int(c.head[1])<<8 | int(c.head[2])
	kind, flags := http2.FrameType(c.head[3]), http2.Flags(c.head[4])
	id := binary.BigEndian.Uint32(c.head[5:]) & math.MaxInt32
	switch kind {
	case http2.FrameData:
		c.data, c.stream, c.last = length, id, flags.Has(http2.FlagDataEndStream)
		c.padded = flags.Has(http2.FlagDataPadded) && length > 0
		if length == 0 {
			c.skipPadding()
		}
	case http2.FrameRSTStream:
		c.endStream(id)
		c.skip = length
	case http2.FrameHeaders:
		if flags.Has(http2.FlagHeadersEndStream) {
			c.endStream(id)
		}
		c.skip = length
	default:
		c.skip = length
	}
}

// endStream drops the message of a stream that ended.
func (c *metered) endStream(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.streams[id]; m != nil {
		c.finish(m)
		delete(c.streams, id)
	}
}

// finish releases a message's charge. The caller holds the lock.
func (c *metered) finish(m *unfinished) {
	if m.charged > 0 {
		m.expires.Stop()
		c.in.release(m.caller, m.charged)
		m.charged = 0
	}
}

// message parses messages of the current stream in a part of a DATA frame. c.data bytes of the frame
// are left, including b.
func (c *metered) message(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.streams[c.stream]
	for rest := c.data; len(b) > 0; {
		if m == nil {
			// The usual case: a whole message in one part of a frame.
			if n := wholeMessage(b); n > 0 {
				b, rest = b[n:], rest-n
				continue
			}
			if len(c.streams) >= mostUnfinished || c.closed {
				return errUnfinished
			}
			m = &unfinished{}
			c.streams[c.stream] = m
		}
		if m.have < messageHeader {
			from := m.have
			n := copy(m.prefix[m.have:], b)
			m.have += n
			rest -= n
			if m.have == messageHeader {
				m.left = int64(binary.BigEndian.Uint32(m.prefix[1:]))
				if err := c.begin(m, b[:n], from, int64(rest)); err != nil {
					return err
				}
			}
			b = b[n:]
		}
		n := min(m.left, int64(len(b)))
		m.left -= n
		rest -= int(n)
		b = b[n:]
		if m.have == messageHeader && m.left == 0 {
			c.arrive(m)
			delete(c.streams, c.stream)
			m = nil
		}
	}
	return nil
}

// wholeMessage returns the length of the message at the beginning of b; 0 if it is not complete.
func wholeMessage(b []byte) int {
	if len(b) < messageHeader {
		return 0
	}
	if n := uint64(binary.BigEndian.Uint32(b[1:])) + messageHeader; n <= uint64(len(b)) {
		return int(n)
	}
	return 0
}

// begin charges a message whose length prefix is complete: prefix has its last bytes, and its first
// from bytes were passed on already. A message needs no charge if the rest bytes of its frame contain
// it whole. Neither does a stranger's message that fits into a stream's window: a call that is not
// admitted ends at once, and open calls are few. A refused message gets a length that is too long, so
// that gRPC ends its stream with RESOURCE_EXHAUSTED.
func (c *metered) begin(m *unfinished, prefix []byte, from int, rest int64) error {
	free := rest
	if c.caller == stranger {
		free = max(rest, Window)
	}
	if m.left <= free || m.left > MaxMessage {
		return nil // gRPC itself refuses messages that are too long
	}
	if c.closed || !c.in.charge(c.caller, m.left) {
		if c.closed || from > 1 {
			return errRefused // a part of the length was passed on
		}
		for i := max(0, 1-from); i < len(prefix); i++ {
			prefix[i] = math.MaxUint8
		}
		return nil
	}
	m.charged, m.caller = m.left, c.caller
	m.expires = time.AfterFunc(receiveWithin, func() { _ = c.Close() })
	return nil
}

// arrive keeps a complete message charged until it is claimed. The caller holds the lock.
func (c *metered) arrive(m *unfinished) {
	if m.charged == 0 {
		return
	}
	if m.charged <= Window {
		c.finish(m) // Claim needs only larger ones
		return
	}
	m.expires.Stop()
	m.expires = time.AfterFunc(claimWithin, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.arrived, m); i >= 0 {
			c.arrived = slices.Delete(c.arrived, i, i+1)
			c.finish(m)
		}
	})
	c.arrived = append(c.arrived, m)
}

// Claim takes over the charge of a message of n bytes that a call received; it lasts until the caller
// calls release. addr is the address of the call's peer. If that is not metered, or the message needs
// no charge, release does nothing. The error is OVERLOADED.
func Claim(addr net.Addr, n int64) (release func(), err error) {
	a, ok := addr.(meteredAddr)
	if !ok || n <= Window {
		return func() {}, nil
	}
	return a.c.claim(n)
}

func (c *metered) claim(n int64) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.arrived, func(m *unfinished) bool { return m.charged == n })
	if i < 0 {
		return c.in.Body(c.caller, n) // its charge had expired
	}
	m := c.arrived[i]
	m.expires.Stop()
	c.arrived = slices.Delete(c.arrived, i, i+1)
	return func() { c.in.release(m.caller, n) }, nil
}

// HostOf is an address without its port.
func HostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
