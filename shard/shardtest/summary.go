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

// SummaryEnv names the variable with the file to which summaries are added, one line
// each, with tabs between the fields.
const SummaryEnv = "CELLGATE_STORE_SUMMARY"

// Summary is what a run of tests on a backend came to.
type Summary struct {
	Backend string
	// Tests were run; Violations of them failed. NotRun are those that were not, and
	// why.
	Tests      int
	Violations int
	NotRun     []string
	// Seeds are of random operations; Operations are those of Apply; Faults are those
	// that were injected.
	Seeds      int64
	Operations int64
	Faults     int64
	// Kinds are faults by their kind; with Faults 0 their sum is shown.
	Kinds map[string]int64
}

// Tell logs a summary and adds it to the file of SummaryEnv.
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

// NotRun tells that a backend was not tested, and skips the test.
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

// counted gives an instance whose operations, restarts and crashes are counted.
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

// ended counts a clause's test; lacks is the capability for want of which it was skipped,
// "" for none.
func (c *tally) ended(t *testing.T, clause, lacks string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case lacks != "":
		c.summary.NotRun = append(c.summary.NotRun, fmt.Sprintf("%s: the backend has no capability %q", clause, lacks))
	case t.Skipped():
		c.summary.NotRun = append(c.summary.NotRun, clause+": its test skipped itself, and says why")
	default:
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
