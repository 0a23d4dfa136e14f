package norace

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Ran is the environment variable which says that all tests but the skipped ones ran with the race
// detector.
const Ran = "CELLGATE_RAN_RACED"

// Runtime is the reason to skip tests in testing/synctest bubbles that start and stop thousands of
// timers.
const Runtime = "with the race detector Go 1.26's runtime crashes now and then (racegostart, in a timer of a synctest bubble)"

// Pure is the reason to skip tests without goroutines.
const Pure = "it starts no goroutine, and takes ten times as long with the race detector"

var left []string

// LeaveOut names the tests of the package that do not run with the race detector. TestMain calls it
// before the tests run. If Ran is set and the detector is off, only these tests run; a -run of the
// command line takes precedence.
func LeaveOut(tests ...string) {
	left = tests
	if On || os.Getenv(Ran) == "" {
		return
	}
	if err := flag.Set("test.run", "^("+strings.Join(tests, "|")+")$"); err != nil {
		panic(fmt.Sprintf("choosing the tests: %v", err)) // the flag is there in every test binary
	}
}

// Skip skips a test that LeaveOut names while the detector is on, with the reason. A test that is not
// named fails: nothing would run it.
func Skip(t testing.TB, why string) {
	t.Helper()
	if !slices.Contains(left, t.Name()) {
		t.Fatal("norace.LeaveOut does not name this test: make test would not run it")
	}
	if On {
		t.Skip(why + "; make test runs it without")
	}
}
