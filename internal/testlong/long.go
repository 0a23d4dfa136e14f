package testlong

import (
	"os"
	"testing"
)

// On reports whether `make test-long` runs the tests.
func On() bool { return os.Getenv("CELLGATE_LONG") != "" }

// Only skips a test unless `make test-long` runs it. short describes what `make test` runs instead.
func Only(t testing.TB, short string) {
	t.Helper()
	if !On() {
		t.Skip("make test-long runs it; make test has " + short)
	}
}

// Or returns short under `make test`, and long under `make test-long`. It is for numbers of
// repetitions.
func Or(short, long int) int {
	if On() {
		return long
	}
	return short
}
