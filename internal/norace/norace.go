package norace

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Ran is the variable of the environment that says that all tests but those that were
// left out ran with the race detector.
const Ran = "CELLGATE_RAN_RACED"

// Runtime is why tests in bubbles of testing/synctest that start and stop thousands of
// timers are left out.
const Runtime = "with the race detector Go 1.26's runtime crashes now and then (racegostart, in a timer of a synctest bubble)"

// Pure is why tests without goroutines are left out.
const Pure = "it starts no goroutine, and takes ten times as long with the race detector"

var left []string

// LeaveOut names, by TestMain before the tests run, those of the package that do not run
// with the race detector. Where the environment has Ran, and the detector is off, it
// chooses these and no others; a -run of the command line stands.
func LeaveOut(tests ...string) {
	left = tests
	if On || os.Getenv(Ran) == "" {
		return
	}
	if err := flag.Set("test.run", "^("+strings.Join(tests, "|")+")$"); err != nil {
		panic(fmt.Sprintf("choosing the tests: %v", err)) // the flag is there in every test binary
	}
}

// Skip skips a test that was left out while the detector is on, and says why. A test that
// was not named fails: nothing would run it.
func Skip(t testing.TB, why string) {
	t.Helper()
	if !slices.Contains(left, t.Name()) {
		t.Fatal("norace.LeaveOut does not name this test: make test would not run it")
	}
	if On {
		t.Skip(why + "; make test runs it without")
	}
}
