package cell

import (
	"strings"
	"testing"

	"cellgate/internal/wire/wiretest"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// filtered asks for a host with one VCPU of which an expression is true.
func filtered(text string) *cellv1.Query {
	return &cellv1.Query{Limit: 10, Seed: 1, Placement: serialized(&cellv1.Placement{
		Resources:        []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}},
		FilterExpression: text,
		Rules:            &cellv1.Rules{Filters: append(schedule.DefaultFilters(), schedule.ExpressionFilter)},
	})}
}

// A gateway's own expressions come with the rules: filters in addition to the request's, and the
// weight with its multiplier.
func TestExpressionsOfTheRules(t *testing.T) {
	r := start(t, newStore(t))
	for n, facts := range []string{`{"ok": true, "rank": 1}`, `{"ok": true, "rank": 2}`, `{"ok": false, "rank": 3}`} {
		state := plainState(n+1, 8)
		state.Namespaces = []*agentv1.Namespace{{Name: "power", Facts: facts}}
		r.register(state)
	}
	ask := func(own string, multiplier float64) *cellv1.Proposal {
		p := &cellv1.Placement{
			Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, FilterExpression: own,
			Rules: &cellv1.Rules{
				Filters:          append(schedule.DefaultFilters(), schedule.ConfiguredExpressionFilter, schedule.ExpressionFilter),
				FilterExpression: `facts.power.ok`, WeighExpression: `facts.power.rank`,
				Weighers: []*cellv1.Weigher{{Name: schedule.ConfiguredExpressionWeigher, Multiplier: multiplier}},
			},
		}
		return r.propose(&cellv1.Query{Limit: 10, Seed: 1, Placement: serialized(p)})
	}
	first := func(p *cellv1.Proposal) string {
		if len(wiretest.Hosts(p)) == 0 {
			return ""
		}
		return wiretest.Hosts(p)[0]
	}
	if p := ask(`true`, 1); p.GetPassed() != 2 || first(p) != hostUUID(2) {
		t.Errorf("%v", p)
	}
	if p := ask(`true`, -1); p.GetPassed() != 2 || first(p) != hostUUID(1) {
		t.Errorf("below 0: %v", p)
	}
	p := ask(`facts.power.rank > 1`, 1)
	if p.GetPassed() != 1 || first(p) != hostUUID(2) || len(p.GetRejects()) != 2 || p.GetRejects()[0].GetFilter() != schedule.ConfiguredExpressionFilter {
		t.Errorf("with the request's own: %v", p)
	}
	for want, rules := range map[string]*cellv1.Rules{
		"placement.rules.filter_expression: line 1": {FilterExpression: `facts.`}, "placement.rules.weigh_expression: must be a number": {WeighExpression: `host.zone`},
	} {
		f := r.propose(&cellv1.Query{Limit: 1, Placement: serialized(&cellv1.Placement{Rules: rules})}).GetFailure()
		if f.GetReason() != "INVALID_REQUEST" || !strings.Contains(f.GetMessage(), want) {
			t.Errorf("bad ones: %v, want %s", f, want)
		}
	}
}

// Facts of a service and of the agent count from the next request on, and stay when other
// properties of the host change.
func TestExpressionsReadFacts(t *testing.T) {
	r := start(t, newStore(t))
	state := plainState(1, 8)
	state.Namespaces = []*agentv1.Namespace{{Name: "nova", Facts: `{"rack": "r1"}`}}
	r.register(state)
	r.register(plainState(2, 8))
	host := state.GetHostUuid()
	passes := func(when, text string, want int32, detail string) {
		t.Helper()
		// Repeated, because a shape that comes again is answered from the cache.
		for range 3 {
			p := r.propose(filtered(text))
			if p.GetFailure() != nil || p.GetPassed() != want {
				t.Errorf("%s: %s: %d passed, want %d; %v", when, text, p.GetPassed(), want, p.GetFailure())
			}
			if got := p.GetRejects(); detail != "" && (len(got) != 1 || got[0].GetFilter() != schedule.ExpressionFilter || got[0].GetDetail() != detail) {
				t.Errorf("%s: %s: rejects %v, want %s", when, text, got, detail)
			}
		}
	}
	const roomy, rack = `facts.cinder.free_gb > 500`, `facts.nova.rack == "r1"`
	passes("at first", roomy, 0, "missing: cinder")
	passes("at first", rack, 1, "missing: nova")
	put := func(namespace, facts string) {
		t.Helper()
		if _, err := r.putFacts(host, namespace, facts, 0); err != nil {
			t.Fatal(err)
		}
	}
	put("cinder", `{"free_gb": 800}`)
	passes("put", roomy, 1, "missing: cinder")
	r.do(newClaim("c1", 1, 1, 2))
	passes("after a claim", roomy, 1, "missing: cinder")
	passes("after a claim", `host.used.VCPU == 2.0`, 1, "")
	state.Version++
	state.IoWorkload = 3
	r.register(state)
	passes("after a report", roomy, 1, "missing: cinder")
	passes("after a report", rack, 1, "missing: nova")
	state.Version++
	state.Namespaces[0].Facts = `{"rack": "r2"}`
	r.register(state)
	passes("after another rack", rack, 0, "")
	put("nova", `{"rack": "r1"}`)
	passes("over the agent's", rack, 1, "missing: nova")
	put("nova", "")
	passes("the agent's again", rack, 0, "")
	put("cinder", `{"free_gb": 10}`)
	passes("less", roomy, 0, "")
	put("cinder", "")
	passes("gone", roomy, 0, "missing: cinder")
	if p := r.propose(filtered(`facts.`)); p.GetFailure().GetReason() != "INVALID_REQUEST" {
		t.Errorf("a bad expression: %v", p)
	}
}
