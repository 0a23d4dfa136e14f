package security

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

	"cellgate/internal/ingress"
	"cellgate/internal/testwait"
)

// flood is a hostile gRPC client: it begins many messages on one connection and completes none.
type flood struct {
	// method is /service/method.
	method string
	// headers are additional headers, in pairs of name and value.
	headers []string
	streams int
	// declared is the length in each message's prefix; sent is how much of the message is sent.
	declared, sent int
}

// floodResult is what became of the streams.
type floodResult struct {
	// taken is the number of streams on which the server accepted all bytes; refused of those that it
	// ended.
	taken, refused int
	// status counts the refused streams by grpc-status; "" for none.
	status map[string]int
}

// floodFrame is the length of a flood's DATA frames.
const floodFrame = 16 << 10

// flow is the state of a stream: how much of its message was sent, and how much the server grants.
type flow struct {
	sent, granted int
	over          bool
}

// run floods the server at the other end of a connection, and leaves the connection open. It returns
// when every stream was refused or has sent all of its bytes.
func (f flood) run(c net.Conn) (floodResult, error) {
	if err := c.SetDeadline(time.Now().Add(testwait.Limit)); err != nil {
		return floodResult{}, err
	}
	out := floodResult{status: map[string]int{}}
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
	for i := range f.streams {
		id := uint32(2*i + 1)
		s := &flow{granted: ingress.Window}
		streams[id] = s
		orders <- func() error { return f.begin(w, id) }
		if f.more(w, orders, id, s); s.over {
			out.taken++
		}
	}
	err := f.read(w, orders, streams, &out)
	close(orders)
	return out, errors.Join(err, <-failed)
}

// read processes the server's frames until every stream is done.
func (f flood) read(w *http2.Framer, orders chan<- func() error, streams map[uint32]*flow, out *floodResult) error {
	for out.taken+out.refused < f.streams {
		got, err := w.ReadFrame()
		if err != nil {
			return fmt.Errorf("after %d taken and %d refused of %d: %w", out.taken, out.refused, f.streams, err)
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
					out.taken++
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
			out.refused++
			out.status[status]++
		}
	}
	return nil
}

func (f flood) begin(w *http2.Framer, id uint32) error {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	pairs := append([]string{":method", "POST", ":scheme", "http", ":path", f.method, ":authority", "x", "content-type", "application/grpc", "te", "trailers"}, f.headers...)
	for i := 0; i < len(pairs); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}); err != nil {
			return err
		}
	}
	return w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
}

// more sends as much as the server grants, and never the end of the stream.
func (f flood) more(w *http2.Framer, orders chan<- func() error, id uint32, s *flow) {
	for s.sent < f.sent && s.sent < s.granted {
		n := min(floodFrame, f.sent-s.sent, s.granted-s.sent)
		first := s.sent == 0
		orders <- func() error {
			b := make([]byte, n)
			if first {
				binary.BigEndian.PutUint32(b[1:], uint32(f.declared))
			}
			return w.WriteData(id, false, b)
		}
		s.sent += n
	}
	s.over = s.sent >= f.sent
}
