package mirror

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// hung is a server that takes requests and never answers.
type hung struct{}

func (hung) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A Placement that takes calls and does not answer does not hold the copying for ever.
func TestClient_PlacementHangs_CallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := NewClient(ctx, "http://placement.example", hung{}, func(context.Context) (string, error) { return "token", nil })
		if took := time.Since(began); err == nil || took != callTimeout {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
