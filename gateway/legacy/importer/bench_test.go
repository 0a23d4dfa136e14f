package importer

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/celltest"
	"cellgate/shard/sqlshard"
)

// BenchmarkImport measures a cell of 10,000 hosts, whose shard is in memory or PostgreSQL, from
// Nova's rows to the cell's own table, by the importer's own pace:
//
//	first      all hosts are read, and imported
//	refresh-N  N of 10,000 rows were written since, and are read and imported
//
// 333 rows are written in two seconds if each nova-compute writes its row once a minute. cpu-ms is the CPU time of
// this process, which runs the cell's replica, too. writes, commits and bytes are the shard's, as PostgreSQL counts
// rows, transactions and WAL.
func BenchmarkImport(b *testing.B) {
	if os.Getenv("CELLGATE_BENCH_LEGACY") == "" {
		b.Skip("two databases of 10,000 hosts take minutes: make bench-legacy")
	}
	server := legacytest.PostgreSQL.Shared(b)
	cell, api, now := legacytest.Fleet(b, server, hosts)
	r, err := novadb.Open(b.Context(), novadb.Config{
		Cell: "cell1", Database: novadb.Database{URL: cell.URL}, API: novadb.Database{URL: api.URL},
		QueryTimeout: time.Minute, LoadTimeout: 10 * time.Minute, Overlap: time.Nanosecond, ServiceDownTime: 24 * time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	clock := now
	b.Run("memory", func(b *testing.B) {
		benchImport(b, r, cell, &clock, celltest.Start(b, "cell1", legacytest.FleetCell), nil)
	})
	b.Run("PostgreSQL", func(b *testing.B) {
		own := legacytest.NewCell(b, server) // Nova's tables in it stay empty
		store, err := sqlshard.Open(b.Context(), sqlshard.Options{Cell: "cell1", CellUUID: legacytest.FleetCell, URL: own.URL, Migrate: true, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		benchImport(b, r, cell, &clock, celltest.On(b, store, "cell1", legacytest.FleetCell), own)
	})
}

const hosts = 10_000

// benchImport imports into a cell. clock is the time of the last write to Nova's rows. own is the database of the
// cell's shard; nil for a shard in memory.
func benchImport(b *testing.B, r *novadb.Reader, nova *legacytest.Database, clock *time.Time, c celltest.Cell, own *legacytest.Database) {
	to := c.Scheduler
	m, err := New(Config{Cell: "cell1", FullEvery: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	step := func(b *testing.B, x *novadb.Snapshot) (taken int) {
		b.Helper()
		for {
			r, err := m.Step(context.Background(), x, to)
			if err != nil || r.Refused > 0 {
				b.Fatal(err, r)
			}
			if taken += r.Taken; r.Waiting == 0 {
				return taken
			}
		}
	}
	var x *novadb.Snapshot
	var read, imported time.Duration
	b.Run("first", func(b *testing.B) { // the testing package runs this twice, but only the first import is measured
		if x == nil {
			cost := shardCost(b, own)
			began := time.Now()
			x = loaded(b, r)
			read = time.Since(began)
			step(b, x)
			imported = time.Since(began) - read
			cost()
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(read.Milliseconds()), "read-ms")
		b.ReportMetric(float64(imported.Milliseconds()), "import-ms")
	})
	if now := time.Now().UTC().Truncate(time.Second); now.After(*clock) {
		*clock = now
	}
	for _, rows := range []int{0, 100, 333, hosts} {
		b.Run(fmt.Sprintf("refresh-%d", rows), func(b *testing.B) {
			defer shardCost(b, own)()
			for b.Loop() {
				b.StopTimer()
				*clock = clock.Add(time.Second)
				if _, err := nova.DB.ExecContext(b.Context(), "UPDATE compute_nodes SET free_ram_mb = $1, updated_at = $2 WHERE id >= 1000 - $3::int8 / 100 * 9 AND id < 1000 - $3::int8 / 100 * 9 + $3::int8",
					16384+clock.Unix()%16384, *clock, rows); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				var err error
				if x, err = r.Refresh(b.Context(), x); err != nil {
					b.Fatal(err)
				}
				if taken := step(b, x); taken != rows {
					b.Fatalf("%d hosts were taken of %d whose rows were written", taken, rows)
				}
			}
		})
	}
}

func loaded(b *testing.B, r *novadb.Reader) *novadb.Snapshot {
	b.Helper()
	x, err := r.Load(b.Context())
	if err != nil || len(x.Hosts) != hosts {
		b.Fatal(err, x)
	}
	return x
}

// shardCost reports the CPU time of this process and the writes of the database, from this call to that of the function
// that it returns. PostgreSQL's statistics may miss the last second.
func shardCost(b *testing.B, db *legacytest.Database) func() {
	read := func() (cpu time.Duration, rows, commits, bytes int64) {
		var u syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		if err == nil && db != nil {
			err = db.DB.QueryRowContext(b.Context(), "SELECT tup_inserted + tup_updated + tup_deleted, xact_commit, pg_current_wal_lsn() - '0/0' FROM pg_stat_database WHERE datname = current_database()").Scan(&rows, &commits, &bytes)
		}
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), rows, commits, bytes
	}
	cpu, rows, commits, bytes := read()
	return func() {
		b.StopTimer()
		c, r, x, n := read()
		of := float64(b.N)
		b.ReportMetric(float64((c-cpu).Microseconds())/1000/of, "cpu-ms/op")
		if db == nil {
			return
		}
		b.ReportMetric(float64(r-rows)/of, "rows/op")
		b.ReportMetric(float64(x-commits)/of, "commits/op")
		b.ReportMetric(float64(n-bytes)/1024/of, "WAL-KiB/op")
	}
}
