package cell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/cell/replica"
	"cellgate/internal/bench"
	"cellgate/internal/pgtest"
	"cellgate/schedule"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// selectTable names the file to which TestSelectTable writes what it prints. If it is unset, the
// test is skipped.
const selectTable = "CELLGATE_SELECT_TABLE"

// TestSelectTable measures, in one run, how long it takes to find and rank the hosts for one
// request, by the source of the candidates. It follows Jay Pipes' table (DB or Python, by number of
// compute nodes). One shard on PostgreSQL grows, and nine of ten hosts are full.
func TestSelectTable(t *testing.T) {
	path := os.Getenv(selectTable)
	if path == "" {
		t.Skip(selectTable + " is not set: make bench-select measures")
	}
	url := pgtest.Start(t).NewDatabase(t)
	store := openPostgres(t, url)
	lane, err := store.OpenLane(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	}()
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("not known")
	}
	both := io.MultiWriter(os.Stdout, out)
	say := func(format string, args ...any) {
		if _, err := fmt.Fprintf(both, format, args...); err != nil {
			t.Fatal(err)
		}
	}
	yard, err := bench.MeasureYardstick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say("Load of the machine at the start: %s; %s\n\n", strings.TrimSpace(string(load)), yard)
	say("| hosts | found | host table | SQL filter | SQL filter, rows ranked | 1,000 of them | all rows read, ranked | all rows : SQL filter, ranked |\n")
	say("|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	m := &selecting{t: t, store: store}
	had := 0
	for _, hosts := range selectSizes(t) {
		fillSelect(t, lane, had, hosts)
		had = hosts
		analyze(t, url)
		table, all := m.loaded()
		query := selectQuery()
		times := m.measure([]func() int{
			func() int { return m.rank(table, query) },
			func() int { return len(m.filter(shard.HostQuery{}).UUIDs) },
			func() int { return m.rank(m.found(shard.HostQuery{Rows: true}), query) },
			func() int {
				return m.rank(m.found(shard.HostQuery{Rows: true, Limit: 1000, From: shardtest.HostID(hosts / 2)}), query)
			},
			func() int { table, _ := m.loaded(); return m.rank(table, query) },
		})
		if all != hosts {
			t.Fatalf("loaded %d of %d hosts", all, hosts)
		}
		say("| %d | %d | %s | %s | %s | %s | %s | %.1f |\n", hosts, m.rank(table, query),
			millis(times[0]), millis(times[1]), millis(times[2]), millis(times[3]), millis(times[4]), float64(times[4])/float64(times[2]))
	}
}

// selectSizes returns the numbers of hosts, up to CELLGATE_SELECT_HOSTS.
func selectSizes(t *testing.T) []int {
	sizes := []int{100, 200, 400, 800, 10_000, 100_000}
	if text := os.Getenv("CELLGATE_SELECT_HOSTS"); text != "" {
		most, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		sizes = slices.DeleteFunc(sizes, func(n int) bool { return n > most })
	}
	return sizes
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms >= 100 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.3g ms", ms)
}

// fillSelect adds hosts, each with a claim.
func fillSelect(t *testing.T, lane shard.Lane, from, to int) {
	const batch = 250
	for ; from < to; from += batch {
		var ops []shard.Op
		for n := from; n < min(from+batch, to); n++ {
			p := shardtest.NewHost(n, 64)
			p.Host.Providers[0].Traits = append(p.Host.Providers[0].Traits, "COMPUTE_NODE")
			p.Host.Providers[0].Inventories = []shard.Inventory{
				{ResourceClass: "VCPU", Total: 64, MinUnit: 1, MaxUnit: 64, StepSize: 1, AllocationRatio: 4},
				{ResourceClass: "MEMORY_MB", Total: 262144, Reserved: 4096, MinUnit: 1, MaxUnit: 262144, StepSize: 1, AllocationRatio: 1},
				{ResourceClass: "DISK_GB", Total: 2000, MinUnit: 1, MaxUnit: 2000, StepSize: 1, AllocationRatio: 1},
			}
			zone := fmt.Sprintf("az%d", n%2)
			p.Host.Aggregates = []shard.Aggregate{{UUID: shardtest.GroupID(n % 2), Name: zone, Metadata: map[string]string{"availability_zone": zone}}}
			c := shardtest.NewClaim(n, n, 4)
			c.TTL = time.Hour
			c.Allocations = append(c.Allocations,
				shard.Used{ProviderUUID: shardtest.HostID(n), ResourceClass: "DISK_GB", Amount: 40},
				shard.Used{ProviderUUID: shardtest.HostID(n), ResourceClass: "MEMORY_MB", Amount: 257_000})
			if n%10 == 0 {
				c.Allocations[2].Amount = 8192 + int64(n%1000)
			}
			ops = append(ops, shard.Op{PutHost: p}, shard.Op{Claim: c})
		}
		applied, err := lane.Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range applied.Outcomes {
			if o.Refusal != nil {
				t.Fatal(o.Refusal)
			}
		}
	}
}

func selectQuery() *schedule.Query {
	return &schedule.Query{
		Request: &schedule.Request{
			Resources: []schedule.Amount{{Class: "VCPU", N: 4}, {Class: "MEMORY_MB", N: 8192}, {Class: "DISK_GB", N: 40}},
			Required:  []string{"HW_CPU_X86_AVX2"}, AvailabilityZone: "az0",
		},
		Rules: &schedule.Rules{DefaultAvailabilityZone: "nova"}, Seed: 42, Limit: 10,
	}
}

// selecting is the state of one measurement.
type selecting struct {
	t     *testing.T
	store shard.Store
}

// measure runs the functions alternately for a few seconds, and returns the median of each.
func (m *selecting) measure(each []func() int) []time.Duration {
	const least, most, enough = 3, 200, 10 * time.Second
	took := make([][]time.Duration, len(each))
	for begin := time.Now(); len(took[0]) < least || len(took[0]) < most && time.Since(begin) < enough; {
		for i, do := range each {
			began := time.Now()
			if do() == 0 {
				m.t.Fatalf("the %d. way found no host", i+1)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	out := make([]time.Duration, len(each))
	for i := range took {
		slices.Sort(took[i])
		out[i] = took[i][len(took[i])/2]
	}
	return out
}

// rank answers the query from a table, and returns how many hosts passed.
func (m *selecting) rank(table *schedule.Table, q *schedule.Query) int {
	p, err := table.Propose(q)
	if err != nil {
		m.t.Fatal(err)
	}
	return p.Passed
}

// filter asks the database for the request of selectQuery. rest sets the other fields of the query.
func (m *selecting) filter(rest shard.HostQuery) shard.HostMatches {
	q := selectQuery()
	asked := replica.HostQueryOf(q.Request, q.Rules)
	asked.Limit, asked.From, asked.Rows = rest.Limit, rest.From, rest.Rows
	found, err := m.store.(shard.HostFinder).FindHosts(m.t.Context(), asked)
	if err != nil {
		m.t.Fatal(err)
	}
	return found
}

// found is a table of the hosts that the database finds.
func (m *selecting) found(rest shard.HostQuery) *schedule.Table {
	return replica.TableOf(cellUUID, m.filter(rest).Rows, time.Now)
}

// loaded returns a table of all hosts, newly read, and their number.
func (m *selecting) loaded() (*schedule.Table, int) {
	var all []shard.Change
	if _, err := m.store.Load(m.t.Context(), func(c shard.Change) error { all = append(all, c); return nil }); err != nil {
		m.t.Fatal(err)
	}
	table := replica.TableOf(cellUUID, all, time.Now)
	return table, table.Len()
}

// analyze refreshes the database's statistics, as autovacuum would after a while.
func analyze(t *testing.T, url string) {
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), "VACUUM ANALYZE")
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}
