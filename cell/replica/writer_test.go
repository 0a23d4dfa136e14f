package replica

import (
	"log/slog"
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
	w := newWriter(cellUUID, newRows(), liveness.New(time.Hour, time.Now), versions, nil, nil, slog.New(slog.DiscardHandler))
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
