package simulation

import (
	"testing"

	"cellgate/shard"
)

// The affinity check finds members that are apart, but accepts the second claim that a lost call
// leaves.
func TestI9_CheckOfAffinity(t *testing.T) {
	claim := func(group, instance, host string) *shard.Claim {
		return &shard.Claim{ConsumerUUID: instance, ServiceHost: host, Group: &shard.Group{UUID: group, Policy: "affinity"}}
	}
	for name, tt := range map[string]struct {
		claims []*shard.Claim
		apart  bool
	}{
		"together":               {[]*shard.Claim{claim("g", "a", "h1"), claim("g", "b", "h1")}, false},
		"apart":                  {[]*shard.Claim{claim("g", "a", "h1"), claim("g", "b", "h2")}, true},
		"other groups":           {[]*shard.Claim{claim("g", "a", "h1"), claim("k", "b", "h2")}, false},
		"a lost call's claim":    {[]*shard.Claim{claim("g", "a", "h1"), claim("g", "a", "h2"), claim("g", "b", "h2")}, false},
		"no host that all share": {[]*shard.Claim{claim("g", "a", "h1"), claim("g", "a", "h2"), claim("g", "b", "h2"), claim("g", "c", "h1")}, true},
	} {
		if got := apart(tt.claims); (got != "") != tt.apart {
			t.Errorf("%s: %q", name, got)
		}
	}
}
