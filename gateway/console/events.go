package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// every is the interval between events of a listener. The state is read once for all
	// listeners, at most twice in that time.
	every = 2 * time.Second
	// readLimit bounds one read of the state.
	readLimit = 5 * time.Second
	// writeLimit is how long a listener may take to receive an event.
	writeLimit = 10 * time.Second
	// silence is the longest time without an event. Then a comment is sent, so that the
	// server notices a listener that is gone.
	silence = 15 * time.Second
	// maxListeners bounds the streams of a gateway.
	maxListeners = 256
)

// Source reads the state that events report.
type Source struct {
	// Cells gives the present state of all cells.
	Cells func(context.Context) []*cellgatev1.Cell
	// Newest is the id of the newest decision of all cells that answer; empty when there is none.
	Newest func(context.Context) (string, error)
	// Admitted gives an error once the caller of a request is no longer admitted; its stream then ends.
	Admitted func(*http.Request) error
	// Stopping is closed when the gateway drains; streams then end.
	Stopping <-chan struct{}
	// Refuse answers a request with an error.
	Refuse func(http.ResponseWriter, error)
}

// Events streams the gateway's state as server-sent events. A stream begins with both events; each is sent again when
// its data change, at most every two seconds:
//
//	event: cells      data: a ListCellsResponse
//	event: decisions  data: {"newest": decision_id of the newest decision}
//
// One read of the state serves all streams; there is at most one a second. A listener beyond maxListeners is refused
// as OVERLOADED. A listener that does not receive an event within writeLimit is disconnected.
func Events(s Source) http.Handler { return &events{Source: s} }

type events struct {
	Source
	mu        sync.Mutex
	listeners int
	// read is when the state was read; cells and newest are the state, as JSON.
	read          time.Time
	cells, newest []byte
}

func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.enter() {
		err := fault.New(fault.Overloaded, "%d others listen to events already, which is the most", maxListeners)
		err.RetryAfter = silence
		e.Refuse(w, err)
		return
	}
	defer e.leave()
	out := http.NewResponseController(w)
	// The server's read deadline must not end the stream.
	if err := out.SetReadDeadline(time.Time{}); err != nil {
		e.Refuse(w, fault.Wrap(fault.Internal, err, "this connection cannot carry events"))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	tick := time.NewTicker(every)
	defer tick.Stop()
	var cells, newest []byte
	last := time.Now()
	for e.Admitted(r) == nil {
		nowCells, nowNewest := e.state(r.Context())
		var text bytes.Buffer
		if !bytes.Equal(cells, nowCells) {
			fmt.Fprintf(&text, "event: cells\ndata: %s\n\n", nowCells)
		}
		if !bytes.Equal(newest, nowNewest) {
			fmt.Fprintf(&text, "event: decisions\ndata: %s\n\n", nowNewest)
		}
		if text.Len() == 0 && time.Since(last) >= silence {
			text.WriteString(": nothing changed\n\n")
		}
		if text.Len() > 0 {
			if out.SetWriteDeadline(time.Now().Add(writeLimit)) != nil {
				return
			}
			if _, err := w.Write(text.Bytes()); err != nil || out.Flush() != nil {
				return
			}
			// HTTP/2 ends a stream at its write deadline even if nothing is being written.
			if out.SetWriteDeadline(time.Time{}) != nil {
				return
			}
			cells, newest, last = nowCells, nowNewest, time.Now()
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-e.Stopping:
			return
		}
	}
}

func (e *events) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listeners >= maxListeners {
		return false
	}
	e.listeners++
	return true
}

func (e *events) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners--
}

// state gives the state as JSON, at most half of every old. If it is older, the first listener reads it, and the
// others wait for that read. A part that cannot be read keeps its last value; a cell that does not answer is shown as
// such in cells.
func (e *events) state(ctx context.Context) (cells, newest []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.read) < every/2 {
		return e.cells, e.newest
	}
	// The read is for all listeners, so it does not end with the listener that began it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	text, err := (protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}).Marshal(&cellgatev1.ListCellsResponse{Cells: e.Cells(ctx)})
	var compact bytes.Buffer
	if err == nil {
		err = json.Compact(&compact, text)
	}
	if err == nil {
		e.cells = compact.Bytes()
	}
	if id, err := e.Newest(ctx); err == nil {
		// A text always marshals.
		e.newest, _ = json.Marshal(map[string]string{"newest": id})
	}
	e.read = time.Now()
	return e.cells, e.newest
}
