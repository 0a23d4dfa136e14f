package testlong

import (
	"os"
	"testing"
)

// On reports whether `make test-long` runs the tests.
func On() bool { return os.Getenv("CELLGATE_LONG") != "" }

// Only skips a test unless `make test-long` runs it. What `make test` has instead says short.
func Only(t testing.TB, short string) {
	t.Helper()
	if !On() {
		t.Skip("make test-long runs it; make test has " + short)
	}
}

// Or gives how often something is tried: by `make test`, and by `make test-long`.
func Or(short, long int) int {
	if On() {
		return long
	}
	return short
}
