package sqlshard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellgate/internal/pgtest"
	"cellgate/internal/testlong"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
	"cellgate/shard/shardtest"
)

// The benchmark of claims, one factor at a time (make bench-store).
//
// CELLGATE_BENCH_STORE is how long a run takes; without it, each kind of run is tried
// for a moment, which keeps the benchmark working. CELLGATE_BENCH_STORE_OUT is the
// file that takes the tables, CELLGATE_BENCH_STORE_ONLY a text that the names of the
// runs to do contain, CELLGATE_BENCH_COMMIT what is measured, in words.
const (
	benchTimeEnv   = "CELLGATE_BENCH_STORE"
	benchOutEnv    = "CELLGATE_BENCH_STORE_OUT"
	benchOnlyEnv   = "CELLGATE_BENCH_STORE_ONLY"
	benchCommitEnv = "CELLGATE_BENCH_COMMIT"
)

// The strategies: how claims come to be.
const (
	// byClaims is the product's: what a scheduler is asked while a transaction is
	// under way goes as the next one, which locks and decides.
	byClaims = "claims"
	// byClaim is the same with one claim a transaction.
	byClaim = "claims, one a transaction"
	// bySwap reads without locks and swaps the host's generation (Jay Pipes, 2016).
	bySwap = "generation CAS, one a transaction"
	// bySwaps is that with batches.
	bySwaps = "generation CAS, batches"
	// byHost is Nova of 2016: schedulers pick, and the compute host claims.
	byHost = "compute hosts claim"
)

const (
	packFirst = "pack-first"
	// packAmong is pack-first as gateways do it: among the first few hosts while claims
	// are refused (ADR 12).
	packAmong = "pack among the first few"
	spread    = "spread"
	random    = "random"

	unshared   = "none"
	modulo     = "modulo"
	rendezvous = "rendezvous"
)

// storeSetting is what a run is with.
type storeSetting struct {
	store                      string
	callers, hosts, schedulers int
	pick, partition, strategy  string
	// full is how many of the hosts have no room from the beginning.
	full int
}

// around is the setting that the factors are varied around.
func around(store string) storeSetting {
	return storeSetting{
		store: store, callers: 64, hosts: 800, schedulers: 8,
		pick: packFirst, partition: unshared, strategy: byClaims,
	}
}

func (s storeSetting) with(change func(*storeSetting)) storeSetting {
	change(&s)
	return s
}

func (s storeSetting) String() string {
	full := ""
	if s.full > 0 {
		full = fmt.Sprintf(" (%d full)", s.full)
	}
	return fmt.Sprintf("%s, %d callers, %d hosts%s, %s, %d schedulers, partition %s, %s",
		s.store, s.callers, s.hosts, full, s.pick, s.schedulers, s.partition, s.strategy)
}

// storeTable is one table of the report.
type storeTable struct {
	title, text string
	rows        []storeRow
	// attempts adds the column of requests that Nova would have given up.
	attempts bool
}

type storeRow struct {
	name    string
	setting storeSetting
	result  *storeResult
}

func (t *storeTable) add(name string, s storeSetting) {
	t.rows = append(t.rows, storeRow{name: name, setting: s})
}

// factors is the table of a store, one factor at a time.
func factors(store string, hosts []int, more func(t *storeTable, base storeSetting)) *storeTable {
	base := around(store)
	t := &storeTable{
		title: "Claims on " + store + ", one factor at a time",
		text:  fmt.Sprintf("Around %d callers, %d hosts, %s, %d schedulers, partition none.", base.callers, base.hosts, base.pick, base.schedulers),
	}
	t.add("(as said)", base)
	t.add("1 caller", base.with(func(s *storeSetting) { s.callers = 1 }))
	t.add("1 caller, 1 scheduler", base.with(func(s *storeSetting) { s.callers, s.schedulers = 1, 1 }))
	t.add("8 callers", base.with(func(s *storeSetting) { s.callers = 8 }))
	for _, n := range hosts {
		t.add(fmt.Sprintf("%d hosts", n), base.with(func(s *storeSetting) { s.hosts = n }))
	}
	for _, p := range []string{packAmong, spread, random} {
		t.add(p, base.with(func(s *storeSetting) { s.pick = p }))
	}
	t.add("1 scheduler", base.with(func(s *storeSetting) { s.schedulers = 1 }))
	t.add("1 scheduler, spread", base.with(func(s *storeSetting) { s.schedulers, s.pick = 1, spread }))
	for _, p := range []string{modulo, rendezvous} {
		t.add("partition "+p, base.with(func(s *storeSetting) { s.partition = p }))
	}
	t.add("rendezvous, "+packAmong, base.with(func(s *storeSetting) { s.partition, s.pick = rendezvous, packAmong }))
	t.add("2 schedulers, rendezvous, spread", base.with(func(s *storeSetting) { s.schedulers, s.partition, s.pick = 2, rendezvous, spread }))
	if more != nil {
		more(t, base)
	}
	return t
}

// strategies adds the other ways to claim.
func strategies(t *storeTable, base storeSetting) {
	for _, how := range []string{byClaim, bySwap, bySwaps} {
		t.add(how, base.with(func(s *storeSetting) { s.strategy = how }))
	}
}

// storeTables lists the runs: at most mostRuns.
func storeTables(cockroach bool) []*storeTable {
	const pg, pebble, crdb = "PostgreSQL", "Pebble", "CockroachDB"
	hosts, nodes := []int{100, 200, 400, 10000}, []int{100, 200, 400, 800}
	tables := []*storeTable{factors(pg, hosts, strategies)}
	if cockroach {
		nodes = []int{100, 800}
		tables = append(tables, factors(pebble, []int{10000}, nil), factors(crdb, nil, nil))
	} else {
		tables = append(tables, factors(pebble, hosts, nil))
	}
	seed := &storeTable{
		title: "The seed's tables",
		text: "Eight schedulers that each have one claim under way, packing first, on PostgreSQL. Jay Pipes (2016), compare and swap of\n" +
			"the generation on 100, 200, 400 and 800 nodes, on MySQL and a machine that are not told: 54.1, 68.9, 51.3 and 34.3 claims a\n" +
			"second without partitions, 97.1, 124.5, 115.1 and 89.4 with modulo.",
	}
	for _, p := range []string{unshared, modulo} {
		for _, how := range []string{byClaims, bySwap} {
			for _, n := range nodes {
				seed.add(fmt.Sprintf("partition %s, %s, %d nodes", p, how, n), around(pg).with(func(s *storeSetting) {
					s.callers, s.hosts, s.partition, s.strategy = 8, n, p, how
				}))
			}
		}
	}
	full := &storeTable{title: "900 of 1,000 hosts full", text: "Around the same setting; the schedulers know which are full."}
	for _, s := range []storeSetting{around(pg), around(pg).with(func(s *storeSetting) { s.strategy = bySwap }), around(pebble)} {
		full.add(s.store+", "+s.strategy, s.with(func(s *storeSetting) { s.hosts, s.full = 1000, 900 }))
	}
	computes := &storeTable{
		title: "Claims made by the compute hosts instead",
		text: "The emulation that the seed announces: schedulers pick from what the shard told them, up to 100 ms ago, and claim nothing;\n" +
			"the host, one claim at a time, checks and writes it. Refused, a request goes elsewhere; Nova gives it up after three\n" +
			"attempts (here it goes on, and is counted). No delay of messages is added.",
		attempts: true,
	}
	for _, p := range []string{packFirst, spread, random} {
		for _, how := range []string{byHost, byClaims} {
			if p != packFirst && how == byClaims {
				continue // in the first table
			}
			computes.add(p+", "+how, around(pg).with(func(s *storeSetting) { s.pick, s.strategy = p, how }))
		}
	}
	return append(tables, seed, full, computes)
}

// mostRuns of 5 s each are five and a half minutes.
const mostRuns = 64

func TestTheStoreBenchmarkHasAnEnd(t *testing.T) {
	for _, cockroach := range []bool{false, true} {
		runs := 0
		for _, table := range storeTables(cockroach) {
			runs += len(table.rows)
		}
		if runs > mostRuns {
			t.Errorf("with CockroachDB %t: %d runs, at most %d", cockroach, runs, mostRuns)
		}
	}
}

func TestI1_StoreBenchmark(t *testing.T) {
	took, long := 0*time.Second, os.Getenv(benchTimeEnv)
	tables := storeTables(os.Getenv(cockroachURL) != "")
	var err error
	switch {
	case long == "":
		testlong.Only(t, "the same calls in TestConformance")
		took = 40 * time.Millisecond
		tables = triedTables()
	default:
		if took, err = time.ParseDuration(long); err != nil {
			t.Fatalf("%s: %v", benchTimeEnv, err)
		}
	}
	b := &storeBench{long: long != ""}
	b.start(t)
	total := 0
	for _, table := range tables {
		total += len(table.rows)
	}
	n := 0
	began := time.Now()
	for _, table := range tables {
		for i := range table.rows {
			row := &table.rows[i]
			n++
			if !strings.Contains(row.setting.String(), os.Getenv(benchOnlyEnv)) {
				continue
			}
			t.Run(row.setting.String(), func(t *testing.T) {
				row.result = b.run(t, row.setting, took)
			})
			if row.result != nil && b.long {
				fmt.Fprintf(os.Stderr, "%3d/%d %5s  %s: %s\n", n, total, time.Since(began).Round(time.Second), row.setting, row.result)
			}
		}
	}
	if !b.long {
		return
	}
	report := b.report(t, tables, took)
	fmt.Println(report)
	if path := os.Getenv(benchOutEnv); path != "" {
		if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// triedTables has each kind of run once, on few hosts.
func triedTables() []*storeTable {
	t := &storeTable{}
	small := around("PostgreSQL").with(func(s *storeSetting) { s.callers, s.hosts = 16, 3 })
	for _, how := range []string{byClaims, byClaim, bySwap, bySwaps, byHost} {
		t.add(how, small.with(func(s *storeSetting) { s.strategy = how }))
	}
	for _, p := range []string{packAmong, spread, random} {
		t.add(p, small.with(func(s *storeSetting) { s.pick, s.store = p, "Pebble" }))
	}
	for _, p := range []string{modulo, rendezvous} {
		t.add(p, small.with(func(s *storeSetting) { s.partition, s.full = p, 1 }))
	}
	return []*storeTable{t}
}

// storeBench has the servers of the runs.
type storeBench struct {
	long   bool
	server *pgtest.Server
	// template is a database with the tables.
	template string
	versions map[string]string
	load     string
}

func (b *storeBench) start(t *testing.T) {
	b.versions, b.load = map[string]string{}, loadAverage()
	if !b.long {
		b.server = pgtest.Start(t)
		return
	}
	b.server = pgtest.New(t, pgtest.Options{Durable: true})
	b.template = "bench_template"
	b.server.Exec(t, "CREATE DATABASE "+b.template)
	if _, err := Migrate(t.Context(), benchOptions(b.server.URL(b.template))); err != nil {
		t.Fatal(err)
	}
}

func benchOptions(url string) Options {
	return Options{Cell: "bench", URL: url, Migrate: true}
}

// stores opens the shard of a run for each of n replicas. Pebble's directory has one
// process, and its replicas the same store.
func (b *storeBench) stores(t *testing.T, kind string, n int) []shard.Store {
	if kind == "Pebble" {
		s, err := pebbleshard.Open(filepath.Join(t.TempDir(), "shard"), pebbleshard.Options{Cell: "bench"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		b.versions[kind] = "v2, its WAL synced before an answer"
		list := make([]shard.Store, n)
		for i := range list {
			list[i] = s
		}
		return list
	}
	url := ""
	opts := benchOptions(url)
	switch {
	case kind == "CockroachDB":
		opts = testOptions(cockroachDatabase(t, os.Getenv(cockroachURL)))
	case b.long:
		opts.URL = b.server.Clone(t, b.template)
	default:
		opts = testOptions(newDatabase(t))
	}
	list := make([]shard.Store, n)
	for i := range list {
		opts.MaxConns = 4
		s, err := Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		b.versions[kind] = s.Server()
		list[i] = s
	}
	return list
}

func closeStore(t *testing.T, s shard.Store) {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// run does one run, and looks at what it left.
func (b *storeBench) run(t *testing.T, s storeSetting, took time.Duration) *storeResult {
	ctx, cancel := context.WithTimeout(t.Context(), took+2*time.Minute)
	defer cancel()
	stores := b.stores(t, s.store, s.schedulers)
	run := newStoreRun(ctx, t, s, stores)
	run.cpu = func() (here, server time.Duration) {
		if s.store == "PostgreSQL" {
			server = b.server.CPU(t)
		}
		return cpuTime(t), server
	}
	run.measure(ctx, t, took)
	res := run.result()
	rows, _, err := shardtest.LoadRows(ctx, stores[0])
	if err != nil {
		t.Fatal(err)
	}
	if live := res.claims + run.filled; len(rows.Claims) != live {
		t.Errorf("%d claims were made, and %d are there", live, len(rows.Claims))
	}
	for _, w := range append(rows.Check(), rows.Overfull()...) {
		res.broken++
		t.Error(w)
	}
	if res.wrong > 0 {
		t.Errorf("%d hosts refused claims that would have fitted", res.wrong)
	}
	if t.Failed() {
		res.broken++
	}
	return res
}
