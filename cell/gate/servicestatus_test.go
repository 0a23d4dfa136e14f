package gate

import (
	"testing"
	"time"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// BenchmarkUnchangedServices measures a report on 10,000 hosts that changes nothing.
func BenchmarkUnchangedServices(b *testing.B) {
	const hosts = 10_000
	rows := map[string]HostStatus{}
	report := Report{Gateway: "g1"}
	for n := range hosts {
		h := &shard.Host{UUID: shardtest.HostID(n)}
		rows[h.UUID] = HostStatus{Row: h}
		report.Services = append(report.Services, Service{Host: h.UUID, Up: true, Nodes: []string{h.UUID}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if c := StatusChanges([]Report{report}, rows, time.Now(), 30*time.Second); len(c) != 0 {
			b.Fatalf("%d changes", len(c))
		}
	}
}
