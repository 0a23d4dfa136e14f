package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
	"cellgate/internal/storebench"
)

// benchStore returns the output of bench store.
func benchStore(t *testing.T, args ...string) (report storeReport, stderr string) {
	t.Helper()
	out, stderr, status := typed(t.Context(), "", append([]string{"bench", "store", "-o", "json", "--callers", "8", "--hosts", "3", "--order", "pack-first"}, args...)...)
	if status != exitDone {
		t.Fatalf("status %d\n%s%s", status, out, stderr)
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return report, stderr
}

// With one factor at a time, five of the twelve combinations of three lists run.
func TestI1_BenchStore_OnPebble_MeasuresWhatIsListed(t *testing.T) {
	dir := t.TempDir()
	r, stderr := benchStore(t, "--data", dir, "--schedulers", "2,1", "--partition", "none,modulo,rendezvous", "--claims", "locks,computes", "--one-factor", "--duration", "5ms")
	if len(r.Runs) != 5 || r.SyncMS <= 0 || r.Yardstick.Loopback <= 0 || r.Store != "Pebble" || !strings.Contains(stderr, "5 runs, 5ms each: about 25ms") {
		t.Fatalf("measured %+v\n%s", r, stderr)
	}
	for _, run := range r.Runs {
		if run.Claims == 0 || run.Wrong != 0 || run.CPU <= 0 {
			t.Errorf("measured %+v", run)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestBenchStore_Table_NamesWhatDiffers(t *testing.T) {
	b := storeBench{callers: []int{64}, schedulers: []int{1, 8}, hosts: []int{1000}, full: 900, order: []string{"spread"}, partition: []string{"none", "rendezvous"}, claims: []string{"locks", "swap-single"}}
	table := func() string {
		report := &storeReport{Store: "Pebble"}
		for _, s := range b.settings() {
			report.Runs = append(report.Runs, &storebench.Result{Setting: s, PerSecond: 12345, Refusals: 123456, Conflicts: 12345, PerTransaction: 48.5, CPU: 1234, P50: 123.4, P99: 1234.5})
		}
		var p page
		b.show(&p, report)
		for line := range strings.Lines(p.String()) {
			if n := len([]rune(line)) - 1; n > pageWidth && !strings.HasPrefix(line, "yardstick") {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		return p.String()
	}
	all := table()
	b.single = true
	single := table()
	for want, in := range map[string]string{
		"Pebble: 64 callers, 1000 hosts, spread (900 full); 0s a run":                         all,
		"\n1 scheduler, no partition, ":                                                       all,
		"\n8 schedulers, rendezvous, ":                                                        all,
		"Pebble: 64 callers, 1 scheduler, 1000 hosts, spread, no partition, locks (900 full)": single,
		"\n(as above) ": single, "\nswap-single ": single, "\nrendezvous ": single, "\n8 schedulers ": single,
	} {
		if !strings.Contains(in, want) {
			t.Errorf("there is no %q in\n%s", want, in)
		}
	}
}

// TestI1_BenchStore_OnPostgreSQL_LeavesNoDatabase runs the ways to claim that Pebble does not have.
// One run is interrupted. No database is left.
func TestI1_BenchStore_OnPostgreSQL_LeavesNoDatabase(t *testing.T) {
	srv := pgtest.Start(t)
	args := []string{"--store", srv.URL(""), "--schedulers", "2", "--claims", "swap-single,swap,locks", "--duration", "20ms"}
	r, _ := benchStore(t, args...)
	if len(r.Runs) != 3 || !strings.HasPrefix(r.Store, "PostgreSQL ") {
		t.Fatalf("measured %+v", r)
	}
	for i, run := range r.Runs {
		if run.Claims == 0 || run.Wrong != 0 || i == 0 && run.PerTransaction > 1 {
			t.Errorf("measured %+v", run)
		}
	}
	p := launch(t, true, append([]string{"bench", "store", "--hosts", "3"}, args...)...)
	p.await("run 2 of 12: ")
	p.cancel()
	p.await("interrupted in run")
	p.ended()
	c, err := pgx.Connect(t.Context(), srv.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var left int
	err = c.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'cellgate_bench%'").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d databases are left, %v", left, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBenchStore_WhatCannotBe_NamesTheFlag(t *testing.T) {
	for args, want := range map[string]string{
		"--claims swap": "--claims: swap and swap-single are for PostgreSQL; name a server with --store",
		"--store cockroach://root@h --claims locks,swap --insecure": "--claims: swap and swap-single are for PostgreSQL, and --store says CockroachDB",
		"--claims computes --partition rendezvous":                  "--partition: rendezvous says which scheduler claims",
		"--order pack-fist":                   `--order: "pack-fist" is none of pack-first, pack-among, spread, random; did you mean "pack-first"?`,
		"--partition half":                    `--partition: "half" is none of`,
		"--claims fast":                       `--claims: "fast" is none of`,
		"--callers 0":                         "--callers: name numbers above 0",
		"--schedulers 1,-1":                   "--schedulers: name numbers above 0",
		"--hosts 5,3 --full 3":                "--full: is 3, must be 0 or more and below --hosts",
		"--duration 0s":                       "--duration must be above 0",
		"--store mysql://h/":                  "--store: must begin with postgres://",
		"--store postgres://u@127.0.0.1/mine": "--store: leave out database mine",
		"--store postgres://u:p@127.0.0.1/":   "--store-password-file",
		"--addr 127.0.0.1:9090":               "unknown flag: --addr",
	} {
		_, stderr, status := typed(t.Context(), "", append([]string{"bench", "store"}, strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("bench store %s: status %d, stderr %q, want %q", args, status, stderr, want)
		}
	}
}

// TestBenchStore_Measured is `make bench-store`. CELLGATE_BENCH_STORE is the duration of a run.
func TestBenchStore_Measured(t *testing.T) {
	took := os.Getenv("CELLGATE_BENCH_STORE")
	if took == "" {
		t.Skip("a measurement: make bench-store")
	}
	postgres := "--store " + pgtest.New(t, pgtest.Options{Durable: true}).URL("") + " "
	alone := "--callers 1 --schedulers 1 --order pack-first"
	factors, orders := "--one-factor --callers 64,1,8 --schedulers 8,1 --hosts 800,100,200,400,10000 --partition none,modulo,rendezvous --claims locks", "--schedulers 1,2,8 --order pack-among,spread --partition none,rendezvous"
	for _, line := range []string{
		postgres + factors + ",locks-single,swap-single,swap,computes", postgres + orders, postgres + alone, factors, orders, alone,
		postgres + "--callers 8 --schedulers 8 --hosts 100,200,400,800 --order pack-first --partition none,modulo --claims locks,swap-single",
		postgres + "--schedulers 8 --hosts 1000 --full 900 --order pack-first --claims locks,swap-single",
	} {
		args := slices.Concat([]string{"bench", "store", "--data", t.TempDir(), "--duration", took}, strings.Fields(line))
		if status := run(t.Context(), args, terminal{in: strings.NewReader(""), out: os.Stdout, err: os.Stderr}); status != exitDone {
			t.Errorf("%s: status %d", line, status)
		}
	}
}
