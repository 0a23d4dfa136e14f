package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// stored is a host with a fact of Cinder: the free space in GB.
func stored(n, size, freeGB int) schedule.Host {
	h := testHost(n, size)
	h.Namespaces = schedule.NewNamespaces(map[string]string{"cinder": fmt.Sprintf(`{"free_gb": %d}`, freeGB)})
	return h
}

func storedCells() []*testCell {
	return []*testCell{
		newCell(1, testHost(1, 8), stored(2, 4, 100)),
		newCell(2, stored(3, 1, 800), stored(4, 2, 900)),
	}
}

func hintsAllowed(c *Config) { c.HintExpressions = true }

// Hints may bring an expression only if the gateway allows it, because the owner of a server writes the hints.
func TestExpressionsOfHintsHaveASwitch(t *testing.T) {
	w := start(t, storedCells(), nil)
	typed := ask(1, 1)
	typed.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"cellgate:filter": {Values: []string{"true"}}}
	hinted := novaAsk(t, 1, func(spec, _ map[string]any) {
		spec["scheduler_hints"] = map[string]any{"cellgate:filter": []any{"true"}}
	})
	for path, r := range map[string]*cellgatev1.SelectDestinationsRequest{
		`request_spec.scheduler_hints["cellgate:filter"]`: typed, `nova_request_spec.scheduler_hints["cellgate:filter"]`: hinted,
	} {
		e := w.refused(r, fault.InvalidRequest)
		if len(e.Fields) != 1 || e.Fields[0].Path != path || !strings.Contains(e.Fields[0].Problem, "gateway.hint_expressions") {
			t.Errorf("%v, want %s", e.Fields, path)
		}
	}
	typed.GetRequestSpec().SchedulerHints, typed.GetRequestSpec().FilterExpression = nil, "true"
	w.choose(typed)
}

// costly exceeds the CEL steps that a cell gives a request, after a few hosts: each search of a
// text counts as a hundred steps.
var costly = `[` + strings.Repeat(`1, `, 500) + `1].all(x, !(host.zone + "` + strings.Repeat("a", 100) + `").contains("` + strings.Repeat("b", 100) + `")) && true`

// If an expression costs too much over the hosts of a cell, the error names the caller's
// field, and the cell is not to blame.
func TestAnExpressionThatCostsTooMuch(t *testing.T) {
	var hosts []schedule.Host
	for n := range 600 {
		hosts = append(hosts, testHost(n, 8))
	}
	w := start(t, []*testCell{newCell(1, hosts...)}, func(c *Config) {
		hintsAllowed(c)
		c.ProposeBudget, c.MaxDeadline = testwait.Limit, testwait.Limit
	})
	hinted := novaAsk(t, 1, func(spec, _ map[string]any) {
		spec["scheduler_hints"] = map[string]any{"cellgate:filter": []any{costly}}
	})
	const path = `nova_request_spec.scheduler_hints["cellgate:filter"]`
	e := w.refused(hinted, fault.InvalidRequest)
	if len(e.Fields) != 1 || e.Fields[0].Path != path || !strings.Contains(e.Fields[0].Problem, "costs more than 1000000 of CEL's steps") {
		t.Errorf("%v, want %s", e.Fields, path)
	}
	typed := ask(1, 1)
	typed.GetRequestSpec().FilterExpression = `host.free.VCPU > 0`
	w.choose(typed)
}

// A request is placed, in whichever cell, on hosts where its expression holds. The expression comes as a field of the
// typed form, as a hint there, or as a hint of Nova's form.
func TestHostsPassTheRequestsExpression(t *testing.T) {
	const text = `facts.cinder.free_gb > 500 && host.free.VCPU >= request.resources.VCPU`
	hint := func(spec, _ map[string]any) {
		spec["scheduler_hints"] = map[string]any{"cellgate:filter": []any{text}}
	}
	typed, hinted := ask(1, 2), ask(1, 2)
	typed.GetRequestSpec().FilterExpression = text
	hinted.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"cellgate:filter": {Values: []string{text}}}
	for name, r := range map[string]*cellgatev1.SelectDestinationsRequest{"typed": typed, "hint": hinted, "Nova's form": novaAsk(t, 2, hint)} {
		w := start(t, storedCells(), hintsAllowed)
		got := w.choose(r)
		for i, d := range got.GetDestinations() {
			if h := d.GetSelected().GetServiceHost(); h != "host003" && h != "host004" {
				t.Errorf("%s: instance %d is on %s", name, i, h)
			}
		}
		if slices.ContainsFunc(got.GetIgnoredFields(), func(f string) bool { return strings.Contains(f, "cellgate:filter") }) {
			t.Errorf("%s: ignored are %v", name, got.GetIgnoredFields())
		}
	}
}

// A request's own weight decides among the hosts that pass, over all cells as in one. It comes as a field of the typed
// form with its multiplier, or as a hint.
func TestHostsAreWeighedByTheRequestsExpression(t *testing.T) {
	const text = `facts.cinder.free_gb`
	typed := func(multiplier float64) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, 1)
		r.GetRequestSpec().FilterExpression, r.GetRequestSpec().WeighExpression = `has(facts.cinder)`, text
		r.GetRequestSpec().WeighMultiplier = &multiplier
		return r
	}
	hinted := novaAsk(t, 1, func(spec, _ map[string]any) {
		spec["scheduler_hints"] = map[string]any{"cellgate:filter": []any{`has(facts.cinder)`}, "cellgate:weigh": []any{"1000.0 * " + text}}
	})
	for _, c := range []struct {
		request *cellgatev1.SelectDestinationsRequest
		want    string
	}{{typed(1000), "host004"}, {typed(-1000), "host002"}, {hinted, "host004"}} {
		w := start(t, storedCells(), func(c *Config) {
			c.HintExpressions = true
			c.Weighers = []rules.WeigherConfig{{Name: schedule.RAMWeigher, Multiplier: 0.001}}
		})
		got := w.choose(c.request)
		if h := got.GetDestinations()[0].GetSelected().GetServiceHost(); h != c.want || !got.GetExact() {
			t.Errorf("chosen is %s, exact %v; want %s", h, got.GetExact(), c.want)
		}
	}
}

// The refusal says how many hosts the expression leaves out, and why. Hosts that the request forces
// must pass the expression, too.
func TestRejectedByTheExpression(t *testing.T) {
	w := start(t, storedCells(), nil)
	r := ask(1, 1)
	r.GetRequestSpec().FilterExpression = `facts.cinder.free_gb > 1000`
	e := w.refused(r, fault.NoValidHost)
	for _, want := range []string{"ExpressionFilter", "ExpressionFilter(missing: cinder)"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("%v says nothing of %s", e, want)
		}
	}
	r = ask(2, 1)
	r.GetRequestSpec().FilterExpression, r.GetRequestSpec().ForceHosts = `facts.cinder.free_gb > 500`, []string{"host002"}
	w.refused(r, fault.NoValidHost)
}

// The error for a bad expression has its field and its position, and no cell is asked.
func TestBadExpressionsAreNamed(t *testing.T) {
	cells := storedCells()
	w := start(t, cells, hintsAllowed)
	for _, c := range cells {
		c.hook(func(_ context.Context, method string, _ any) error {
			if method == "ProposeBatch" {
				t.Error("a cell was asked")
			}
			return nil
		}, nil)
	}
	hint := func(values ...any) *cellgatev1.SelectDestinationsRequest {
		return novaAsk(t, 1, func(spec, _ map[string]any) {
			spec["scheduler_hints"] = map[string]any{"cellgate:filter": values}
		})
	}
	typed := func(text string, hints ...string) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, 1)
		r.GetRequestSpec().FilterExpression = text
		if len(hints) > 0 {
			r.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"cellgate:filter": {Values: hints}}
		}
		return r
	}
	const field, hinted = "request_spec.filter_expression", `request_spec.scheduler_hints["cellgate:filter"]`
	weighing := func(text string) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, 1)
		r.GetRequestSpec().WeighExpression = text
		return r
	}
	lone := ask(1, 1)
	lone.GetRequestSpec().WeighMultiplier = new(2.0)
	for _, c := range []struct {
		request     *cellgatev1.SelectDestinationsRequest
		path, wants string
	}{
		{weighing(`host.zone`), "request_spec.weigh_expression", "must be a number, is string"},
		{weighing(`host.free.VCPU >`), "request_spec.weigh_expression", "line 1, column 17: Syntax error"},
		{lone, "request_spec.weigh_multiplier", "is set without weigh_expression"},
		{typed(`host.free.VCPU >`), field, "line 1, column 17: Syntax error"},
		{typed(`host.rack == "r1"`), field, "undeclared reference"},
		{typed(strings.Repeat("x", 3000)), field, "2048"},
		{typed(`true`, `false`), hinted, "is another expression"},
		{typed(``, `true`, `false`), hinted, "must be one expression, is 2"},
		{typed(``, ``), hinted, "must not be empty"},
		{hint(`1 + 1`), "nova_" + hinted, "must be a bool, is int"},
		{hint(strings.Repeat("x", 3000)), "nova_" + hinted, "at most 2048"},
	} {
		e := w.refused(c.request, fault.InvalidRequest)
		if len(e.Fields) != 1 || e.Fields[0].Path != c.path || !strings.Contains(e.Fields[0].Problem, c.wants) {
			t.Errorf("%v, want %s: %s", e.Fields, c.path, c.wants)
		}
	}
}

func TestAMultiplierIsBounded(t *testing.T) {
	w := start(t, storedCells(), nil)
	rec := w.send("POST", "/v1/select_destinations", `{"instance_uuids": ["11111111-1111-4111-8111-111111111111"],
		"request_spec": {"flavor": {"vcpus": 1, "memory_mb": 1}, "weigh_expression": "1.0", "weigh_multiplier": 1e7}}`)
	if rec.Code != 400 || !strings.Contains(rec.Body.String(), "request_spec.weigh_multiplier") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
