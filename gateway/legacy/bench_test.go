package legacy

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
)

// A cell of 10,000 hosts, each with the texts of a real one: NUMA cells, PCI pools,
// stats of twenty projects.
const benchHosts = 10_000

type benchWorld struct {
	*testing.B
	cell *legacytest.Database
	now  time.Time
	conf Config
}

func newBench(b *testing.B, k legacytest.Kind) *benchWorld {
	b.Helper()
	s := k.Shared(b)
	w := &benchWorld{B: b, cell: legacytest.NewCell(b, s)}
	api := legacytest.NewAPI(b, s)
	w.now = w.cell.Now(b).Truncate(time.Second)
	w.cell.Sample(b)
	api.Insert(b, "cell_mappings", legacytest.Row{"id": 1, "uuid": cellUUID, "name": "cell1"})
	// The sample's second row, so many times.
	change(b, w.cell, "DELETE FROM services")
	change(b, w.cell, "DELETE FROM compute_nodes WHERE id <> 2")
	columns := `vcpus, memory_mb, local_gb, vcpus_used, memory_mb_used, local_gb_used, hypervisor_type, hypervisor_version, cpu_info,
		free_ram_mb, free_disk_gb, deleted, host_ip, supported_instances, pci_stats, metrics, stats, numa_topology,
		cpu_allocation_ratio, ram_allocation_ratio, disk_allocation_ratio`
	template := &world{now: w.now}
	var services, mappings, members []legacytest.Row
	for i := 100; i < 100+benchHosts; i++ {
		change(b, w.cell, `INSERT INTO compute_nodes (id, uuid, host, hypervisor_hostname, created_at, updated_at, `+columns+`)
			SELECT ?, ?, ?, ?, ?, ?, `+columns+` FROM compute_nodes WHERE id = 2`, i, uuid(i), name(i), name(i), w.now.Add(-48*time.Hour), w.now.Add(-24*time.Hour))
		services = append(services, template.service(i))
		mappings = append(mappings, legacytest.Row{"id": i, "cell_id": 1, "host": name(i)})
		members = append(members, legacytest.Row{"host": name(i), "aggregate_id": 1 + i%20})
	}
	change(b, w.cell, "DELETE FROM compute_nodes WHERE id = 2")
	w.cell.Insert(b, "services", services...)
	api.Insert(b, "host_mappings", mappings...)
	for i := 1; i <= 20; i++ {
		api.Insert(b, "aggregates", legacytest.Row{"id": i, "uuid": uuid(i), "name": fmt.Sprint(i)})
	}
	api.Insert(b, "aggregate_hosts", members...)
	if k == legacytest.PostgreSQL { // as a database that has run for a while
		w.cell.Exec(b, "ANALYZE")
		api.Exec(b, "ANALYZE")
	}
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

// BenchmarkCell measures, on one cell: a load; a refresh of which 100 rows are
// others, and one of which none is; and a load whose tables come in one query each,
// which is what all rows for each request, Nova's way, cost here. The databases are on
// the same machine, in memory. cpu-ms/op is this process's alone.
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

// cpu reports the processor time from here to the call of what it gives.
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
