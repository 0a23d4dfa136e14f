package cell

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/cell/proposals"
	"cellgate/internal/fault"
	"cellgate/internal/pgtest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// coldTable names the file to which TestColdTable writes what it prints. If it is unset, the test
// is skipped.
const coldTable = "CELLGATE_COLD_TABLE"

// TestColdTable measures, in one run, the time from the start of a replica to its first answer:
// from what its shard finds, and from its table. It uses the shards and the request of
// TestSelectTable, and opens the store beforehand.
func TestColdTable(t *testing.T) {
	path := os.Getenv(coldTable)
	if path == "" {
		t.Skip(coldTable + " is not set: make bench-cold measures")
	}
	url := pgtest.Start(t).NewDatabase(t)
	lane, err := openPostgres(t, url).OpenLane(t.Context(), "filler")
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
	both := io.MultiWriter(os.Stdout, out)
	say := func(format string, args ...any) {
		if _, err := fmt.Fprintf(both, format, args...); err != nil {
			t.Fatal(err)
		}
	}
	say("Load of the machine at the start: %s\n\n", loadOfTheMachine())
	say("| hosts | found | first answer, cold | first answer with the table | with the table : cold | a cold answer | one from the table | cold answers meanwhile |\n")
	say("|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	had := 0
	for _, hosts := range selectSizes(t) {
		if hosts < 800 {
			continue
		}
		fillSelect(t, lane, had, hosts)
		had = hosts
		analyze(t, url)
		var runs []coldRun
		for range max(1, 3*min(10_000/hosts, 1)) {
			runs = append(runs, measureCold(t, url))
		}
		slices.SortFunc(runs, func(a, b coldRun) int { return int(a.cold - b.cold) })
		r := runs[len(runs)/2]
		found := fmt.Sprint(r.found)
		if r.cut {
			found += " (cut)"
		}
		if r.answers == 0 {
			say("| %d | | none: %d searches took too long | %s | | | %s | 0 |\n", hosts, r.refused, millis(r.warm), millis(r.table))
			continue
		}
		say("| %d | %s | %s | %s | %.1f | %s | %s | %d |\n", hosts, found, millis(r.cold), millis(r.warm), float64(r.warm)/float64(r.cold),
			millis(r.each), millis(r.table), r.answers)
	}
}

// coldRun is one start of a replica.
type coldRun struct {
	cold, warm time.Duration
	// each is the median of the cold answers, table that of as many from the table.
	each, table time.Duration
	found       int32
	cut         bool
	answers     int
	// refused counts the queries whose search did not end in time.
	refused int
}

func measureCold(t *testing.T, url string) (run coldRun) {
	store := openPostgres(t, url)
	began := time.Now()
	r := launch(t, store, named("r1"))
	defer r.stop()
	q := &cellv1.Query{Limit: 10, Placement: serialized(&cellv1.Placement{
		Resources:        []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 4}, {ResourceClass: "MEMORY_MB", Amount: 8192}, {ResourceClass: "DISK_GB", Amount: 40}},
		RequiredTraits:   []string{"HW_CPU_X86_AVX2"},
		AvailabilityZone: "az0", Rules: &cellv1.Rules{DefaultAvailabilityZone: "nova"},
	})}
	var each, table []time.Duration
	for len(table) < 20 {
		q.Seed++
		asked := time.Now()
		resp, err := r.cells.ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{q}})
		if err != nil {
			if fault.KindOf(err) == fault.CellUnavailable {
				<-time.After(time.Millisecond)
				continue
			}
			t.Fatal(err)
		}
		p := resp.GetProposals()[0]
		switch cold := strings.Contains(p.GetTableVersion(), proposals.OfParts); {
		case p.GetFailure().GetReason() == string(fault.CellUnavailable):
			run.refused++
			t.Logf("a cold query: %v", p.GetFailure())
		case p.GetFailure() != nil:
			t.Fatalf("a query: %v", p.GetFailure())
		case cold:
			if len(each) == 0 {
				run.cold, run.found, run.cut = time.Since(began), p.GetPassed(), p.GetTruncated()
			}
			each = append(each, time.Since(asked))
		default:
			if len(table) == 0 {
				run.warm = time.Since(began)
			}
			table = append(table, time.Since(asked))
		}
	}
	if run.answers = len(each); run.answers+run.refused == 0 {
		t.Error("nothing was asked before the table was loaded")
	}
	slices.Sort(table)
	run.table = table[len(table)/2]
	if run.answers > 0 {
		slices.Sort(each)
		run.each = each[len(each)/2]
	}
	return run
}

func loadOfTheMachine() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	return strings.TrimSpace(string(load))
}
