package mirror

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
)

// Local is the transport to a handler of this process, as from the loopback address.
type Local struct{ http.Handler }

// RoundTrip has the handler answer.
func (l Local) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RemoteAddr = "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.RequestURI = in.URL.RequestURI()
	w := &answerWriter{header: http.Header{}}
	l.ServeHTTP(w, in)
	_ = in.Body.Close() // the handler has read what it needs
	return &http.Response{
		StatusCode: cmp.Or(w.status, http.StatusOK), Header: w.header, Body: io.NopCloser(bytes.NewReader(w.body.Bytes())),
		ContentLength: int64(w.body.Len()), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// StaticToken is a token that does not expire: "admin" of a Placement with auth_strategy noauth2.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}
