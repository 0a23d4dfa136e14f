package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/bench"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

const (
	// overloadStep is how long each rate is offered, overloadCalm how long half of the peak is
	// offered after it.
	overloadStep, overloadCalm = 15 * time.Second, 4 * time.Second
	overloadHosts              = 1000
)

const (
	// overloadCallers flood, each with a connection to either gateway.
	overloadCallers = 4
	// politeRate is how many selections a second the polite caller sends.
	politeRate = 5
	// overloadDeadline is that of every call.
	overloadDeadline = 2 * time.Second
)

// TestOverload_TwoGatewaysThreeCells_GoodputHolds offers a multiple of what the
// system can do, and then half of it, to two gateways over three cells, all real
// processes, while a polite caller selects at a low rate, and prints what came of it. The
// tests of package admission demand the same in virtual time.
func TestOverload_TwoGatewaysThreeCells_GoodputHolds(t *testing.T) {
	if os.Getenv("CELLGATE_OVERLOAD") == "" {
		t.Skip("a measurement: make overload")
	}
	s := startSystem(t, 3, overloadHosts, nil)
	gateways := []*member{s.gateway, s.addGateway()}
	var flood [][]grpc.ClientConnInterface // by caller
	for range overloadCallers {
		flood = append(flood, connections(t, gateways))
	}
	polite := connections(t, gateways)
	all := slices.Concat(flood...)

	var peak float64
	for _, callers := range []int{16, 64, 128} {
		r := bench.Run(t.Context(), all, bench.Load{
			Callers: callers, Warmup: overloadStep / 8, Duration: overloadStep / 2, Shape: bench.Same, Release: bench.ReleaseEach,
			CallWithin: 10 * time.Second, Seed: 1,
		})
		t.Logf("%d callers that wait for their answers: %.0f selections/s, p50 %.1f ms, p99 %.1f ms, errors %v", callers, r.SelectionsPerSecond, r.Latency.P50, r.Latency.P99, r.Errors)
		peak = max(peak, r.SelectionsPerSecond)
	}
	if peak == 0 {
		t.Fatal("nothing was selected without overload")
	}

	yieldToServers(t)
	var text strings.Builder
	rows := newTable(&text, "OFFERED", "SENT/S", "NOT SENT", "GOODPUT/S", "OF PEAK", "ACCEPTED P50 (MS)", "P99", "REFUSED", "P50", "P99", "OTHER ERRORS", "POLITE", "P99", "RELEASES FAILED", "GATEWAY CPU", "RSS", "RECOVERED")
	for _, times := range []float64{1, 5, 20} {
		cpu := cpuOfAll(t, gateways)
		var politely, r bench.OpenResult
		var beside sync.WaitGroup
		beside.Go(func() {
			politely = bench.RunOpen(t.Context(), polite, bench.OpenLoad{Rate: politeRate, Duration: overloadStep, MaxPending: 100, CallWithin: overloadDeadline, Seed: 3})
		})
		beside.Go(func() {
			r = bench.RunOpen(t.Context(), all, bench.OpenLoad{Rate: times * peak, Duration: overloadStep, MaxPending: 20000, CallWithin: overloadDeadline, Seed: 2})
		})
		hold(t.Context(), overloadStep)
		recovering := bench.RunOpen(t.Context(), all, bench.OpenLoad{Rate: peak / 2, Duration: overloadCalm, MaxPending: 20000, CallWithin: overloadDeadline, Seed: 4})
		beside.Wait()
		accepted, good := r.QuantilesOf("")
		refused, no := r.QuantilesOf(fault.Overloaded)
		others, texts := map[fault.Kind]int{}, map[string]int{}
		for _, c := range r.Calls {
			if c.Kind != "" && c.Kind != fault.Overloaded {
				others[c.Kind]++
				texts[c.Err.Error()]++
			}
		}
		for text, n := range texts {
			if n > 20 {
				t.Logf("%g x: %d calls failed: %s", times, n, text)
			}
		}
		politeTook, politeGood := politely.QuantilesOf("")
		goodput := float64(good) / overloadStep.Seconds()
		rows.row(fmt.Sprintf("%g x", times), fmt.Sprintf("%.0f", float64(len(r.Calls))/overloadStep.Seconds()), r.NotSent,
			fmt.Sprintf("%.0f", goodput), fmt.Sprintf("%.0f %%", 100*goodput/peak), ms(accepted.P50), ms(accepted.P99),
			no, ms(refused.P50), ms(refused.P99), kindsText(others),
			fmt.Sprintf("%d of %d", politeGood, len(politely.Calls)), ms(politeTook.P99), kindsText(r.ReleaseErrors),
			(cpuOfAll(t, gateways) - cpu).Round(100*time.Millisecond), rssOfAll(t, gateways), recovery(recovering))
	}
	if err := rows.end(); err != nil {
		t.Error(err)
	}
	t.Logf("peak %.0f selections/s\n%s", peak, text.String())
	if path := os.Getenv("CELLGATE_OVERLOAD_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// yieldToServers lowers the priority of this process: the load client shares the processors
// with what it loads, and clients elsewhere would take nothing from it.
func yieldToServers(t *testing.T) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, 10); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// recovery is how long after a flood the last call was sent that failed, at half of
// what the system can do.
func recovery(r bench.OpenResult) time.Duration {
	var last time.Duration
	for _, c := range r.Calls {
		if c.Kind != "" {
			last = max(last, c.Sent)
		}
	}
	return last.Round(time.Millisecond)
}

// addGateway starts a second gateway over the system's cells and waits until it is
// ready.
func (s *realSystem) addGateway() *member {
	s.t.Helper()
	api, web := freePort(s.t), freePort(s.t)
	m := &member{t: s.t, name: "gateway2", log: filepath.Join(s.t.TempDir(), "gateway2.log"), args: slices.Clone(s.gateway.args)}
	for i, arg := range m.args {
		switch arg {
		case s.api:
			m.args[i] = api
		case s.web:
			m.args[i] = web
		}
	}
	m.start()
	s.t.Cleanup(func() {
		if err := m.signal(os.Kill); err == nil {
			s.t.Errorf("%s had ended before it was killed\n%s", m.name, m.tail())
		}
	})
	ready := &realSystem{t: s.t, web: web}
	ready.await(60*time.Second, "the second gateway is ready", func(ctx context.Context) (bool, string) {
		code, report, err := ready.ready(ctx)
		return err == nil && code == http.StatusOK, fmt.Sprint(code, report, err)
	})
	return m
}

// connections dials each gateway once.
func connections(t *testing.T, gateways []*member) []grpc.ClientConnInterface {
	t.Helper()
	var out []grpc.ClientConnInterface
	for _, m := range gateways {
		conn, err := rpc.Dial(m.args[slices.Index(m.args, "--grpc")+1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		out = append(out, conn)
	}
	return out
}

func kindsText(n map[fault.Kind]int) string {
	var out []string
	for k, n := range n {
		out = append(out, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// rssOfAll gives the most memory that each process ever had.
func rssOfAll(t *testing.T, of []*member) string {
	t.Helper()
	var out []string
	for _, m := range of {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`VmHWM:\s+(\d+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("no VmHWM in %s", text)
		}
		kib, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%d MiB", kib>>10))
	}
	return strings.Join(out, ", ")
}

// cpuOfAll gives the CPU time of processes.
func cpuOfAll(t *testing.T, of []*member) time.Duration {
	t.Helper()
	var sum float64
	for _, m := range of {
		sum += cpuOf(m.cmd.Process.Pid).Server
	}
	return time.Duration(sum * float64(time.Second))
}
