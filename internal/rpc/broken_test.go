package rpc

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// halfMessage opens stream 1 of a method and sends half of a message.
func halfMessage(t *testing.T, c net.Conn, method string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(c, http2.ClientPreface)
	must(err)
	w := http2.NewFramer(c, nil)
	must(w.WriteSettings())
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, pair := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		must(e.WriteField(hpack.HeaderField{Name: pair[0], Value: pair[1]}))
	}
	must(w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}))
	half := make([]byte, 55)
	binary.BigEndian.PutUint32(half[1:], 100)
	must(w.WriteData(1, false, half))
}

// awaitEnd reads until the server has ended stream 1, or the connection.
func awaitEnd(c net.Conn) {
	frames := http2.NewFramer(io.Discard, c)
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			return
		}
		if f.Header().StreamID == 1 && (f.Header().Type == http2.FrameRSTStream || f.Header().Flags.Has(http2.FlagHeadersEndStream)) {
			return
		}
	}
}

func TestStream_EndsInTheMiddleOfAMessage_NoErrorIsLogged(t *testing.T) {
	for name, end := range map[string]func(c net.Conn) error{
		"the connection closes": func(c net.Conn) error { return c.Close() },
		"the stream closes":     func(c net.Conn) error { return http2.NewFramer(c, nil).WriteData(1, true, make([]byte, 10)) },
		"the stream is reset":   func(c net.Conn) error { return http2.NewFramer(c, nil).WriteRSTStream(1, http2.ErrCodeInternal) },
	} {
		t.Run(name, func(t *testing.T) {
			log := &strings.Builder{}
			s := NewServer(slog.New(slog.NewTextHandler(log, nil)))
			agentv1.RegisterHostReportsServer(s, reports{})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- s.Serve(l) }()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			halfMessage(t, c, agentv1.HostReports_Report_FullMethodName)
			if err := end(c); err != nil {
				t.Error(err)
			}
			if name == "the stream closes" {
				awaitEnd(c)
			}
			_ = c.Close()
			s.GracefulStop() // waits for the handler
			if err := <-done; err != nil {
				t.Error(err)
			}
			if log.Len() > 0 {
				t.Errorf("logged: %s", log)
			}
		})
	}
}
