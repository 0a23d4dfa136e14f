package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

var gateStart = time.Unix(1_700_000_000, 0).UTC()

func testRules() Rules {
	return Rules{
		Settle: time.Minute, Classes: []string{"VCPU"}, AgentVersion: 1, DownTime: time.Minute,
	}
}

// allClaimed: every instance has a claim, at all times.
var allClaimed = &unclaimed{settled: gateStart.Add(10_000 * time.Hour)}

// node names the compute node of a service.
func node(host string) string { return "node-of-" + host }

func newService(host string) Service {
	return Service{Host: host, version: 66, Up: true, lastSeen: gateStart, Nodes: []string{node(host)}}
}

func allRegistered(string) Registration { return Registration{Agent: true, AgentVersion: 1} }

// gateWith returns a gate that has been in a state for since.
func gateWith(s shard.GateState, since time.Duration) *shard.Gate {
	return &shard.Gate{State: s, Epoch: 3, Revision: 7, Since: gateStart.Add(-since), Reason: "before"}
}

// oldAndAlive is the naive rule of I10. A readable report has an old service that is up and not
// forced down, or the agent of its node is old.
func oldAndAlive(r Rules, e Evidence) bool {
	required := int32(0)
	for _, report := range e.reports {
		required = max(required, report.required)
	}
	for _, report := range e.reports {
		if report.unreadable != "" {
			continue
		}
		for _, s := range report.Services {
			if !s.Up || s.forcedDown {
				continue
			}
			if s.version < required {
				return true
			}
			for _, n := range s.Nodes {
				if n := e.node(n); !s.disabled && (!n.Agent || n.AgentVersion < r.AgentVersion) {
					return true
				}
			}
		}
	}
	return false
}

// Random evidence is judged as a cell does, with time in between. The gate never moves towards
// NATIVE while an old service is alive, or some services cannot be read. In SHADOW and NATIVE, an
// old service that is up closes the gate at once. An unreadable table alone never closes it.
func TestI10_TheGateNeverOpensWhileALiveOldAgentExists(t *testing.T) {
	reached := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		rules := testRules()
		rules.Settle = 20 * time.Second
		rank := map[shard.GateState]int{shard.GateLegacy: 0, shard.GateShadow: 1, shard.GateNative: 2}
		now := gateStart
		g := rapid.SampledFrom([]*shard.Gate{nil, gateWith(shard.GateLegacy, 0), gateWith(shard.GateShadow, 0), gateWith(shard.GateNative, 0)}).Draw(t, "gate")
		var heldFrom time.Time // since when all services are new, by the naive rule
		// In each step, at most one property of the evidence is bad.
		troubles := append(make([]string, 20), "unreadable", "unknown", "old", "down", "disabled", "forced down", "old and down", "old and disabled", "old and forced down", "old agent", "differs", "both unreadable")
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 9).Draw(t, "seconds")) * time.Second)
			trouble := rapid.SampledFrom(troubles).Draw(t, "trouble")
			at, host := rapid.IntRange(0, 1).Draw(t, "at"), fmt.Sprint("h", rapid.IntRange(0, 2).Draw(t, "host"))
			is := func(what string) bool { return strings.Contains(trouble, what) }
			e := Evidence{now: now}
			e.node = func(uuid string) Registration {
				if uuid != node(host) {
					return allRegistered(uuid)
				}
				n := Registration{Agent: trouble != "unknown", AgentVersion: 1}
				switch trouble {
				case "old agent":
					n.AgentVersion = 0
				case "differs":
					n.Differs = aDifference
				}
				return n
			}
			for n := range rapid.IntRange(1, 2).Draw(t, "gateways") {
				report := Report{Gateway: fmt.Sprint("g", n), required: 66, unclaimed: allClaimed}
				if trouble == "both unreadable" || trouble == "unreadable" && n == at {
					report.unreadable = "the connection was refused"
				} else {
					for i := range 3 {
						s := newService(fmt.Sprint("h", i))
						if s.Host == host && n == at {
							if trouble != "old agent" && is("old") {
								s.version = 65
							}
							s.Up, s.disabled, s.forcedDown = !is("down") || is("forced"), is("disabled"), is("forced")
							s.lastSeen = now.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "silent")) * time.Second)
						}
						report.Services = append(report.Services, s)
					}
				}
				e.reports = append(e.reports, report)
			}
			old, unreadable := oldAndAlive(rules, e), 0
			for _, r := range e.reports {
				if r.unreadable != "" {
					unreadable++
				}
			}
			if old || unreadable > 0 {
				heldFrom = time.Time{}
			} else if heldFrom.IsZero() {
				heldFrom = now
			}
			v := rules.Judge(g, e)
			was := shard.GateLegacy
			if g != nil {
				was = g.State
			}
			switch {
			case rank[v.Want.State] > rank[was]:
				reached["opened"]++
				if old || unreadable > 0 {
					t.Fatalf("I10: it opens to %s with %+v", v.Want.State, e.reports)
				}
				if now.Sub(heldFrom) < rules.Settle {
					t.Fatalf("it opens to %s after %v", v.Want.State, now.Sub(heldFrom))
				}
			case rank[v.Want.State] < rank[was]:
				reached["closed"]++
				if unreadable == len(e.reports) {
					t.Fatalf("an unreadable table closes it: %+v", v.Want)
				}
			case was != shard.GateLegacy && unreadable == len(e.reports):
				reached["stays, unreadable"]++
			}
			if was != shard.GateLegacy && v.Want.State != shard.GateLegacy {
				for _, r := range e.reports {
					for _, s := range r.Services {
						if s.Up && !s.forcedDown && s.version < 66 {
							t.Fatalf("it stays %s with %+v", v.Want.State, s)
						}
					}
				}
			}
			g = written(g, v.Want, now)
		}
	})
	for _, must := range []string{"opened", "closed", "stays, unreadable"} {
		if reached[must] == 0 {
			t.Errorf("no sequence came to %q: %v", must, reached)
		}
	}
}

// written returns the row that the shard writes for a move.
func written(g *shard.Gate, m shard.MoveGate, now time.Time) *shard.Gate {
	next := &shard.Gate{
		State: m.State, Epoch: 1, Revision: m.Revision + 1, Since: now, Reason: m.Reason, Pin: m.Pin, PinReason: m.PinReason,
		HeldSince: m.HeldSince, HeldUntil: m.HeldUntil, Falls: m.Falls,
	}
	if g != nil && g.State == m.State {
		next.Epoch, next.Since = g.Epoch, g.Since
	} else if g != nil {
		next.Epoch = g.Epoch + 1
	}
	return next
}

// TestWhichServicesHoldTheGate is the policy of disabled, forced-down and silent services.
func TestWhichServicesHoldTheGate(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*Service)
		node          Registration
		holds, closes bool
	}{
		"new":                        {func(*Service) {}, Registration{Agent: true, AgentVersion: 1}, false, false},
		"old":                        {func(s *Service) { s.version = 65 }, Registration{Agent: true, AgentVersion: 1}, true, true},
		"old, version NULL":          {func(s *Service) { s.version = 0 }, Registration{Agent: true, AgentVersion: 1}, true, true},
		"old, disabled, up":          {func(s *Service) { s.version, s.disabled = 65, true }, Registration{}, true, true},
		"old, disabled, down":        {func(s *Service) { s.version, s.disabled, s.Up = 65, true, false }, Registration{}, false, false},
		"old, forced down":           {func(s *Service) { s.version, s.forcedDown = 65, true }, Registration{}, false, false},
		"old, down for a moment":     {func(s *Service) { s.version, s.Up, s.lastSeen = 65, false, gateStart.Add(-90*time.Second) }, Registration{Agent: true, AgentVersion: 1}, true, false},
		"old, down for long":         {func(s *Service) { s.version, s.Up, s.lastSeen = 65, false, gateStart.Add(-2*time.Minute) }, Registration{}, false, false},
		"old, never seen":            {func(s *Service) { s.version, s.Up, s.lastSeen = 65, false, time.Time{} }, Registration{}, false, false},
		"not registered":             {func(*Service) {}, Registration{}, true, false},
		"not registered, disabled":   {func(s *Service) { s.disabled = true }, Registration{}, false, false},
		"its agent is old":           {func(*Service) {}, Registration{Agent: true, AgentVersion: 0}, true, true},
		"its inventory is not whole": {func(*Service) {}, Registration{Agent: true, AgentVersion: 1, Lacks: "VCPU"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService("h1")
			c.change(&s)
			e := Evidence{
				now: gateStart, reports: []Report{{Gateway: "g", required: 66, unclaimed: allClaimed, Services: []Service{newService("other"), s}}},
				node: func(uuid string) Registration {
					if uuid == node("h1") {
						return c.node
					}
					return allRegistered(uuid)
				},
			}
			v := testRules().Judge(gateWith(shard.GateLegacy, time.Hour), e)
			if holds := v.Want.HeldSince.IsZero(); holds != c.holds || holds && !strings.Contains(strings.Join(v.waitsFor, " "), "h1") {
				t.Errorf("it blocks the gate: %v, want %v; the gate waits for %q", holds, c.holds, v.waitsFor)
			}
			if c.holds != (v.laggingHosts == 1) {
				t.Errorf("%d hosts lag: %+v", v.laggingHosts, v.lagging)
			}
			if s.version < 66 && (len(v.lagging) != 1 || v.lagging[0].host != "h1") {
				t.Errorf("an old one is not told of: %+v", v.lagging)
			}
			if c.holds && v.registered != 1 {
				t.Errorf("%d hosts count as registered by new agents, and h1 is not", v.registered)
			}
			if native := testRules().Judge(gateWith(shard.GateNative, 2*time.Hour), e); c.holds && (native.laggingHosts != 1 || native.lagging[0].host != "h1") {
				t.Errorf("when the gate is NATIVE %d hosts are not new: %+v", native.laggingHosts, native.lagging)
			}
			for _, at := range []shard.GateState{shard.GateShadow, shard.GateNative} {
				if to := rulesTo(testRules(), gateWith(at, 2*time.Hour), e); (to == shard.GateLegacy) != c.closes {
					t.Errorf("from %s it goes to %s, closes is %v", at, to, c.closes)
				}
			}
		})
	}
}

func rulesTo(r Rules, g *shard.Gate, e Evidence) shard.GateState { return r.Judge(g, e).Want.State }

// A gate does not open if no report has a required version, or if a service's compute nodes cannot
// be read. Neither closes a gate.
func TestAGateThatNobodyReportsToStaysWhereItIs(t *testing.T) {
	bare := newService("h1")
	bare.Nodes = nil
	for _, s := range []shard.GateState{shard.GateLegacy, shard.GateShadow, shard.GateNative} {
		for name, reports := range map[string][]Report{
			"none": nil, "unreadable": {{Gateway: "g", unreadable: "refused"}}, "empty": {{Gateway: "g", required: 66, unclaimed: allClaimed}},
			"no version":      {{Gateway: "g", Services: []Service{newService("h1")}}},
			"no compute node": {{Gateway: "g", required: 66, unclaimed: allClaimed, Services: []Service{newService("h2"), bare}}},
		} {
			g := gateWith(s, time.Hour)
			g.HeldSince, g.HeldUntil = gateStart.Add(-time.Hour), gateStart
			v := testRules().Judge(g, Evidence{now: gateStart, node: allRegistered, reports: reports})
			if v.Want.State != s {
				t.Errorf("%s, %s: it goes to %s: %s", s, name, v.Want.State, v.Want.Reason)
			}
			if s != shard.GateNative && (len(v.waitsFor) == 0 || !v.Want.HeldSince.IsZero()) {
				t.Errorf("%s, %s: it waits for %q, held since %v", s, name, v.waitsFor, v.Want.HeldSince)
			}
		}
	}
}

// walk judges every two seconds until the gate has moved, for most at the longest.
func walk(t *testing.T, r Rules, g *shard.Gate, now time.Time, most time.Duration, e Evidence) (*shard.Gate, time.Time) {
	t.Helper()
	for end := now.Add(most); now.Before(end); now = now.Add(2 * time.Second) {
		e.now = now
		v := r.Judge(g, e)
		next := g
		if !IsAsWanted(g, &v.Want) {
			next = written(g, v.Want, now)
		}
		if g != nil && next.State != g.State {
			return next, now
		}
		g = next
	}
	t.Fatalf("the gate is still %+v after %v", g, most)
	return nil, now
}

func TestTheSettleTimeDoublesWithEachFallAndIsForgottenAfterAnHourOfNative(t *testing.T) {
	r := testRules()
	fine := Evidence{node: allRegistered, reports: []Report{{Gateway: "g", required: 66, unclaimed: allClaimed, Services: []Service{newService("h1")}}}}
	late := newService("h1")
	late.version = 65
	bad := Evidence{node: allRegistered, reports: []Report{{Gateway: "g", required: 66, unclaimed: allClaimed, Services: []Service{late}}}}
	g, now := gateWith(shard.GateLegacy, 0), gateStart
	for fall, want := range []time.Duration{1, 2, 4, 8, 16, 16} {
		begun := now
		g, now = walk(t, r, g, now, time.Hour, fine)
		if took := now.Sub(begun); g.State != shard.GateShadow || took != want*time.Minute {
			t.Errorf("after %d falls it is %s after %v, want %v", fall, g.State, took, want*time.Minute)
		}
		var opened time.Time
		if g, opened = walk(t, r, g, now, time.Hour, fine); g.State != shard.GateNative || opened.Sub(now) != want*time.Minute {
			t.Errorf("SHADOW took %v", opened.Sub(now))
		}
		g, now = walk(t, r, g, opened.Add(time.Minute), time.Second, bad)
		if g.State != shard.GateLegacy || !strings.Contains(g.Reason, "h1") {
			t.Errorf("it fell to %+v", g)
		}
	}
	g, now = walk(t, r, g, now, time.Hour, fine)
	g, now = walk(t, r, g, now, time.Hour, fine)
	g, now = walk(t, r, g, now.Add(2*time.Hour), time.Second, bad)
	begun := now
	if _, now = walk(t, r, g, now, time.Hour, fine); now.Sub(begun) != 2*time.Minute {
		t.Errorf("after hours of NATIVE and a fall it took %v", now.Sub(begun))
	}
}

func TestTimeInWhichNobodyLooksDoesNotCount(t *testing.T) {
	r := testRules()
	fine := Evidence{node: allRegistered, reports: []Report{{Gateway: "g", required: 66, unclaimed: allClaimed, Services: []Service{newService("h1")}}}}
	g := gateWith(shard.GateLegacy, time.Hour)
	fine.now = gateStart
	g = written(g, r.Judge(g, fine).Want, gateStart)
	for _, later := range []time.Duration{10 * time.Minute, -time.Second} {
		fine.now = gateStart.Add(later)
		if v := r.Judge(g, fine); v.Want.State != shard.GateLegacy || !v.Want.HeldSince.Equal(fine.now) {
			t.Errorf("%v later it is %+v", later, v.Want)
		}
	}
}

// aDifference is a difference between an agent's report and its host's row.
var aDifference = []*cellgatev1.HostDifference{{Kind: cellgatev1.HostDifference_CAPACITY, Host: "h1", Detail: "row has 8 VCPU, its agent reports 9"}}

func TestJudge_Shadow_WaitsForHostsThatDiffer(t *testing.T) {
	g := gateWith(shard.GateShadow, time.Hour)
	g.HeldSince, g.HeldUntil = gateStart.Add(-time.Hour), gateStart
	e := Evidence{now: gateStart, reports: []Report{{Gateway: "g", required: 66, unclaimed: allClaimed, Services: []Service{newService("h1"), newService("h2"), newService("h3")}}}}
	differing := map[string]bool{}
	e.node = func(uuid string) Registration {
		r := allRegistered(uuid)
		if differing[uuid] {
			r.Differs = aDifference
		}
		return r
	}
	if to := rulesTo(testRules(), g, e); to != shard.GateNative {
		t.Errorf("with equal hosts it goes to %s", to)
	}
	const detail = "h1: row has 8 VCPU, its agent reports 9"
	for n, want := range []string{"1 host that differs from its row: " + detail, "2 hosts that differ from their rows: " + detail + "; " + detail, "3 hosts that differ from their rows: " + detail + "; " + detail + "; …"} {
		differing[node(fmt.Sprint("h", n+1))] = true
		v := testRules().Judge(g, e)
		if v.Want.State != shard.GateShadow || v.differingHosts != n+1 || len(v.differing) != n+1 || strings.Join(v.waitsFor, "\n") != want {
			t.Errorf("it goes to %s and waits for %q, %d differ", v.Want.State, v.waitsFor, v.differingHosts)
		}
	}
}

func TestAPinHoldsTheGate(t *testing.T) {
	late := newService("h1")
	late.version = 1
	e := Evidence{now: gateStart, node: allRegistered, reports: []Report{{Gateway: "g", required: 66, unclaimed: allClaimed, Services: []Service{late}}}}
	g := gateWith(shard.GateNative, time.Hour)
	g.Pin, g.PinReason = shard.GateNative, "we know better"
	if to := rulesTo(testRules(), g, e); to != shard.GateNative {
		t.Errorf("an old service moves a pinned gate to %s", to)
	}
	g.Pin = ""
	if to := rulesTo(testRules(), g, e); to != shard.GateLegacy {
		t.Errorf("let go, it goes to %s", to)
	}
}

// After an unpin, the gate's reason is not that of the pin.
func TestAGateThatIsLetGoSaysSo(t *testing.T) {
	g := gateWith(shard.GateNative, time.Hour)
	g.Pin, g.PinReason, g.Reason = shard.GateNative, "hold", "pinned by an operator: hold"
	if want := Pinned(g, "", "done", "an operator"); want.Reason != "let go by an operator: done" || want.Pin != "" || want.State != shard.GateNative {
		t.Errorf("it is %+v", want)
	}
}

// The list of what the gate waits for names each host once. It names hosts that are not new even if
// something else holds the gate.
func TestWhatTheGateWaitsForNamesAHostOnce(t *testing.T) {
	e := Evidence{now: gateStart, node: allRegistered, reports: []Report{{Gateway: "g1", required: 66, unclaimed: allClaimed, Services: []Service{newService("h1"), newService("h2")}}}}
	e.reports[0].Services[0].version = 60
	for _, s := range []shard.GateState{shard.GateLegacy, shard.GateShadow, shard.GateNative} {
		v := testRules().Judge(gateWith(s, time.Hour), e)
		if all := strings.Join(v.waitsFor, "\n"); all != "1 host that is not new: h1" {
			t.Errorf("%s: it waits for %q", s, all)
		}
	}
	e.reports[0].required = 0
	e.node = func(string) Registration { return Registration{} }
	if v := testRules().Judge(gateWith(shard.GateLegacy, time.Hour), e); len(v.waitsFor) != 2 || v.waitsFor[1] != "2 hosts that are not new: h1, h2" {
		t.Errorf("without a required version it waits for %q", v.waitsFor)
	}
}
