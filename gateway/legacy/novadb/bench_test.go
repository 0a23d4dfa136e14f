package novadb

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
)

// benchHosts is the number of hosts of legacytest.Fleet.
const benchHosts = 10_000

type benchWorld struct {
	*testing.B
	cell *legacytest.Database
	now  time.Time
	conf Config
}

func newBench(b *testing.B, k legacytest.Kind) *benchWorld {
	b.Helper()
	w := &benchWorld{B: b}
	var api *legacytest.Database
	w.cell, api, w.now = legacytest.Fleet(b, k.Shared(b), benchHosts)
	w.conf = Config{
		Cell: "cell1", Database: Database{URL: w.cell.URL}, API: Database{URL: api.URL},
		QueryTimeout: time.Minute, LoadTimeout: 10 * time.Minute,
	}
	return w
}

func (w *benchWorld) open(conf Config) *Reader {
	w.Helper()
	r, err := Open(w.Context(), conf)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = r.Close() })
	return r
}

// BenchmarkCell measures, on one cell: a load; a refresh with 100 changed rows, and one with none; and a load with one
// query a table. The last is what reading all rows for each request, Nova's way, costs here. The databases are in
// memory on the same machine. cpu-ms/op is the time of this process alone.
func BenchmarkCell(b *testing.B) {
	for _, k := range []legacytest.Kind{legacytest.MariaDB, legacytest.PostgreSQL} {
		b.Run(string(k), func(b *testing.B) {
			w := newBench(b, k)
			load := func(b *testing.B, r *Reader) *Snapshot {
				b.Helper()
				x, err := r.Load(b.Context())
				if err != nil || len(x.Hosts) != benchHosts {
					b.Fatalf("%v, %+v", err, x)
				}
				return x
			}
			b.Run("load", func(b *testing.B) {
				r := w.open(w.conf)
				b.ReportAllocs()
				defer cpu(b)()
				for b.Loop() {
					load(b, r)
				}
			})
			b.Run("all-rows-each-request", func(b *testing.B) {
				conf := w.conf
				conf.PageSize = conf.withDefaults().MaxRows
				r := w.open(conf)
				b.ReportAllocs()
				defer cpu(b)()
				for b.Loop() {
					load(b, r)
				}
			})
			for _, rows := range []int{0, 100} {
				b.Run(fmt.Sprintf("refresh-%d", rows), func(b *testing.B) {
					conf := w.conf
					conf.Overlap = time.Nanosecond
					r := w.open(conf)
					x := load(b, r)
					n := 0
					b.ReportAllocs()
					defer cpu(b)()
					for b.Loop() {
						b.StopTimer()
						n++
						change(b, w.cell, "UPDATE compute_nodes SET free_ram_mb = ?, updated_at = ? WHERE id >= 1000 AND id < ?", n, w.now.Add(time.Duration(n)*time.Second), 1000+rows)
						b.StartTimer()
						y, err := r.Refresh(b.Context(), x)
						if err != nil || y.Full || len(y.Hosts) != benchHosts {
							b.Fatalf("%v, %+v", err, y)
						}
						x = y
					}
				})
			}
		})
	}
}

// cpu reports the processor time from this call to that of the function that it returns.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Milliseconds())/float64(b.N), "cpu-ms/op") }
}
