package rest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A caller that is refused before its large body is read sees the refusal, not a connection
// that is reset while it still sends.
func TestDiscardRest_RefusedUnread_CallerReadsTheRefusal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &body{from: http.MaxBytesReader(w, r.Body, MaxBody)}
		w.WriteHeader(http.StatusTooManyRequests)
		discardRest(w, b)
	}))
	defer server.Close()
	large := make([]byte, MaxBody)
	for range 8 {
		answer, err := server.Client().Post(server.URL, "application/json", bytes.NewReader(large))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusTooManyRequests || answer.Close {
			t.Errorf("status %d, connection closed: %v", answer.StatusCode, answer.Close)
		}
	}
}
