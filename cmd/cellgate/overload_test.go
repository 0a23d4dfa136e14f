package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
)

const (
	// overloadFlood is how long each rate is offered, overloadCalm how long half of the peak is
	// offered afterwards.
	overloadFlood, overloadCalm = 15 * time.Second, 4 * time.Second
	overloadHosts               = 1000
	// politeRate is how many selections a second the polite caller sends.
	politeRate = 5
)

// TestOverload_TwoGatewaysThreeCells_GoodputHolds offers a multiple of the system's capacity, and
// then half of it, to two gateways over three cells, all processes. Meanwhile a polite caller
// selects at a low rate. It prints the results. The tests of package admission check the same in
// virtual time.
func TestOverload_TwoGatewaysThreeCells_GoodputHolds(t *testing.T) {
	if os.Getenv("CELLGATE_OVERLOAD") == "" {
		t.Skip("a measurement: make overload")
	}
	s := startSystem(t, 3, overloadHosts, nil)
	gateways := []*member{s.gateway, s.addGateway()}
	var addrs []string
	for _, m := range gateways {
		addrs = append(addrs, m.args[slices.Index(m.args, "--grpc")+1])
	}
	flood := overloadLoad{Addrs: addrs, From: []string{"127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4"}}
	polite := overloadLoad{Addrs: addrs, From: []string{"127.0.2.1"}, Steps: []overloadStep{{Rate: politeRate, For: overloadFlood}}}

	flood.Steps = []overloadStep{
		{AtOnce: 128, For: overloadFlood / 8}, // warm-up
		{AtOnce: 16, For: overloadFlood / 3}, {AtOnce: 64, For: overloadFlood / 3}, {AtOnce: 128, For: overloadFlood / 3}, {AtOnce: 256, For: overloadFlood / 3},
	}
	var peak float64
	for i, r := range offer(t, flood) {
		a, step := r.calls(""), flood.Steps[i]
		t.Logf("%d selections at once: %.0f/s, p50 %.1f ms, p99 %.1f ms, errors %s", step.AtOnce, float64(a.N)/step.For.Seconds(), a.P50, a.P99, r.others())
		if i > 0 {
			peak = max(peak, float64(a.N)/step.For.Seconds())
		}
	}
	if peak == 0 {
		t.Fatal("nothing was selected without overload")
	}

	var text page
	rows := text.table("OFFERED", "SENT/S", "NOT SENT", "GOODPUT/S", "OF PEAK", "ACCEPTED P50 (MS)", "P99", "REFUSED", "P50", "P99", "NO RETRYINFO", "OTHER ERRORS", "POLITE", "P50", "P99", "RELEASES FAILED", "GATEWAY CPU", "RSS", "RECOVERED", "LOAD")
	for _, times := range []float64{1, 5, 20} {
		cpu := cpuOfAll(t, gateways)
		var politely *overloadResult
		var beside sync.WaitGroup
		beside.Go(func() { politely = offer(t, polite)[0] })
		flood.Steps = []overloadStep{{Rate: times * peak, For: overloadFlood}, {Rate: peak / 2, For: overloadCalm}}
		both := offer(t, flood)
		beside.Wait()
		r, calm := both[0], both[1]
		var recovered time.Duration
		for kind, c := range calm.Selections {
			if kind != "" {
				recovered = max(recovered, c.Last)
			}
		}
		accepted, refused, served := r.calls(""), r.calls(fault.Overloaded), politely.calls("")
		load, _ := os.ReadFile("/proc/loadavg")
		rows.row(fmt.Sprintf("%g x", times), fmt.Sprintf("%.0f", float64(r.Sent)/overloadFlood.Seconds()), r.NotSent,
			fmt.Sprintf("%.0f", float64(accepted.N)/overloadFlood.Seconds()), fmt.Sprintf("%.0f %%", 100*float64(accepted.N)/overloadFlood.Seconds()/peak), accepted.P50, accepted.P99,
			refused.N, refused.P50, refused.P99, r.WithoutRetry, r.others(),
			fmt.Sprintf("%d of %d", served.N, politely.Sent+politely.NotSent), served.P50, served.P99, sumOf(r.Releases),
			(cpuOfAll(t, gateways) - cpu).Round(100*time.Millisecond), rssOfAll(t, gateways), recovered.Round(time.Millisecond), strings.Fields(string(load) + " ?")[0])
		for text, n := range r.Releases {
			t.Logf("%g x: %d releases failed: %s", times, n, text)
		}
	}
	rows.print()
	t.Logf("peak %.0f selections/s\n%s", peak, text.String())
	if path := os.Getenv("CELLGATE_OVERLOAD_TABLE"); path != "" {
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// offer sends a load from a new process.
func offer(t *testing.T, load overloadLoad) (out []*overloadResult) {
	t.Helper()
	config, err := json.Marshal(load)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asOverloadClient+"="+string(config))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil || len(out) != len(load.Steps) {
		t.Errorf("the load client: %v: %s", err, text)
		return make([]*overloadResult, len(load.Steps))
	}
	return out
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

// rssOfAll returns the peak memory of each process.
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
