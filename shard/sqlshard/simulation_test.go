package sqlshard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// TestI1_I3_I8_Simulation is a long storm. The scheduler is a process of its own. The test kills this process and
// PostgreSQL; between them is the proxy with its faults. The test's process is the client, and remembers the answers.
// On a CockroachDB that the environment names, only the scheduler is killed.
//
// The test ends after CELLGATE_SIM_OPS answered operations, or after the duration CELLGATE_SIM_LIMIT. It appends its
// summary to the file CELLGATE_SIM_SUMMARY.
func TestI1_I3_I8_Simulation(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		srv := pgtest.New(t, pgtest.Options{Durable: true})
		srv.Exec(t, "CREATE DATABASE shard")
		simulate(t, site{name: "PostgreSQL", addr: srv.Addr()}, srv.URL("shard"), srv)
	})
	t.Run("CockroachDB", func(t *testing.T) {
		at := cockroachSite(t)
		simulate(t, at, at.bare(t), nil)
	})
}

// simulate runs the storm on a database. srv is the database's server; nil: it must not be killed.
func simulate(t *testing.T, at site, url string, srv *pgtest.Server) {
	goal, limit := 5000, 10*time.Minute
	if text := os.Getenv("CELLGATE_SIM_OPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("CELLGATE_SIM_OPS: %v", err)
		}
		goal = n
	}
	if text := os.Getenv("CELLGATE_SIM_LIMIT"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("CELLGATE_SIM_LIMIT: %v", err)
		}
		limit = d
	}
	seed := seeds(t, 1, 1)[0]
	repeatWith(t, seed)
	m := newSimulation(t, seed, at, url, srv)
	began := time.Now()
	for m.storm.Sums.Answered() < goal && time.Since(began) < limit && !t.Failed() {
		m.window()
		if m.storm.Sums.Windows%25 == 0 {
			fmt.Fprintf(os.Stderr, "%s: %d operations answered, %d schedulers and %d servers killed\n",
				time.Since(began).Round(time.Second), m.storm.Sums.Answered(), m.schedulers, m.servers)
		}
	}
	wrong, err := m.storm.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.violations = append(m.violations, wrong...)
	for _, w := range wrong {
		t.Error(w)
	}
	if m.schedulers == 0 || (m.servers == 0 && srv != nil) || m.storm.Sums.Unknown == 0 {
		t.Errorf("the test proves little: %+v", m.storm.Sums)
	}
	faults := m.proxy.Counts()
	faults["kill -9 of the scheduler"], faults["kill -9 of the server"] = int64(m.schedulers), int64(m.servers)
	shardtest.Summary{
		Backend: at.name + ", simulation", Tests: 1, Seeds: 1, Operations: int64(m.storm.Sums.Operations),
		Kinds: faults, Violations: len(m.violations),
	}.Tell(t)
	text := m.summary(seed, goal, time.Since(began))
	t.Log("\n" + text)
	if path := os.Getenv("CELLGATE_SIM_SUMMARY"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.WriteString(text + "\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
}

type simulation struct {
	*testing.T
	srv     *pgtest.Server // nil: it must not be killed
	proxy   *pgproxy.Proxy
	sched   *scheduler
	storm   *shardtest.Storm
	applies []shardtest.Apply
	dice    *rand.Rand
	version string

	// A window's kill comes at the batch with the number killAt.
	batches, killAt atomic.Int64
	now, killed     chan struct{}

	schedulers, servers int
	violations          []string
}

func newSimulation(t *testing.T, seed uint64, at site, direct string, srv *pgtest.Server) *simulation {
	m := &simulation{T: t, srv: srv, dice: rand.New(rand.NewPCG(seed, 0)), now: make(chan struct{}), killed: make(chan struct{})}
	look := openAt(t, testOptions(direct))
	t.Cleanup(func() { mustClose(t, look) })
	m.version = look.Server()
	setup, err := look.OpenLane(t.Context(), "setup")
	if err != nil {
		t.Fatal(err)
	}
	m.storm = shardtest.NewStorm(look, seed)
	m.storm.Ops, m.storm.Hosts, m.storm.Batch = 1500, 32, 64
	if err := m.storm.Begin(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	var url string
	m.proxy, url = at.proxied(t, direct)
	m.proxy.SetPlan(pgproxy.Seeded(seed, pgproxy.Weather(simWeather)...))
	m.sched = newScheduler(url, t.TempDir())
	if err := m.sched.start(); err != nil {
		t.Fatal(err)
	}
	m.sched.open()
	t.Cleanup(func() {
		if err := m.sched.stop(); err != nil {
			t.Errorf("ending the scheduler: %v", err)
		}
	})
	for i := range schedulerLanes {
		apply := m.sched.apply(i)
		m.applies = append(m.applies, func(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
			if m.batches.Add(1) == m.killAt.Load() {
				m.now <- struct{}{}
				<-m.killed // the other lanes go on
			}
			return apply(ctx, ops)
		})
	}
	return m
}

// simWeather is the share of statements that fail.
const simWeather = 0.003

// window runs one window of the storm. Every third window kills the scheduler, every tenth the
// server, some kill both.
func (m *simulation) window() {
	m.Helper()
	n := m.storm.Sums.Windows
	killsScheduler, killsServer := n%3 == 1, n%10 == 2 && m.srv != nil
	m.batches.Store(0)
	m.killAt.Store(0)
	if killsScheduler || killsServer {
		m.killAt.Store(5 + m.dice.Int64N(35))
	}
	m.proxy.On(true)
	type result struct {
		wrong []string
		err   error
	}
	ended := make(chan result, 1)
	calmed := make(chan struct{})
	calm := func() error {
		m.killAt.Store(0)
		close(calmed)
		m.proxy.On(false)
		var errs error
		for _, a := range m.applies {
			// Only the first call fails because a process was killed.
			_, err := persistently(func() (struct{}, error) { return struct{}{}, shardtest.Settle(m.Context(), a) })
			errs = errors.Join(errs, err)
		}
		return errs
	}
	go func() {
		wrong, err := m.storm.Window(m.Context(), m.applies, calm)
		ended <- result{wrong, err}
	}()
	select {
	case <-m.now:
		m.kill(killsScheduler, killsServer)
		m.killed <- struct{}{}
	case <-calmed: // the window ended before batch killAt
	}
	r := <-ended
	if r.err != nil {
		m.Fatalf("window %d: %v", n, r.err)
	}
	m.violations = append(m.violations, r.wrong...)
	for _, w := range r.wrong {
		m.Errorf("window %d: %s", n, w)
	}
}

// kill ends processes while they work, and starts them again.
func (m *simulation) kill(scheduler, server bool) {
	m.Helper()
	if scheduler {
		m.schedulers++
		if err := m.sched.kill(); err != nil {
			m.Fatalf("killing the scheduler: %v", err)
		}
	}
	if server {
		m.servers++
		m.srv.Kill(m)
	}
	m.sched.shut() // callers fail, and then wait
	if server {
		m.srv.Run(m)
	}
	if scheduler {
		if err := m.sched.start(); err != nil {
			m.Fatalf("starting the scheduler again: %v", err)
		}
	}
	m.sched.open()
}

func (m *simulation) summary(seed uint64, goal int, took time.Duration) string {
	var b strings.Builder
	s := m.storm.Sums
	row := func(name string, value any) { fmt.Fprintf(&b, "| %s | %v |\n", name, value) }
	b.WriteString("| | |\n|---|---|\n")
	row("server", m.version)
	row("machine", fmt.Sprintf("%d CPUs, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH))
	row("seed, goal", fmt.Sprintf("%d, %d operations answered", seed, goal))
	row("took", took.Round(time.Second))
	row("operations answered", s.Answered())
	row("done, refused", fmt.Sprintf("%d, %d", s.Done, s.Refused))
	row("failed, nothing written", s.Failed)
	row("end not heard of", fmt.Sprintf("%d, of which %d were sent again", s.Unknown, s.Repeated))
	row("looked up afterwards", fmt.Sprintf("%d done, %d not", s.Found, s.Absent))
	row("windows", fmt.Sprintf("%d, the longest history has %d operations", s.Windows, s.Longest))
	row("reads of all hosts in between", s.Reads)
	row("schedulers killed (SIGKILL)", m.schedulers)
	row("servers killed (SIGKILL)", m.servers)
	var faults []string
	total := int64(0)
	for name, n := range m.proxy.Counts() {
		faults = append(faults, fmt.Sprintf("%s %d", name, n))
		total += n
	}
	slices.Sort(faults)
	row("faults of the proxy", fmt.Sprintf("%d: %s", total, strings.Join(faults, ", ")))
	lost := 0
	for _, w := range m.violations {
		if strings.HasPrefix(w, "I3") {
			lost++
		}
	}
	row("acknowledgements lost", lost)
	row("violations", len(m.violations))
	return b.String()
}
