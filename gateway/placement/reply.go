package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// reply answers with JSON, and names the silent cells that the answer lacks.
func (c *call) reply(status int, v any) error {
	c.markFresh()
	for _, cell := range c.silent.list() {
		c.w.Header().Add(SilentHeader, cell)
	}
	writeJSON(c.w, status, v)
	return nil
}

// markFresh sets Last-Modified to the present time, since shards do not store when a row was last changed.
func (c *call) markFresh() {
	if c.version >= freshSince {
		c.w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		c.w.Header().Set("Cache-Control", "no-cache")
	}
}

func (c *call) replyEmpty(status int) error {
	c.w.WriteHeader(status)
	return nil
}

// setLocation sets the Location of a created object.
func (c *call) setLocation(path string) {
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	c.w.Header().Set("Location", scheme+"://"+c.r.Host+c.prefix+path)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("an answer cannot be encoded: %v", err)) // callers only pass maps, texts and finite numbers
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // an error means that the client is gone
}
