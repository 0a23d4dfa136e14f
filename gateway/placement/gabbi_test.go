package placement

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// resettable serves a new backend after each POST /reset.
func resettable(t *testing.T, fresh func() Backend) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	serve := testHandler(t, fresh())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.URL.Path == "/reset" {
			serve = testHandler(t, fresh())
		}
		now := serve
		mu.Unlock()
		if r.URL.Path != "/reset" {
			now.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestGabbi_PlacementsOwnSuite runs it over the memory backend.
func TestGabbi_PlacementsOwnSuite(t *testing.T) {
	RunGabbi(t, func() Backend { return newMemory() })
}

// RunGabbi runs Placement's own suite against the API over a backend (see make test-gabbi); fresh gives an empty
// backend. Tests of other backends use it, in package placement_test.
func RunGabbi(t *testing.T, fresh func() Backend) {
	t.Helper()
	suite := os.Getenv("GABBITS")
	if suite == "" {
		t.Skip("set GABBITS to placement/tests/functional of a clone of openstack/placement: make test-gabbi")
	}
	suite, err := filepath.Abs(suite)
	if err != nil {
		t.Fatal(err)
	}
	s := resettable(t, fresh)
	cmd := exec.Command("/usr/bin/python3", "testdata/run_gabbi.py", s.URL, suite)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("the suite: %v", err)
	}
}
