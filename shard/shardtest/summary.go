package shardtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// SummaryEnv names an environment variable. Its value is the file that gets one line for each summary, with tabs
// between the fields.
const SummaryEnv = "CELLGATE_STORE_SUMMARY"

// Summary is the result of a test run on a backend.
type Summary struct {
	Backend string
	// Tests counts the tests that ran, and Violations those that failed. NotRun lists the others, with the reasons.
	Tests      int
	Violations int
	NotRun     []string
	// Seeds counts the seeds of random operations, Operations those that Apply got, and Faults those injected.
	Seeds      int64
	Operations int64
	Faults     int64
	// Kinds counts faults by kind. If Faults is 0, Tell prints their sum.
	Kinds map[string]int64
}

// Tell logs a summary and appends it to the file that SummaryEnv names.
func (s Summary) Tell(t testing.TB) {
	t.Helper()
	if s.Faults == 0 {
		for _, n := range s.Kinds {
			s.Faults += n
		}
	}
	t.Logf("%s: %d tests, %d seeds, %d operations, %d faults injected, %d violations, %d not run; %s",
		s.Backend, s.Tests, s.Seeds, s.Operations, s.Faults, s.Violations, len(s.NotRun), s.kinds())
	path := os.Getenv(SummaryEnv)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", s.Backend, s.Tests, s.Seeds, s.Operations, s.Faults, s.Violations, strings.Join(s.NotRun, "; "), s.kinds())
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		t.Errorf("the summary: %v", err)
	}
}

// kinds lists the faults by kind.
func (s Summary) kinds() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Kinds)) {
		list = append(list, fmt.Sprintf("%s %d", name, s.Kinds[name]))
	}
	return strings.Join(list, ", ")
}

// NotRun reports that a backend was not tested, and skips the test.
func NotRun(t testing.TB, backend, why string) {
	t.Helper()
	Summary{Backend: backend, NotRun: []string{why}}.Tell(t)
	t.Skipf("NOT RUN on %s: %s", backend, why)
}

// tally counts what a suite does to its stores.
type tally struct {
	backend Backend
	mu      sync.Mutex
	summary Summary

	seeds, operations, faults atomic.Int64
}

// counted wraps an instance to count its operations, restarts and crashes.
func (c *tally) counted(i *Instance) *Instance {
	counted := *i
	counted.Store = &Faulty{Store: i.Store, Before: func(_ context.Context, call Call) error {
		c.operations.Add(int64(len(call.Ops)))
		return nil
	}}
	again := func(open func(*testing.T) *Instance) func(*testing.T) *Instance {
		if open == nil {
			return nil
		}
		return func(t *testing.T) *Instance {
			c.faults.Add(1)
			return c.counted(open(t))
		}
	}
	counted.Reopen, counted.Crash = again(i.Reopen), again(i.Crash)
	return &counted
}

// ended counts a clause's test.
func (c *tally) ended(t *testing.T, clause string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Skipped() {
		c.summary.NotRun = append(c.summary.NotRun, clause+": its test skipped itself, and says why")
	} else {
		c.summary.Tests++
	}
	if t.Failed() {
		c.summary.Violations++
	}
}

func (c *tally) printSummary(t *testing.T) {
	s := c.summary
	s.Seeds, s.Operations, s.Faults = c.seeds.Load()+c.backend.Seeds, c.operations.Load(), c.faults.Load()
	s.Kinds = map[string]int64{"restart or crash": s.Faults}
	if c.backend.Faults != nil {
		for name, n := range c.backend.Faults() {
			s.Kinds[name] += n
			s.Faults += n
		}
	}
	s.Tell(t)
}

// seed counts a seed of random operations.
func (s *suite) seed() { s.tally.seeds.Add(1) }
