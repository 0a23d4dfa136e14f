package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"cellgate/internal/bench"
)

// benchMachine is the machine and the build that measured, as they were before the first step.
type benchMachine struct {
	Build   build  `json:"build"`
	CPUs    int    `json:"cpus"`
	LoadAvg string `json:"load_average,omitempty"`
	// SyncMS is the disk's median time to make 4 KiB durable; 0 when bench did not measure it.
	SyncMS float64 `json:"sync_median_ms,omitempty"`
	// Yardstick is the machine's own speed.
	Yardstick bench.Yardstick `json:"yardstick"`
}

// measureMachine measures the machine, and the disk of dir unless that is "".
func measureMachine(ctx context.Context, dir string) (m benchMachine, err error) {
	m = benchMachine{Build: buildOf(), CPUs: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil { // Linux only
		m.LoadAvg = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	if m.Yardstick, err = bench.MeasureYardstick(ctx); err != nil {
		return m, fmt.Errorf("yardstick: %w", err)
	}
	if dir != "" {
		d, err := bench.SyncMedian(dir, 200)
		if err != nil {
			return m, fmt.Errorf("--data: %w", err)
		}
		m.SyncMS = float64(d) / float64(time.Millisecond)
	}
	return m, nil
}

func (m benchMachine) String() string {
	return fmt.Sprintf("%d CPUs, load average before %s; 4 KiB durable in %s\nyardstick: %s", m.CPUs, cmp.Or(m.LoadAvg, "-"), syncText(m.SyncMS), m.Yardstick)
}

// benchReport is what bench measured, and where.
type benchReport struct {
	benchMachine
	Target  string `json:"target"`
	Cells   int    `json:"cells"`
	Hosts   int    `json:"hosts"`
	Conns   int    `json:"connections"`
	Release string `json:"release"`
	// Memory is what bench's own system has in use before the first step. Its gateway, cells and agents
	// share one process. 0: not known.
	Memory int         `json:"memory_bytes,omitempty"`
	Steps  []benchStep `json:"steps"`
}

// benchStep has the results for one number of callers.
type benchStep struct {
	bench.Result
	CPU cpuTimes `json:"cpu"`
}

// unexpected gives an error when an answer was not the expected one.
func (r *benchReport) unexpected() error {
	n := 0
	for i := range r.Steps {
		n += r.Steps[i].Failed()
		if rel := r.Steps[i].Release; rel != nil {
			for _, k := range rel.Errors {
				n += k
			}
		}
	}
	if n > 0 {
		return fmt.Errorf("%d answers were not as expected", n)
	}
	return nil
}

// print writes the report in a form of -o.
func (r *benchReport) print(w io.Writer, form string) error {
	if form == "json" || form == "yaml" {
		return printValue(w, r, form)
	}
	return show(w, func(p *page) { p.wide, p.names = form == "wide", form == "name"; r.show(p) })
}

func (r *benchReport) show(p *page) {
	p.printf("%d cells with %d hosts in all at %s; %d connections, release %s\n%v\n",
		r.Cells, r.Hosts, r.Target, r.Conns, r.Release, r.benchMachine)
	if r.Memory > 0 && r.Hosts > 0 {
		p.printf("memory of gateway, cells and agents before: %d MiB, %d KiB a host\n", r.Memory>>20, r.Memory/r.Hosts>>10)
	}
	p.printf("\n")
	t := p.table("CALLERS", wideOnly+"SHAPE", wideOnly+"REQUESTS/S", "SELECTIONS/S", "P50 MS", "P95 MS", "P99 MS", "MAX MS", "REFUSED", wideOnly+"INEXACT",
		"PARTIAL", "ERRORS", "CPU MS", wideOnly+"SERVER CPU", wideOnly+"CLIENT CPU")
	releases := p.table("CALLERS", "RELEASES/S", "P50 MS", "P95 MS", "P99 MS", "MAX MS", "ERRORS")
	for _, s := range r.Steps {
		t.row(s.Callers, s.Shape, fmt.Sprintf("%.0f", s.RequestsPerSecond), fmt.Sprintf("%.0f", s.SelectionsPerSecond),
			ms(s.Latency.P50), ms(s.Latency.P95), ms(s.Latency.P99), ms(s.Latency.Max),
			s.Refused, s.Inexact, s.Partial, counts(s.Errors),
			cpuEach(s.CPU.Server, s.Requests), cores(s.CPU.Server, s.Seconds), cores(s.CPU.Client, s.Seconds))
		if c := s.Release; c != nil {
			releases.row(s.Callers, fmt.Sprintf("%.0f", c.PerSecond), ms(c.Latency.P50), ms(c.Latency.P95), ms(c.Latency.P99), ms(c.Latency.Max), counts(c.Errors))
		}
	}
	t.print()
	releases.printBelow()
	r.showCells(p)
}

// showCells shows each cell's share of the selections.
func (r *benchReport) showCells(p *page) {
	names := map[string]bool{}
	for _, s := range r.Steps {
		for c := range s.Cells {
			names[c] = true
		}
	}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	t := p.table(append([]string{"CALLERS"}, sorted...)...)
	for _, s := range r.Steps {
		row := []any{s.Callers}
		for _, n := range sorted {
			row = append(row, fmt.Sprintf("%.1f %%", 100*float64(s.Cells[n])/float64(max(s.Selections, 1))))
		}
		t.row(row...)
	}
	t.printBelow()
}

func ms(x float64) string { return fmt.Sprintf("%.1f", x) }

// cpuEach gives the processor time of a request, in milliseconds.
func cpuEach(cpu float64, requests int) string {
	if cpu < 0 || requests == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", 1e3*cpu/float64(requests))
}

// cores gives how many CPUs were busy.
func cores(cpu, seconds float64) string {
	if cpu < 0 || seconds <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", cpu/seconds)
}

func counts(m map[string]int) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(all, ", ")
}

func syncText(ms float64) string {
	if ms == 0 {
		return "- (disk not known)"
	}
	return fmt.Sprintf("%.2f ms (median)", ms)
}
