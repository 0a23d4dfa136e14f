package replica

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cellgate/cell/liveness"
	"cellgate/cell/proposals"
	"cellgate/shard"
)

// Instances whose host is not in the table come with it: their claims may arrive first, and the host may go and come
// back.
func TestWriter_HostComesToTheTable_BringsItsInstances(t *testing.T) {
	versions := proposals.NewVersions(time.Second, 1, time.Now)
	w := newWriter(cellUUID, newRows(), liveness.New(time.Hour, time.Now), versions, nil, slog.New(slog.DiscardHandler))
	generation := int64(0)
	host := func(service string) shard.Change {
		generation++
		return shard.Change{Host: &shard.Host{UUID: hostA, ServiceHost: service, Generation: generation, Providers: []shard.Provider{{UUID: hostA}}}}
	}
	claim := func(id, instance string, state shard.ClaimState, written int) shard.Change {
		return shard.Change{Claim: &shard.Claim{ClaimID: id, ConsumerUUID: instance, HostUUID: hostA, State: state, UpdatedAt: at(written)}}
	}
	stays, ends := hostUUID(7), hostUUID(8) // any uuids
	for _, step := range []struct {
		what    string
		changes []shard.Change
		there   int
	}{
		{"claims come first", []shard.Change{claim("k1", stays, shard.Confirmed, 1), claim("k2", ends, shard.Confirmed, 1)}, 0},
		{"a root without a compute service is no host", []shard.Change{host("")}, 0},
		{"one ends", []shard.Change{claim("k2", ends, shard.Released, 2)}, 0},
		{"the host comes", []shard.Change{host("h")}, 1},
		{"it goes", []shard.Change{host("")}, 0},
		{"it comes back", []shard.Change{host("h")}, 1},
	} {
		w.makeVersion([]tableUpdate{{changes: step.changes}})
		_, _, first := versions.Current().Consumer(mustParse(t, stays))
		_, _, second := versions.Current().Consumer(mustParse(t, ends))
		if first != (step.there == 1) || second {
			t.Errorf("%s: the instance is on the host: %v, the ended one: %v", step.what, first, second)
		}
	}
}

// A host that has other names with each report does not fill the memory with old ones.
func TestWriter_NamesChange_OldOnesAreDropped(t *testing.T) {
	versions := proposals.NewVersions(time.Second, 1, time.Now)
	w := newWriter(cellUUID, newRows(), liveness.New(time.Hour, time.Now), versions, nil, slog.New(slog.DiscardHandler))
	const most = 1 << 20
	w.mostNames, w.leastNames = most, most
	publish := func(c shard.Change) { w.makeVersion([]tableUpdate{{changes: []shard.Change{c}}}) }
	publish(shard.Change{Host: &shard.Host{UUID: hostB, ServiceHost: "b", Generation: 1, Providers: []shard.Provider{{UUID: hostB}}}})
	instance := hostUUID(7) // any uuid
	publish(shard.Change{Claim: &shard.Claim{ClaimID: "k1", ConsumerUUID: instance, HostUUID: hostB, State: shard.Confirmed, UpdatedAt: at(1)}})
	for n := range 100 {
		h := &shard.Host{UUID: hostA, ServiceHost: "a", Generation: int64(n + 1), Providers: []shard.Provider{{UUID: hostA}}}
		for i := range 50 {
			h.Providers[0].Traits = append(h.Providers[0].Traits, fmt.Sprintf("CUSTOM_%d_%d", n, i))
		}
		h.Aggregates = []shard.Aggregate{{UUID: hostUUID(n), Metadata: map[string]string{"k": strings.Repeat("v", 1<<12)}}}
		before := versions.Current().Version()
		publish(shard.Change{Host: h})
		if size := versions.Current().NamesSize(); size > most+most/2 {
			t.Fatalf("names take %d bytes after %d reports", size, n+1)
		}
		if after := versions.Current().Version(); after != before+1 {
			t.Fatalf("version %d comes after %d", after, before)
		}
	}
	if host, _, ok := versions.Current().Consumer(mustParse(t, instance)); !ok || host != mustParse(t, hostB) || versions.Current().Len() != 2 {
		t.Errorf("%d hosts; the instance is on %v, %v", versions.Current().Len(), host, ok)
	}
}
