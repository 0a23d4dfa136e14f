package floodtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Flood describes the messages to send.
type Flood struct {
	// Method is /service/method.
	Method string
	// Headers are additional headers, in pairs of name and value.
	Headers []string
	Streams int
	// Declared is the length in each message's prefix; Sent is how much of the message is sent.
	Declared, Sent int
}

// Result is what became of the streams.
type Result struct {
	// Taken is the number of streams on which the server accepted all bytes; Refused of those that it
	// ended.
	Taken, Refused int
	// Status counts the refused streams by grpc-status; "" for none.
	Status map[string]int
}

// window is how much may be sent on a stream before the server grants more.
const window = 64 << 10

const frame = 16 << 10

// patience bounds a flood whose server sends nothing.
const patience = time.Minute

type flow struct {
	sent, granted int
	over          bool
}

// Run floods the server at the other end of a connection, and leaves the connection open. It returns
// when every stream was refused or has sent all of its bytes.
func (f Flood) Run(c net.Conn) (Result, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return Result{}, err
	}
	out := Result{Status: map[string]int{}}
	w := http2.NewFramer(c, c)
	w.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	// Writing and reading do not wait for each other.
	orders, failed := make(chan func() error, 1<<16), make(chan error, 1)
	go func() {
		for order := range orders {
			if err := order(); err != nil {
				failed <- err
				_ = c.Close()
				for range orders { // until the reader has noticed
				}
				return
			}
		}
		failed <- nil
	}()
	streams := map[uint32]*flow{}
	orders <- func() error {
		if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
			return err
		}
		return w.WriteSettings()
	}
	for i := range f.Streams {
		id := uint32(2*i + 1)
		s := &flow{granted: window}
		streams[id] = s
		orders <- func() error { return f.begin(w, id) }
		if f.more(w, orders, id, s); s.over {
			out.Taken++
		}
	}
	err := f.read(w, orders, streams, &out)
	close(orders)
	return out, errors.Join(err, <-failed)
}

// read processes the server's frames until every stream is done.
func (f Flood) read(w *http2.Framer, orders chan<- func() error, streams map[uint32]*flow, out *Result) error {
	for out.Taken+out.Refused < f.Streams {
		got, err := w.ReadFrame()
		if err != nil {
			return fmt.Errorf("after %d taken and %d refused of %d: %w", out.Taken, out.Refused, f.Streams, err)
		}
		s := streams[got.Header().StreamID]
		status, refused := "", false
		switch got := got.(type) {
		case *http2.SettingsFrame:
			if !got.IsAck() {
				orders <- w.WriteSettingsAck
			}
		case *http2.PingFrame:
			if data := got.Data; !got.IsAck() {
				orders <- func() error { return w.WritePing(true, data) }
			}
		case *http2.WindowUpdateFrame:
			if s != nil && !s.over {
				s.granted += int(got.Increment)
				if f.more(w, orders, got.StreamID, s); s.over {
					out.Taken++
				}
			}
		case *http2.MetaHeadersFrame:
			refused = got.StreamEnded()
			for _, h := range got.RegularFields() {
				if h.Name == "grpc-status" {
					status = h.Value
				}
			}
		case *http2.RSTStreamFrame:
			refused = true
		}
		if s != nil && refused && !s.over {
			s.over = true
			out.Refused++
			out.Status[status]++
		}
	}
	return nil
}

func (f Flood) begin(w *http2.Framer, id uint32) error {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	pairs := append([]string{":method", "POST", ":scheme", "http", ":path", f.Method, ":authority", "x", "content-type", "application/grpc", "te", "trailers"}, f.Headers...)
	for i := 0; i < len(pairs); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}); err != nil {
			return err
		}
	}
	return w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
}

// more sends as much as the server grants, and never the end of the stream.
func (f Flood) more(w *http2.Framer, orders chan<- func() error, id uint32, s *flow) {
	for s.sent < f.Sent && s.sent < s.granted {
		n := min(frame, f.Sent-s.sent, s.granted-s.sent)
		first := s.sent == 0
		orders <- func() error {
			b := make([]byte, n)
			if first {
				binary.BigEndian.PutUint32(b[1:], uint32(f.Declared))
			}
			return w.WriteData(id, false, b)
		}
		s.sent += n
	}
	s.over = s.sent >= f.Sent
}
