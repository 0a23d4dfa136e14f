package cell

import (
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// SHADOW ends only when some gateway has looked at every host in it, and none has found
// one that differs from its row; it says what is missing, and what differs.
func TestShadowWaitsForHostsThatDifferFromTheirRows(t *testing.T) {
	now := held(shard.GateShadow).Epoch
	one := func(host, detail string) *cellgatev1.HostDifference {
		return &cellgatev1.HostDifference{Host: host, Detail: detail}
	}
	for _, c := range []struct {
		name string
		told []*hostComparison
		want string // what it waits for; "" when it moves
	}{
		{"a gateway of before", []*hostComparison{nil}, "no gateway has compared what agents report"},
		{"those of another SHADOW", []*hostComparison{{epoch: now - 2, hosts: 2, looked: 2}}, "no gateway has compared what agents report"},
		{"half a turn", []*hostComparison{{epoch: now, hosts: 600, looked: 256}}, "what agents report of 256 of 600 hosts was compared with the rows"},
		{"two gateways under way", []*hostComparison{{epoch: now, hosts: 600, looked: 256}, {epoch: now, hosts: 600, looked: 512}}, "what agents report of 512 of 600 hosts"},
		{"a whole turn", []*hostComparison{{epoch: now, hosts: 600, looked: 600}}, ""},
		{"a whole turn of one of two", []*hostComparison{{epoch: now, hosts: 600, looked: 256}, {epoch: now, hosts: 600, looked: 600}, nil}, ""},
		{"one differs", []*hostComparison{{epoch: now, hosts: 2, looked: 2, differ: 1, first: []*cellgatev1.HostDifference{one("h1", "row says 48")}}}, "1 host that differs from its row: h1: row says 48"},
		{"one differs in half a turn, another gateway has not seen it", []*hostComparison{
			{epoch: now, hosts: 9, looked: 5, differ: 1, first: []*cellgatev1.HostDifference{one("h1", "row says 48")}}, {epoch: now, hosts: 9, looked: 9},
		}, "1 host that differs from its row: h1: row says 48"},
		{"many differ", []*hostComparison{
			{epoch: now, hosts: 9, looked: 9, differ: 3, first: []*cellgatev1.HostDifference{one("h1", "a"), one("h2", "b"), one("h3", "c")}},
		}, "3 hosts that differ from their rows: h1: a; h2: b; …"},
	} {
		e := newEvidence()
		for _, told := range c.told {
			e.reports = append(e.reports, legacyReport{gateway: "g", required: 66, unclaimed: allClaimed, compared: told, services: []legacyService{newService("h1")}})
		}
		v := testRules().judge(held(shard.GateShadow), e)
		all := strings.Join(v.waitsFor, "; ")
		if moved := v.want.State == shard.GateNative; moved != (c.want == "") || !strings.HasPrefix(all, c.want) {
			t.Errorf("%s: it goes to %s, waits for %q", c.name, v.want.State, all)
		}
		if v.want.State == shard.GateShadow && v.want.HeldSince.IsZero() {
			t.Errorf("%s: what holds begins anew", c.name)
		}
		if v := testRules().judge(held(shard.GateLegacy), e); v.want.State != shard.GateShadow || v.differing != nil {
			t.Errorf("LEGACY, %s: %+v", c.name, v)
		}
		if v := testRules().judge(held(shard.GateNative), e); v.want.State != shard.GateNative || len(v.waitsFor) > 0 {
			t.Errorf("NATIVE, %s: %+v", c.name, v)
		}
		g := held(shard.GateShadow)
		g.Pin = shard.GateNative
		if v := testRules().judge(g, e); v.want.State != shard.GateNative {
			t.Errorf("pinned, %s: %+v", c.name, v)
		}
	}
}
