package standin

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const benchHosts = 10_000

// benchQuery is a usual request: three classes, a zone, the best ten.
func benchQuery(seed uint64) *cellv1.ProposeBatchRequest {
	q := wiretest.Query(&schedule.Query{
		Seed: seed, Limit: 10, Rules: &schedule.Rules{DefaultAvailabilityZone: "nova"},
		Request: &schedule.Request{
			Resources:        []schedule.Amount{{Class: vcpu, N: 2}, {Class: memoryMB, N: 4096}, {Class: diskGB, N: 20}},
			AvailabilityZone: "az1", Consume: schedule.Consumption{VCPUs: 2, RAMMB: 4096, DiskMB: 20480},
		},
	}, "", nil)
	return &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{q}}
}

func propose(b *testing.B, s *Standin, seed uint64) {
	b.Helper()
	out, err := s.ProposeBatch(context.Background(), benchQuery(seed))
	if err != nil || len(out.GetProposals()[0].GetCandidates().GetServiceHosts()) != 10 {
		b.Fatal(err, out)
	}
}

// BenchmarkLegacyCell measures a cell of 10,000 hosts, on a database of this machine,
// from the rows to the answer:
//
//	first       everything is read, and the first table made
//	refresh-N   of 10,000 rows N were written since: what reads them and makes the next table
//	update-N    of that, what makes the table
//	select      a query, beside which nothing happens
//	select-choose  a query, a choice that the next one counts, and its end
//	nova        Nova's own way: all rows for each request, then one table, one query
//
// cpu-ms/op is this process's alone.
func BenchmarkLegacyCell(b *testing.B) {
	if os.Getenv("CELLGATE_BENCH_LEGACY") == "" {
		b.Skip("two databases of 10,000 hosts take minutes: make bench-legacy")
	}
	for _, k := range []legacytest.Kind{legacytest.MariaDB, legacytest.PostgreSQL} {
		b.Run(string(k), func(b *testing.B) {
			cell, api, now := legacytest.Fleet(b, k.Shared(b), benchHosts)
			conf := legacy.Config{
				Cell: "cell1", Database: legacy.Database{URL: cell.URL}, API: legacy.Database{URL: api.URL},
				QueryTimeout: time.Minute, LoadTimeout: 10 * time.Minute,
				// Rows are not read twice for having been written a moment ago.
				Overlap: time.Nanosecond,
				// The benchmark takes longer than services are heard of.
				ServiceDownTime: 24 * time.Hour,
			}
			open := func(b *testing.B, conf legacy.Config) *legacy.Reader {
				b.Helper()
				r, err := legacy.Open(b.Context(), conf)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = r.Close() })
				return r
			}
			load := func(b *testing.B, r *legacy.Reader) (*Standin, *legacy.Snapshot) {
				b.Helper()
				x, err := r.Load(b.Context())
				if err != nil || len(x.Hosts) != benchHosts {
					b.Fatal(err, x)
				}
				s := New(Config{Cell: "cell1"})
				s.Update(x, x.At, nil, time.Now())
				return s, x
			}
			b.Run("first", func(b *testing.B) {
				r := open(b, conf)
				b.ReportAllocs()
				defer cpu(b)()
				for b.Loop() {
					load(b, r)
				}
			})
			b.Run("nova", func(b *testing.B) {
				conf := conf
				conf.PageSize = 200_000
				r := open(b, conf)
				b.ReportAllocs()
				defer cpu(b)()
				for seed := uint64(0); b.Loop(); seed++ {
					s, _ := load(b, r)
					propose(b, s, seed)
				}
			})
			written := 0
			write := func(b *testing.B, rows int) {
				b.Helper()
				written++
				if _, err := cell.DB.ExecContext(b.Context(), fmt.Sprintf("UPDATE compute_nodes SET free_ram_mb = %s, updated_at = %s WHERE id >= 1000 AND id < %s", cell.Mark(1), cell.Mark(2), cell.Mark(3)),
					16384+written, now.Add(time.Duration(written)*time.Second), 1000+rows); err != nil {
					b.Fatal(err)
				}
			}
			for _, rows := range []int{0, 100} {
				b.Run(fmt.Sprintf("refresh-%d", rows), func(b *testing.B) {
					r := open(b, conf)
					s, x := load(b, r)
					b.ReportAllocs()
					defer cpu(b)()
					for b.Loop() {
						b.StopTimer()
						write(b, rows)
						b.StartTimer()
						y, err := r.Refresh(b.Context(), x)
						if err != nil || y.Full || y.Read.ComputeNodes != rows {
							b.Fatal(err, y)
						}
						s.Update(y, y.At, nil, time.Now())
						x = y
					}
				})
				b.Run(fmt.Sprintf("update-%d", rows), func(b *testing.B) {
					r := open(b, conf)
					s, x := load(b, r)
					write(b, rows)
					y, err := r.Refresh(b.Context(), x)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportAllocs()
					defer cpu(b)()
					for b.Loop() { // to and fro: the same rows are others each time
						x, y = y, x
						s.Update(x, x.At, nil, time.Now())
					}
				})
			}
			s, _ := load(b, open(b, conf))
			b.Run("select", func(b *testing.B) {
				b.ReportAllocs()
				defer cpu(b)()
				for seed := uint64(0); b.Loop(); seed++ {
					propose(b, s, seed)
				}
			})
			b.Run("select-choose", func(b *testing.B) {
				b.ReportAllocs()
				defer cpu(b)()
				for n := 0; b.Loop(); n++ {
					propose(b, s, uint64(n))
					c := newClaim(n, 0)
					c.HostUuid = legacytest.FleetUUID(legacytest.FleetFirst + n%benchHosts)
					for _, a := range c.GetAllocations() {
						a.ProviderUuid = c.GetHostUuid()
					}
					s.Chose(c, time.Now().Add(time.Hour))
					if n >= 100 {
						s.Ended(fmt.Sprint("claim-", n-100))
					}
				}
			})
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
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op") }
}
