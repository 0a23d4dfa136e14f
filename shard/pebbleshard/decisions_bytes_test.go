package pebbleshard

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"cellgate/shard"
)

// A trim keeps decisions within MaxDecisionBytes, also after a reopening. The oldest go first, and
// a replaced decision counts once.
func TestTrimDecisions_OverTheirBytes_TheOldestGo(t *testing.T) {
	const each, most = 100 << 10, 1 << 20
	dir, opts := t.TempDir(), testOptions
	opts.MaxDecisionBytes = most
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	put := func(n int) {
		t.Helper()
		body := make([]byte, each)
		_, _ = rand.Read(body) // it never fails
		d := shard.Decision{ID: fmt.Sprintf("a.%03d", n), At: time.Unix(int64(1000+n), 0), Terms: []string{"r"}, Body: body}
		if err := s.PutDecisions(t.Context(), []shard.Decision{d}); err != nil {
			t.Fatal(err)
		}
	}
	trim := func(keep int) {
		t.Helper()
		if err := s.TrimDecisions(t.Context(), time.Unix(1, 0), keep); err != nil {
			t.Fatal(err)
		}
	}
	// kept gives the ids of the oldest and the newest decision, and the number and bytes of all.
	kept := func() (first, last string, n int, bytes int64) {
		t.Helper()
		q := shard.DecisionQuery{Limit: 1}
		for {
			p, err := s.FindDecisions(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range p.Decisions {
				if last == "" {
					last = d.ID
				}
				first, n, bytes, q.Before = d.ID, n+1, bytes+int64(len(d.Body)), d.ID
			}
			if !p.More {
				return first, last, n, bytes
			}
		}
	}
	check := func(what, wantFirst, wantLast string) {
		t.Helper()
		trim(1_000_000)
		first, last, n, bytes := kept()
		if first != wantFirst || last != wantLast || n != 10 || bytes > most || bytes < most-2*each {
			t.Errorf("%s: %s to %s, %d of %d bytes, want %s to %s, 10 within %d", what, first, last, n, bytes, wantFirst, wantLast, most)
		}
	}
	for n := range 35 {
		put(n)
	}
	check("at first", "a.025", "a.034")
	for range 20 { // replaced 20 times, it counts once
		put(34)
	}
	check("replaced", "a.025", "a.034")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	put(35)
	check("opened again", "a.026", "a.035")
	trim(3)
	put(36)
	if first, _, n, _ := kept(); first != "a.033" || n != 4 {
		t.Errorf("after TrimDecisions: %d from %s", n, first)
	}
}
