package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

//go:embed dist/index.html dist/console.js dist/console.css dist/favicon.svg dist/licenses.txt
var dist embed.FS

// policy lets the pages load their own files and call their own gateway, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// about is the answer at / for a client that does not accept HTML.
const about = `cellgate gateway: chooses hosts for instances over all cells of a cloud, and claims them.

/               the console, in a browser
/v1/            the REST API: curl /v1/cells lists the cells
/openapi.json   its description, OpenAPI 3.1
/healthz        200 while the process is alive
/readyz         200 while requests are welcome
/metrics        metrics for Prometheus

The same API is gRPC (cellgate.v1, with reflection) at the address gateway.grpc.
Commands: cellgate --help. Where callers must prove who they are: Authorization: Bearer TOKEN.
`

// file is a file of the console, plain and gzipped.
type file struct {
	text, zipped []byte
	kind, tag    string
}

// Paths are the paths that Pages serves, "/" first.
var Paths = []string{"/", "/console.js", "/console.css", "/favicon.svg", "/licenses.txt"}

var kinds = map[string]string{
	"/": "text/html; charset=utf-8", "/console.js": "text/javascript; charset=utf-8", "/console.css": "text/css; charset=utf-8",
	"/favicon.svg": "image/svg+xml", "/licenses.txt": "text/plain; charset=utf-8",
}

// files are the files of Paths. A process compresses them once.
var files = sync.OnceValues(func() (map[string]file, error) {
	out := map[string]file{}
	for _, path := range Paths {
		name := strings.TrimPrefix(path, "/")
		if path == "/" {
			name = "index.html"
		}
		text, err := dist.ReadFile("dist/" + name)
		if err != nil {
			return nil, fmt.Errorf("the console's files: %w", err)
		}
		var zipped bytes.Buffer
		w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is a valid one
		if _, err = w.Write(text); err == nil {
			err = w.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("compress %s: %w", name, err)
		}
		sum := sha256.Sum256(text)
		out[path] = file{text: text, zipped: zipped.Bytes(), kind: kinds[path], tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return out, nil
})

// Pages serves Paths.
func Pages() (http.Handler, error) {
	files, err := files()
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Vary", "Accept, Accept-Encoding")
		// A browser asks each time whether the file is still the same: an upgraded gateway has another.
		h.Set("Cache-Control", "no-cache")
		if r.URL.Path == "/" && !strings.Contains(r.Header.Get("Accept"), "text/html") {
			h.Set("Content-Type", "text/plain; charset=utf-8")
			send(w, []byte(about))
			return
		}
		f := files[r.URL.Path]
		h.Set("Content-Type", f.kind)
		h.Set("ETag", f.tag)
		switch {
		case r.Header.Get("If-None-Match") == f.tag:
			w.WriteHeader(http.StatusNotModified)
		case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			h.Set("Content-Encoding", "gzip")
			send(w, f.zipped)
		default:
			send(w, f.text)
		}
	}), nil
}

// send answers with a text. It ignores errors: they mean that the caller is gone.
func send(w http.ResponseWriter, text []byte) { _, _ = w.Write(text) }
