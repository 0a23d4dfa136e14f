package simulation

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/norace"
)

// settings of a run, from the environment: how many seeds run, from first on. If only first is set,
// one seed runs.
type settings struct {
	first, seeds uint64
	runs         int
	// length stretches each seed's plan.
	length int
	trace  bool
}

func settingsOf(t *testing.T) settings {
	number := func(name string, unset int) int {
		text := os.Getenv(name)
		if text == "" {
			return unset
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%s is no number above 0", name, text)
		}
		return n
	}
	s := settings{first: 1, seeds: 20, runs: 1, length: 1}
	if os.Getenv("CELLGATE_LONG") != "" {
		s.seeds, s.length = 1000, 2
	}
	if n := number("CELLGATE_SIM_SEED", 0); n > 0 {
		s.first, s.seeds = uint64(n), 1
	}
	s.seeds = uint64(number("CELLGATE_SIM_SEEDS", int(s.seeds)))
	s.trace = s.seeds == 1
	s.length = number("CELLGATE_SIM_LENGTH", s.length)
	s.runs = number("CELLGATE_SIM_RUNS", 1)
	return s
}

// sums adds up the results of all seeds.
type sums struct {
	mu              sync.Mutex
	seeds, failed   int
	entries, checks int
	virtual         time.Duration
	counts          map[string]int
	// histories counts, for each seed, the runs that had each history.
	histories map[uint64]map[uint64]int
}

func (s *sums) add(seed uint64, r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds++
	s.entries, s.checks, s.virtual = s.entries+r.entries, s.checks+r.checks, s.virtual+r.virtual
	if len(r.wrongs) > 0 {
		s.failed++
	}
	for what, n := range r.counts {
		s.counts[what] += n
	}
	if s.histories[seed] == nil {
		s.histories[seed] = map[uint64]int{}
	}
	s.histories[seed][hash(r.history...)]++
}

// replayed counts the seeds whose runs all had the same history.
func (s *sums) replayed() (same int) {
	for _, h := range s.histories {
		if len(h) == 1 {
			same++
		}
	}
	return same
}

// String is the table that make sim prints.
func (s *sums) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs of seeds, %d failed: %v of virtual time, %d transactions, %d checks\n", s.seeds, s.failed, s.virtual.Round(time.Second), s.entries, s.checks)
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&b, "%10d  %s\n", s.counts[what], what)
	}
	return b.String()
}

// Whatever faults the seeds inject, no invariant is broken. After a quiet time, all replicas'
// tables, all agents' true states and the shards agree.
func TestI1_I2_I3_I4_I8_I9_Simulation(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	set := settingsOf(t)
	all := &sums{counts: map[string]int{}, histories: map[uint64]map[uint64]int{}}
	t.Run("seeds", func(t *testing.T) {
		for seed := set.first; seed < set.first+set.seeds; seed++ {
			for range set.runs {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					t.Parallel()
					all.add(seed, play(t, seed, set))
				})
			}
		}
	})
	t.Logf("\n%s", all)
	if set.runs > 1 {
		t.Logf("of %d seeds, %d had the same history in all of their %d runs", set.seeds, all.replayed(), set.runs)
	}
	if set.seeds < 200 {
		return
	}
	// A fault that no seed injects is not tested.
	for _, k := range slices.Concat(kinds, ownKinds) {
		if all.counts["fault: "+string(k)] == 0 {
			t.Errorf("no seed had the fault %q", k)
		}
	}
	for _, what := range []string{
		"call select", "call confirm", "call release", "call alternate", "moved", "repeated", "given up", "confirm rejected", "confirm refused", "a replica found that it was fenced", "probed", "started over", "lost deltas", "operator answered", "transferred", "evacuated", "alternate out of service", "tables asked", "asked again after a release", "started with a host that was down",
		"aborted", "an abort gave room back", "an abort ended a confirmed claim", "aborts lost", "aborts doubled", "probed: hosts aborted claims", "a dead agent's state arrived", "probed: a dead agent's state arrived",
		"probed: a request failed halfway", "probed: a claim was kept", "probed: a claim came after its release", "probed: a change came late", "probed: a release came late", "a state came of an epoch that is over",
	} {
		if all.counts[what] == 0 {
			t.Errorf("nothing was counted as %q", what)
		}
	}
}

// play runs one seed. If something was wrong, it prints how to run the seed again.
func play(t *testing.T, seed uint64, set settings) (r result) {
	t.Helper()
	p := newPlan(seed, set.length)
	named(seed, func() {
		r = within(t, time.Duration(set.length)*seedLimit, func(_ *testing.T, o *watched) result { return run(p, o) })
	})
	if set.trace || len(r.wrongs) > 0 {
		t.Logf("seed %d: %d cells of %d replicas and %d hosts, %d gateways, mode %s, %d faults, %d callers, %d transactions, %d checks in %v of virtual time",
			seed, p.cells, p.replicas, p.hostsEach, p.gateways, p.mode, len(p.faults), len(p.stories), r.entries, r.checks, r.virtual)
	}
	if len(r.wrongs) == 0 {
		return r
	}
	again := fmt.Sprintf("make sim SEED=%d", seed)
	if set.length > 1 {
		again += fmt.Sprintf(" SIM_LENGTH=%d", set.length)
	}
	t.Errorf("seed %d broke what must hold; again, many times: %s RUNS=20\n  %s\n%s", seed, again, strings.Join(r.wrongs, "\n  "), traceOf(r))
	return r
}

// traceOf returns the trace up to the first wrong event, and some of what follows.
func traceOf(r result) string {
	if os.Getenv("CELLGATE_SIM_TRACE") != "" {
		return strings.Join(r.traces, "\n")
	}
	at := slices.IndexFunc(r.traces, func(s string) bool { return strings.Contains(s, "WRONG") })
	from, to := max(0, at-150), min(len(r.traces), at+50)
	return strings.Join(r.traces[from:to], "\n")
}

// The plan follows from the seed alone.
func TestPlansFollowFromTheirSeeds(t *testing.T) {
	for seed := range uint64(50) {
		if a, b := fmt.Sprintf("%+v", *newPlan(seed, 1)), fmt.Sprintf("%+v", *newPlan(seed, 1)); a != b {
			t.Fatalf("seed %d has two plans:\n%s\n%s", seed, a, b)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want settings
	}{
		"none":                {want: settings{first: 1, seeds: 20, runs: 1, length: 1}},
		"all":                 {map[string]string{"SEEDS": "3000"}, settings{first: 1, seeds: 3000, runs: 1, length: 1}},
		"long":                {map[string]string{"LONG": "1"}, settings{first: 1, seeds: 1000, runs: 1, length: 2}},
		"one seed":            {map[string]string{"SEED": "7"}, settings{first: 7, seeds: 1, runs: 1, length: 1, trace: true}},
		"one seed many times": {map[string]string{"SEED": "7", "RUNS": "20", "LENGTH": "2"}, settings{first: 7, seeds: 1, runs: 20, length: 2, trace: true}},
		"seeds from one on":   {map[string]string{"SEED": "7", "SEEDS": "50"}, settings{first: 7, seeds: 50, runs: 1, length: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []string{"SEED", "SEEDS", "RUNS", "LENGTH"} {
				t.Setenv("CELLGATE_SIM_"+n, c.env[n])
			}
			t.Setenv("CELLGATE_LONG", c.env["LONG"])
			if got := settingsOf(t); got != c.want {
				t.Errorf("the settings are %+v, want %+v", got, c.want)
			}
		})
	}
}
