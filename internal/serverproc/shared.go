package serverproc

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

type removable interface{ Remove() error }

// Shared is a server that the tests of a package share.
type Shared[S removable] struct {
	mu     sync.Mutex
	server S
	there  bool
}

// Get returns the server, and starts it at the first call.
func (s *Shared[S]) Get(t testing.TB, start func() (S, error)) S {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.there {
		server, err := start()
		if err != nil {
			t.Fatal(err)
		}
		s.server, s.there = server, true
	}
	return s.server
}

// Stop removes the server and returns the code with which the process must end.
func (s *Shared[S]) Stop(code int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.there {
		if err := s.server.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, "removing a server of the tests:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Own starts a server for one test, which removes it.
func Own[S removable](t testing.TB, start func() (S, error)) S {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Errorf("removing a server of the test: %v", err)
		}
	})
	return s
}
