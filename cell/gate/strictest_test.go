package gate

import (
	"testing"
	"time"

	"cellgate/shard"
)

// If gateways have different requirements, the strictest counts: the highest required_version and
// the longest service_down_time.
func TestJudge_GatewaysDiffer_StrictestCounts(t *testing.T) {
	reports := func(s Service, required ...int32) (all []Report) {
		for i, n := range required {
			all = append(all, Report{Gateway: string(rune('a' + i)), required: n, Services: []Service{s}, unclaimed: allClaimed})
		}
		return all
	}
	up := newService("h1")
	up.version, up.lastSeen = 66, gateStart.Add(290*time.Second)
	down := up
	down.Up = false
	for name, c := range map[string]struct {
		reports []Report
		closes  string
	}{
		"the higher version":             {reports(up, 67, 66), "nova-compute on h1 is up and of version 66, 67 is required"},
		"one requires none":              {reports(up, 0, 67), "nova-compute on h1 is up and of version 66, 67 is required"},
		"new enough for all":             {reports(up, 66, 65), ""},
		"up for one alone, and old":      {append(reports(down, 67), reports(up, 67)...), "nova-compute on h1 is up and of version 66, 67 is required"},
		"up for one alone, and new":      {append(reports(down, 66), reports(up, 66)...), ""},
		"down for all, and old for long": {reports(func() Service { s := down; s.lastSeen = gateStart; return s }(), 67), ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []shard.GateState{shard.GateNative, shard.GateShadow} {
				v := testRules().Judge(gateWith(state, time.Hour), Evidence{now: gateStart.Add(5 * time.Minute), node: allRegistered, reports: c.reports})
				if c.closes != "" && (v.Want.State != shard.GateLegacy || v.Want.Reason != c.closes) || c.closes == "" && v.Want.State != state {
					t.Errorf("%s: it is %s: %s", state, v.Want.State, v.Want.Reason)
				}
			}
		})
	}
}
