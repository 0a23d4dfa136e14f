package gate

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// held returns a gate whose conditions, apart from those about instances, have been met for an
// hour.
func held(s shard.GateState) *shard.Gate {
	g := gateWith(s, 2*time.Hour)
	g.HeldSince, g.HeldUntil = gateStart.Add(-time.Hour), gateStart
	return g
}

// newEvidence is the evidence of a cell whose services are all new and were compared. told is what
// gateways report of unclaimed instances.
func newEvidence(sent ...*unclaimed) Evidence {
	e := Evidence{now: gateStart.Add(time.Second), node: allRegistered}
	for _, u := range sent {
		e.reports = append(e.reports, Report{Gateway: "g", required: 66, unclaimed: u, Services: []Service{newService("h1")}})
	}
	return e
}

// The gate moves on when none of the instances that had no claim as it began to hold is left
// without one. Until then it names them.
func TestTheGateWaitsForInstancesWithoutAClaim(t *testing.T) {
	since := gateStart.Add(-time.Hour)
	named := &unclaimed{settled: since, count: 5, first: []string{"i1 on h1", "i2 on h1", "i3 on h2", "i4 on h2"}}
	for _, c := range []struct {
		name string
		sent []*unclaimed
		want string // what the gate waits for; "" if it moves
	}{
		{"nobody has looked", []*unclaimed{nil}, "no gateway that imports has checked"},
		{"what there was before is not settled", []*unclaimed{{settled: since.Add(-time.Second)}}, "a gateway is checking which instances"},
		{"all of before is settled", []*unclaimed{{settled: since}}, ""},
		{"another gateway does not import", []*unclaimed{nil, {settled: since}}, ""},
		{"the worst of two counts", []*unclaimed{{settled: since}, {settled: since.Add(-time.Second)}}, "a gateway is checking which instances"},
		{"two looks found some", []*unclaimed{named}, "5 instances of Nova's tables have no claim in the shard: i1 on h1, i2 on h1, i3 on h2, …"},
		{"one", []*unclaimed{{settled: since, count: 1, first: []string{"i1 on h1"}}}, "1 instance of Nova's tables has no claim in the shard: i1 on h1"},
	} {
		for _, s := range []shard.GateState{shard.GateLegacy, shard.GateShadow} {
			v := testRules().Judge(held(s), newEvidence(c.sent...))
			all := strings.Join(v.waitsFor, "; ")
			if moved := v.Want.State != s; moved != (c.want == "") || !strings.HasPrefix(all, c.want) {
				t.Errorf("%s, %s: it goes to %s, waits for %q", s, c.name, v.Want.State, all)
			}
			if v.Want.HeldSince.IsZero() && v.Want.State == s {
				t.Errorf("%s, %s: what holds begins anew", s, c.name)
			}
		}
		// A NATIVE gate stays, and a pin overrides.
		if v := testRules().Judge(held(shard.GateNative), newEvidence(c.sent...)); v.Want.State != shard.GateNative || len(v.waitsFor) > 0 {
			t.Errorf("NATIVE, %s: %+v", c.name, v)
		}
		g := held(shard.GateShadow)
		g.Pin = shard.GateNative
		if v := testRules().Judge(g, newEvidence(c.sent...)); v.Want.State != shard.GateNative {
			t.Errorf("pinned, %s: %+v", c.name, v)
		}
	}
	// They are named in addition to hosts that are not new.
	e := newEvidence(named)
	e.reports[0].Services[0].version = 60
	if v := testRules().Judge(gateWith(shard.GateLegacy, time.Hour), e); len(v.waitsFor) != 2 || !strings.HasPrefix(v.waitsFor[1], "5 instances") {
		t.Errorf("it waits for %q", v.waitsFor)
	}
}

// Instances come and go, and lose their claims. An importer reports what it finds. The gate never
// moves on while an instance has had no claim since before the gate began to hold.
func TestTheGateNeverOpensOverAnInstanceWithoutAClaim(t *testing.T) {
	opened := 0
	rapid.Check(t, func(t *rapid.T) {
		rules := testRules()
		rules.Settle = 10 * time.Second
		g, now := gateWith(shard.GateLegacy, 0), gateStart
		// without is when each instance without a claim lost it. found is what the importer knows:
		// the look before the first that found the instance, and how many looks found it.
		without, found := map[int]time.Time{}, map[int]struct {
			before time.Time
			looks  int
		}{}
		var looked time.Time
		var sent *unclaimed
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
			i := rapid.IntRange(0, 9).Draw(t, "instance")
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				if _, already := without[i]; !already {
					without[i] = now
				}
			case 1, 2, 3:
				delete(without, i)
			case 4, 5, 6:
				for i := range 10 {
					is, known := found[i]
					if _, lacks := without[i]; !lacks {
						delete(found, i)
						continue
					}
					if !known {
						is.before = looked
					}
					is.looks++
					found[i] = is
				}
				looked = now
				sent = &unclaimed{settled: now}
				for _, is := range found {
					if is.before.Before(sent.settled) {
						sent.settled = is.before
					}
					if is.looks > 1 {
						sent.count++
					}
				}
			case 7:
				sent = nil // another gateway is the importer now
			}
			e := newEvidence(sent)
			e.now = now
			v := rules.Judge(g, e)
			if v.Want.State != g.State {
				opened++
				for i, since := range without {
					if !since.After(g.HeldSince) {
						t.Fatalf("it opens to %s though instance %d has had no claim since %v, and it holds since %v", v.Want.State, i, since, g.HeldSince)
					}
				}
			}
			next := &shard.Gate{State: v.Want.State, Epoch: g.Epoch, Since: g.Since, Revision: g.Revision + 1, HeldSince: v.Want.HeldSince, HeldUntil: v.Want.HeldUntil, Falls: v.Want.Falls}
			if next.State != g.State {
				next.Since, next.Epoch = now, g.Epoch+1
			}
			if next.State == shard.GateNative {
				next = gateWith(shard.GateLegacy, 0)
			}
			g = next
		}
	})
	if opened < 20 {
		t.Errorf("it moved on %d times: the test shows nothing", opened)
	}
}

// A gateway that cannot read is named by its name, or by its incarnation id if it has none.
func TestAGatewayIsNamedAsPeopleKnowIt(t *testing.T) {
	for name, want := range map[string]string{"ctl1 (10.0.0.1:9100)": "gateway ctl1 (10.0.0.1:9100) cannot read the services: no route", "": "gateway 01LIFE cannot read the services: no route"} {
		r := ReportOf(&cellv1.ReportLegacyRequest{Gateway: "01LIFE", GatewayName: name, Unreadable: "no route", RequiredVersion: 66})
		v := testRules().Judge(gateWith(shard.GateLegacy, time.Hour), Evidence{now: gateStart, node: allRegistered, reports: []Report{r}})
		if len(v.waitsFor) != 1 || v.waitsFor[0] != want {
			t.Errorf("it waits for %q, want %q", v.waitsFor, want)
		}
	}
}
