package sqlshard

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellgate/internal/bench"
)

// report is the tables as markdown, with where they come from.
func (b *storeBench) report(t *testing.T, tables []*storeTable, took time.Duration) string {
	var w strings.Builder
	fmt.Fprintf(&w, "## Claims a second\n\nWritten by `make bench-store`.\n\n| | |\n|---|---|\n")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&w, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	commit := os.Getenv(benchCommitEnv)
	if commit == "" {
		commit = "not told"
	}
	line("commit", "%s", commit)
	line("machine", "%s, %d CPUs, %s/%s; callers, schedulers and server on it", cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	for _, kind := range []string{"PostgreSQL", "CockroachDB", "Pebble"} {
		if v := b.versions[kind]; v != "" {
			line(kind, "%s", v)
		}
	}
	if b.versions["CockroachDB"] == "" {
		line("CockroachDB", "NOT RUN: %s is not set", cockroachURL)
	}
	sync, err := bench.SyncMedian(t.TempDir(), 100)
	if err != nil {
		t.Error(err)
	}
	line("fsync", "on; 4 KiB and its fsync take %s (median)", sync.Round(10*time.Microsecond))
	yard, err := bench.MeasureYardstick(t.Context())
	if err != nil {
		t.Error(err)
	}
	line("yardstick", "%s", yard)
	line("load average", "%s before, %s after", b.load, loadAverage())
	line("a run", "%s, without registering hosts; a host takes %d claims (two VCPU, 4 GiB, 20 GB), and when all are full others come", took, benchFits)
	w.WriteString(`
A caller has one claim under way. *Schedulers* are replicas on one shard, each with its lane, its connections and its own
view: its own claims at once, the others' from the journal each 100 ms. *Modulo*: a scheduler picks from its part while that has
room; *rendezvous*: it picks from all, and the claim goes to the host's owner, as gateways do. *Spread* is the emptiest host
it knows; *pack among the first few* packs as gateways do, wider while claims are refused (ADR 12). A *refusal* is a host found full; a *conflict* is a transaction that ran again; each costs its caller another
attempt (*retries* is their sum). Times are a caller's, until its claim is durable somewhere. *Wrong* are claims refused
that would have fitted, providers beyond their capacity, claims lost or made twice. *CPU* is the processor time of a
claim, of callers and schedulers + the database's own, with what refusals take; it depends less on what else runs than the
claims a second do, which cannot be more than 2,000,000 µs on two processors allow.
`)
	for _, table := range tables {
		writeTable(&w, table)
	}
	return w.String()
}

func writeTable(w *strings.Builder, t *storeTable) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\n", t.title, t.text)
	attempts, bar := "", ""
	if t.attempts {
		attempts, bar = " more than 3 attempts |", "---:|"
	}
	fmt.Fprintf(w, "| | claims/s | refusals | conflicts | retries | claims a transaction | CPU, µs | p50 | p99 | wrong |%s\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|%s\n", attempts, bar)
	for _, row := range t.rows {
		r := row.result
		if r == nil {
			fmt.Fprintf(w, "| %s | not run | | | | | | | | |\n", row.name)
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.1f | %d + %d | %.1f ms | %.1f ms | %d |", row.name,
			thousands(r.perSecond()), thousands(r.refusals), thousands(r.conflicts), thousands(r.refusals+r.conflicts), r.batch,
			r.here.Microseconds(), r.server.Microseconds(), r.p50.Seconds()*1e3, r.p99.Seconds()*1e3, r.wrong+r.broken)
		if t.attempts {
			fmt.Fprintf(w, " %s |", thousands(r.beyondThree))
		}
		w.WriteByte('\n')
	}
}

// thousands is a whole number with commas.
func thousands(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// cpuTime is the processor time that this process has taken.
func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	return strings.Join(strings.Fields(string(b))[:1], " ")
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for l := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "a CPU that is not told"
}
