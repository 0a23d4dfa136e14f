package ingress

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// sent is a connection from which a test's frames are read in parts of any size.
type sent struct {
	net.Conn
	r    *bytes.Reader
	part func(most int) int
}

func (s sent) Read(p []byte) (int, error) { return s.r.Read(p[:s.part(len(p))]) }
func (sent) Close() error                 { return nil }
func (sent) RemoteAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711} }

// wire collects what a client sends.
type wire struct {
	bytes.Buffer
	f *http2.Framer
}

func newWire(t *testing.T) *wire {
	w := &wire{}
	w.f = http2.NewFramer(w, nil)
	_, _ = w.WriteString(http2.ClientPreface)
	must(t, w.f.WriteSettings())
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// message is the first have bytes of a message whose header declares length.
func message(length, have int) []byte {
	b := make([]byte, messageHeader+have)
	binary.BigEndian.PutUint32(b[1:], uint32(length))
	return b
}

// data sends bytes of a stream, in frames of at most 16 KiB, some of them padded.
func (w *wire) data(t *testing.T, id uint32, end bool, b []byte) {
	t.Helper()
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), 16<<10-256)
		if id%4 == 3 {
			must(t, w.f.WriteDataPadded(id, end && n == len(b), b[:n], make([]byte, n%200)))
		} else {
			must(t, w.f.WriteData(id, end && n == len(b), b[:n]))
		}
		b = b[n:]
	}
}

// through reads a wire through a meter, and returns what the server sees of it.
func (w *wire) through(in *Ingress, caller string, part func(int) int) (net.Conn, []byte, error) {
	c := in.Meter(sent{r: bytes.NewReader(w.Bytes()), part: part}, caller, false)
	seen, err := io.ReadAll(c)
	return c, seen, err
}

func whole(most int) int { return most }

func TestMeter_WholeMessages_NothingStaysChargedOnceClaimed(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		in := New(Limits{Bytes: 1 << 30, CallerBytes: 1 << 30})
		w := newWire(t)
		var large []int64
		for range 8 {
			id := uint32(2*random.IntN(6) + 1)
			var all []byte
			for range random.IntN(3) + 1 {
				n := random.IntN(200 << 10)
				if n > Window {
					large = append(large, int64(n))
				}
				all = append(all, message(n, n)...)
			}
			w.data(t, id, false, all)
		}
		c, seen, err := w.through(in, "a", func(most int) int { return 1 + random.IntN(min(most, 4<<uint(random.IntN(13)))) })
		must(t, err)
		if !bytes.Equal(seen, w.Bytes()) {
			t.Fatalf("seed %d: the server sees other bytes", seed)
		}
		for _, n := range large {
			release, err := Claim(c.RemoteAddr(), n)
			must(t, err)
			release()
		}
		if in.Held() != 0 {
			t.Fatalf("seed %d: %d bytes stay charged", seed, in.Held())
		}
	}
}

func TestMeter_ManyUnfinishedMessages_CallerBound(t *testing.T) {
	in := New(Limits{CallerBytes: 10 << 20})
	w := newWire(t)
	for i := range uint32(100) {
		w.data(t, 2*i+1, false, message(3<<20, 1000))
	}
	c, seen, err := w.through(in, "agent/h1", whole)
	must(t, err)
	if in.Held() != 9<<20 {
		t.Errorf("%d MiB are charged, not 9", in.Held()>>20)
	}
	if n := bytes.Count(seen, []byte{0xff, 0xff, 0xff, 0xff}); n != 97 {
		t.Errorf("%d messages are refused, not 97", n)
	}
	if _, err := in.Body("agent/h2", 3<<20); err != nil {
		t.Errorf("another caller: %v", err)
	}
	must(t, c.Close())
	if in.Held() != 3<<20 {
		t.Errorf("%d bytes stay charged after the end", in.Held()-3<<20)
	}
}

func TestMeter_Stranger_SmallBound(t *testing.T) {
	in := New(Limits{})
	for range 20 {
		w := newWire(t)
		w.data(t, 1, false, message(4<<20, 100))
		_, _, err := w.through(in, stranger, whole)
		must(t, err)
	}
	if in.Held() != strangerBytes {
		t.Errorf("strangers hold %d bytes", in.Held())
	}
	if _, err := in.Body("reader/x", 4<<20); err != nil {
		t.Errorf("a known caller: %v", err)
	}
}

func TestMeter_EndedStreams_Released(t *testing.T) {
	in := New(Limits{})
	w := newWire(t)
	for i := range uint32(8) {
		w.data(t, 2*i+1, false, message(1<<20, 1000))
		if i%2 == 0 {
			must(t, w.f.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
		} else {
			w.data(t, 2*i+1, true, nil)
		}
	}
	_, _, err := w.through(in, "a", whole)
	must(t, err)
	if in.Held() != 0 {
		t.Errorf("%d bytes stay charged", in.Held())
	}
}

func TestMeter_RefusedInThePartsOfALength_ConnectionEnds(t *testing.T) {
	in := New(Limits{CallerBytes: 1})
	w := newWire(t)
	w.data(t, 1, false, message(1<<20, 1000))
	if _, _, err := w.through(in, "a", func(int) int { return 1 }); err == nil {
		t.Error("the length was handed on")
	}
}

func TestMeter_BeginsOfManyMessages_ConnectionEnds(t *testing.T) {
	w := newWire(t)
	for i := range uint32(mostUnfinished + 1) {
		w.data(t, 2*i+1, false, []byte{0})
	}
	if _, _, err := w.through(New(Limits{}), "a", whole); err == nil {
		t.Error("all of them are followed")
	}
}

// A message that never arrives, or that no call reads, is not charged for long.
func TestMeter_Silence_Released(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(Limits{})
		w := newWire(t)
		w.data(t, 1, false, message(1<<20, 1000))
		w.data(t, 3, true, message(2<<20, 2<<20))
		_, _, err := w.through(in, "a", whole)
		must(t, err)
		if in.Held() != 3<<20 {
			t.Errorf("%d MiB are charged", in.Held()>>20)
		}
		<-after(claimWithin)
		if in.Held() != 1<<20 {
			t.Errorf("%d MiB are charged after %v", in.Held()>>20, claimWithin)
		}
		<-after(receiveWithin)
		if in.Held() != 0 {
			t.Errorf("%d bytes stay charged after %v", in.Held(), receiveWithin)
		}
	})
}

// If a connection's calls are refused, it is read only after a pause, once per few calls.
func TestRead_CallsAreRefused_PausesBetweenReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		c := New(Limits{}).Meter(sent{r: bytes.NewReader(w.Bytes()), part: func(int) int { return 1 }}, "", true)
		began := time.Now()
		read := func(refused int, want time.Duration) {
			t.Helper()
			for range refused {
				CallRefused(c.RemoteAddr())
			}
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("after %v, want %v", took, want)
			}
		}
		read(refusedBeforePause-1, 0)
		read(1, readPause)
		read(0, readPause)
		read(3*refusedBeforePause, 2*readPause)
		must(t, c.Close())
	})
}
