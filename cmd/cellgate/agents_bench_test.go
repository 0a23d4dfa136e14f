package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/agent"
	"cellgate/internal/bench"
	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// TestBenchAgents measures how current a cell's table of its hosts is. Many agents report to one
// replica over loopback, on an embedded shard. Then the replica is killed. The cell is its own
// process, the agents run in this one. "make bench-agents" runs it.
func TestBenchAgents(t *testing.T) {
	if os.Getenv("CELLGATE_BENCH_AGENTS") == "" {
		t.Skip("a measurement: make bench-agents")
	}
	b := &agentsBench{
		t: t, hosts: envNumber(t, "AGENTS_HOSTS", 10_000), steady: time.Duration(envNumber(t, "AGENTS_SECONDS", 60)) * time.Second,
		back: make(map[*agent.Host]bool), refused: map[string]float64{},
	}
	y, err := bench.MeasureYardstick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%d CPUs, %s, load average %syardstick: %v", runtime.NumCPU(), runtime.Version(), load, y)
	b.run()
}

func envNumber(t *testing.T, name string, unset int) int {
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", name, text)
	}
	return n
}

type agentsBench struct {
	t      *testing.T
	hosts  int
	steady time.Duration
	cell   *member
	grpc   string
	web    string

	mu     sync.Mutex
	waited []time.Duration
	back   map[*agent.Host]bool
	allUp  chan struct{}

	peak    float64
	refused map[string]float64
}

// took records that a state was accepted, waited after its change.
func (b *agentsBench) took(h *agent.Host, waited time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if waited > 0 {
		b.waited = append(b.waited, waited)
	}
	if b.allUp != nil && !b.back[h] {
		b.back[h] = true
		if len(b.back) == b.hosts {
			close(b.allUp)
			b.allUp = nil
		}
	}
}

func (b *agentsBench) drainLatencies() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.waited
	b.waited = nil
	slices.Sort(all)
	return all
}

// awaitAll gives a channel that is closed when every host was accepted from now on.
func (b *agentsBench) awaitAll() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.back)
	b.allUp = make(chan struct{})
	return b.allUp
}

func (b *agentsBench) await(done <-chan struct{}) {
	b.t.Helper()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("only %d of %d hosts were accepted\n%s", len(b.back), b.hosts, b.cell.tail())
	}
}

func (b *agentsBench) run() {
	t := b.t
	dir := t.TempDir()
	b.grpc, b.web = freePort(t), freePort(t)
	b.cell = &member{t: t, name: "cell1", log: filepath.Join(dir, "cell.log"), args: []string{
		"cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001", "--data", filepath.Join(dir, "shard"),
		"--grpc", b.grpc, "--metrics", b.web,
	}}
	b.cell.start()
	defer func() { _ = b.cell.signal(syscall.SIGTERM) }()

	sim, err := agent.NewSimulation(1, "cell1", b.hosts)
	if err != nil {
		t.Fatal(err)
	}
	source := &stoppable{churn: churn{
		Simulation: sim, Every: 10 * time.Second, Burst: min(3000, b.hosts/3), BurstEvery: 10 * time.Second,
	}, pace: make(chan pace)}
	f, err := agent.NewFleet(agent.FleetConfig{Cell: "cell1", Replicas: []string{b.grpc}}, agent.FleetDeps{
		Source: source, Dial: func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target) }, Accepted: b.took,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	watched := make(chan struct{})
	go func() { defer close(watched); b.watch(ctx) }()
	defer func() { cancel(); <-watched }()

	began, all := time.Now(), b.awaitAll()
	before := b.usage()
	go func() { ended <- f.Run(ctx) }()
	b.await(all)
	b.report("registered, all new", time.Since(began), before)
	runtime.GC()
	t.Logf("agents: %d goroutines a host", runtime.NumGoroutine()/b.hosts)
	b.drainLatencies()

	for _, phase := range []struct {
		name string
		pace pace
	}{{"a change a host in 10 s", steady}, {"and bursts of " + strconv.Itoa(source.Burst) + " at once", bursts}} {
		began, before = time.Now(), b.usage()
		source.pace <- phase.pace
		<-time.After(b.steady)
		b.report(phase.name, time.Since(began), before)
	}

	// The replica dies while states change.
	b.cell.kill()
	began, all = time.Now(), b.awaitAll()
	b.cell.start()
	before = b.usage()
	ready := b.awaitReady()
	t.Logf("killed and started again: its table is loaded after %v", ready.Sub(began).Round(10*time.Millisecond))
	b.await(all)
	b.report("all back after the kill", time.Since(began), before)
	t.Logf("of that %v after the table was loaded", time.Since(ready).Round(10*time.Millisecond))

	source.pace <- still
	b.exact(ctx, sim.Hosts())
	b.mu.Lock()
	defer b.mu.Unlock()
	t.Logf("peak of registrations that waited, read every 200 ms: %.0f; refused as OVERLOADED: %v", b.peak, b.refused)
}

// stoppable is a churn that follows the last pace it got: no changes, changes, or changes and
// bursts.
type stoppable struct {
	churn
	pace chan pace
}

type pace int

const (
	still pace = iota
	steady
	bursts
)

func (s *stoppable) Run(ctx context.Context) error {
	end := func() {}
	defer func() { end() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-s.pace:
			end()
			end = func() {}
			if p == still {
				continue
			}
			c := s.churn
			if p == steady {
				c.Burst = 0
			}
			inner, halt := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() { defer close(ended); _ = c.Run(inner) }()
			end = func() { halt(); <-ended }
		}
	}
}

// used is the CPU time that the two processes have used so far.
type used struct{ cell, agents time.Duration }

func (b *agentsBench) usage() used {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	cpu := cpuOf(b.cell.cmd.Process.Pid)
	return used{seconds(cpu.Server), seconds(cpu.Client)}
}

// report prints one phase as a row.
func (b *agentsBench) report(name string, took time.Duration, before used) {
	b.t.Helper()
	now, all := b.usage(), b.drainLatencies()
	at := func(q float64) time.Duration {
		if len(all) == 0 {
			return 0
		}
		return all[min(len(all)-1, int(q*float64(len(all))))].Round(100 * time.Microsecond)
	}
	perHost := func(pid int) float64 { return float64(memoryOf(pid)>>10) / float64(b.hosts) }
	per := func(d time.Duration) string {
		return fmt.Sprintf("%.2f µs a host and second", float64(d.Microseconds())/float64(b.hosts)/took.Seconds())
	}
	b.t.Logf("| %s | %v | %d changes | p50 %v p99 %v max %v | cell: CPU %v (%s), RSS %.1f KiB a host | agents: CPU %v (%s), RSS %.1f KiB a host | writes %.0f in %.0f transactions |",
		name, took.Round(10*time.Millisecond), len(all), at(0.5), at(0.99), at(1),
		now.cell-before.cell, per(now.cell-before.cell), perHost(b.cell.cmd.Process.Pid),
		now.agents-before.agents, per(now.agents-before.agents), perHost(os.Getpid()),
		b.metric(`cellgate_cell_operations_total{[^}]*op="put_host"[^}]*}`), b.metric(`cellgate_cell_transactions_total{[^}]*}`))
}

// metric returns the sum of the cell's series that match, or 0 if the cell does not answer.
func (b *agentsBench) metric(pattern string) (sum float64) {
	resp, err := http.Get("http://" + b.web + "/metrics")
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\S+)$`).FindAllSubmatch(text, -1) {
		v, _ := strconv.ParseFloat(string(m[1]), 64)
		sum += v
	}
	return sum
}

// watch samples the cell's queue until ctx ends.
func (b *agentsBench) watch(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		waits, refused := b.metric(`cellgate_cell_queue_ops{[^}]*}`), b.metric(`cellgate_cell_queue_refused_total{[^}]*}`)
		b.mu.Lock()
		b.peak, b.refused["since the last start"] = max(b.peak, waits), refused
		b.mu.Unlock()
	}
}

func (b *agentsBench) awaitReady() time.Time {
	b.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		resp, err := http.Get("http://" + b.web + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return time.Now()
		}
	}
	b.t.Fatalf("the cell is not ready\n%s", b.cell.tail())
	return time.Time{}
}

// exact waits until the cell's table has the state of every host.
func (b *agentsBench) exact(ctx context.Context, hosts []*agent.Host) {
	b.t.Helper()
	conn, err := rpc.Dial(b.grpc)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := cellv1.NewCellSchedulerClient(conn)
	began, differ := time.Now(), 0
	for end := began.Add(2 * time.Minute); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		shown, req := map[string]*cellgatev1.Host{}, &cellv1.ListHostsRequest{PageSize: 1000}
		for more := true; more; {
			page, err := client.ListHosts(ctx, req)
			if err != nil {
				b.t.Fatal(err)
			}
			for _, h := range page.GetHosts() {
				shown[h.GetHostUuid()] = h
				req.AfterServiceHost, req.AfterHostUuid = h.GetServiceHost(), h.GetHostUuid()
			}
			more = page.GetMore()
		}
		differ = 0
		for _, h := range hosts {
			s, _ := h.State()
			row := shown[s.GetHostUuid()]
			// DisabledReason numbers the changes of a host; its row is written as a whole.
			if row == nil || !row.GetUp() || row.GetDisabledReason() != s.GetDisabledReason() || row.GetEnabled() == s.GetDisabled() ||
				len(row.GetTraits()) != len(s.GetProviders()[0].GetTraits()) || row.GetInstances() < int32(len(s.GetInstances())) {
				differ++
			}
		}
		if differ == 0 && len(shown) == len(hosts) {
			b.t.Logf("exact: the table says of all %d hosts what they say of themselves", len(hosts))
			return
		}
	}
	b.t.Errorf("%d hosts of %d differ", differ, len(hosts))
}
