package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// fileBytes is the default size at which a file of spans is replaced.
const fileBytes = 64 << 20

// SpanLine is a line of a span file. Spans are in the order in which they ended.
type SpanLine struct {
	Trace string `json:"trace_id"`
	Span  string `json:"span_id"`
	// Parent is "" for the first span of a trace.
	Parent  string    `json:"parent_id,omitempty"`
	Name    string    `json:"name"`
	Service string    `json:"service"`
	Start   time.Time `json:"start"`
	// Micros is the duration of the span, in microseconds.
	Micros float64 `json:"duration_us"`
	// Error is the outcome if the span failed.
	Error      string         `json:"error,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

func lineOf(s sdktrace.ReadOnlySpan) SpanLine {
	l := SpanLine{
		Trace: s.SpanContext().TraceID().String(), Span: s.SpanContext().SpanID().String(), Name: s.Name(),
		Start: s.StartTime(), Micros: float64(s.EndTime().Sub(s.StartTime()).Nanoseconds()) / 1e3,
		Error: s.Status().Description,
	}
	if p := s.Parent(); p.IsValid() && p.SpanID() != (trace.SpanID{}) {
		l.Parent = p.SpanID().String()
	}
	for _, kv := range s.Resource().Attributes() {
		if kv.Key == "service.name" {
			l.Service = kv.Value.AsString()
		}
	}
	for _, kv := range s.Attributes() {
		if l.Attributes == nil {
			l.Attributes = map[string]any{}
		}
		l.Attributes[string(kv.Key)] = kv.Value.AsInterface()
	}
	return l
}

// spanFile writes spans to a file of bounded size. Only one goroutine exports.
type spanFile struct {
	path string
	most int64
	file *os.File
	size int64
}

// openSpanFile opens the file to append to it.
func openSpanFile(path string, most int64) (*spanFile, error) {
	if most <= 0 {
		most = fileBytes
	}
	f := &spanFile{path: path, most: most}
	// Opening a pipe would wait for its reader.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("file of traces %s: not a regular file", path)
	}
	return f, f.open()
}

func (f *spanFile) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("file of traces: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("file of traces: %w", err), file.Close())
	}
	f.file, f.size = file, info.Size()
	return nil
}

// ExportSpans implements sdktrace.SpanExporter.
func (f *spanFile) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, s := range spans {
		if err := e.Encode(lineOf(s)); err != nil {
			return err
		}
	}
	if f.file == nil || f.size > 0 && f.size+int64(lines.Len()) > f.most {
		if err := f.turn(); err != nil {
			return err
		}
	}
	n, err := f.file.Write(lines.Bytes())
	f.size += int64(n)
	return err
}

// turn starts a new file, and renames the old one to path.1.
func (f *spanFile) turn() error {
	if err := f.Shutdown(context.Background()); err != nil {
		return err
	}
	if err := os.Rename(f.path, f.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.open()
}

// Shutdown closes the file.
func (f *spanFile) Shutdown(context.Context) error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
