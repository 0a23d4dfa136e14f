package sqlshard

import (
	"testing"

	"cellgate/shard"
)

// The host table has the same zones (schedule.ZonesOf). A zone without a name only keeps the host out of the default
// zone.
func TestI6_SearchOf_AggregatesWithZones_SearchedAsInTheHostTable(t *testing.T) {
	for value, want := range map[string]string{
		"az1": `["az1"]`, " az1 ,az2 ": `["az1","az2"]`, "a,,b": `["a","b"]`, "\x1caz1\x1f,": `["az1"]`,
		"": `[""]`, " ,\x1d": `[""]`,
	} {
		h := &shard.Host{Aggregates: []shard.Aggregate{{Metadata: map[string]string{"availability_zone": value}}}}
		if got := searchOf(h).zones; got != want {
			t.Errorf("%q is searched as %s, want %s", value, got, want)
		}
	}
	h := &shard.Host{Aggregates: []shard.Aggregate{{Metadata: map[string]string{"zone": "az1"}}}}
	if got := searchOf(h).zones; got != "[]" {
		t.Errorf("a host without a zone is searched as %s", got)
	}
}
