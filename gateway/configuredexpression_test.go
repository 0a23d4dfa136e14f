package gateway

import (
	"math"
	"strings"
	"testing"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/legacy/gatewatch"
	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// The hosts of every request, in either form, must pass the configured expression as well as the request's own. A
// refusal names the two as different filters.
func TestTheConfiguredExpressionMustHoldToo(t *testing.T) {
	anew := func() *world {
		return start(t, storedCells(), func(c *Config) { c.FilterExpression = `facts.cinder.free_gb > 500` })
	}
	own := func(text string) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, 1)
		r.GetRequestSpec().FilterExpression = text
		return r
	}
	as := func(_, _ map[string]any) {}
	for name, c := range map[string]struct {
		request *cellgatev1.SelectDestinationsRequest
		want    string
	}{
		"typed": {ask(1, 1), "host003 host004"}, "Nova's form": {novaAsk(t, 1, as), "host003 host004"},
		"with its own": {own(`facts.cinder.free_gb < 850`), "host003"},
	} {
		got := anew().choose(c.request)
		if h := got.GetDestinations()[0].GetSelected().GetServiceHost(); !strings.Contains(c.want, h) || !got.GetExact() {
			t.Errorf("%s: chosen is %s, exact %v; want %s", name, h, got.GetExact(), c.want)
		}
	}
	e := anew().refused(own(`facts.cinder.free_gb < 500`), fault.NoValidHost)
	for _, want := range []string{"1 does not pass ConfiguredExpressionFilter(missing: cinder)", "1 does not pass ConfiguredExpressionFilter,", "2 do not pass ExpressionFilter"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("%v does not say %s", e, want)
		}
	}
}

// Hosts that a request forces skip the configured expression, like every configured filter.
func TestForcedHostsSkipTheConfiguredExpression(t *testing.T) {
	w := start(t, storedCells(), func(c *Config) { c.FilterExpression = `facts.cinder.free_gb > 500` })
	r := ask(1, 1)
	r.GetRequestSpec().ForceHosts = []string{"host001"}
	if h := w.choose(r).GetDestinations()[0].GetSelected().GetServiceHost(); h != "host001" {
		t.Errorf("chosen is %s", h)
	}
}

// The configured weight is added to the request's own, each with its multiplier. A strategy replaces the configured
// weight, like the configured weighers.
func TestTheConfiguredWeightAdds(t *testing.T) {
	const free = `has(facts.cinder) ? facts.cinder.free_gb : 0.0`
	own := func(multiplier float64, strategy string) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, 1)
		spec := r.GetRequestSpec()
		spec.FilterExpression, spec.Strategy = `has(facts.cinder)`, strategy
		if multiplier != 0 {
			spec.WeighExpression, spec.WeighMultiplier = `-1.0 * facts.cinder.free_gb`, &multiplier
		}
		return r
	}
	for _, c := range []struct {
		name       string
		configured float64
		request    *cellgatev1.SelectDestinationsRequest
		want       string
	}{
		{"alone", 10, own(0, ""), "host004"},
		{"below 0", -10, own(0, ""), "host002"},
		{"of no weight", 0, own(1, ""), "host002"},
		{"the request's weighs more", 10, own(20, ""), "host002"},
		{"and less", 10, own(5, ""), "host004"},
		{"a strategy", 1e6, own(0, "spread"), "host002"},
	} {
		w := start(t, storedCells(), func(cfg *Config) {
			cfg.WeighExpression, cfg.WeighMultiplier = free, c.configured
			cfg.Weighers = []rules.WeigherConfig{{Name: schedule.RAMWeigher, Multiplier: 0.001}}
		})
		got := w.choose(c.request)
		if h := got.GetDestinations()[0].GetSelected().GetServiceHost(); h != c.want || !got.GetExact() {
			t.Errorf("%s: chosen is %s, exact %v; want %s", c.name, h, got.GetExact(), c.want)
		}
	}
}

// If a configured expression costs too much, the refusal names its configuration key, beside the fields of the request.
func TestAConfiguredExpressionThatCostsTooMuch(t *testing.T) {
	var hosts []schedule.Host
	for n := range 600 {
		hosts = append(hosts, testHost(n, 8))
	}
	w := start(t, []*testCell{newCell(1, hosts...)}, func(c *Config) {
		c.FilterExpression, c.WeighExpression = costly, `host.free.VCPU`
		c.ProposeBudget, c.MaxDeadline = testwait.Limit, testwait.Limit
	})
	r := ask(1, 1)
	r.GetRequestSpec().FilterExpression = `true`
	e := w.refused(r, fault.InvalidRequest)
	var paths []string
	for _, f := range e.Fields {
		paths = append(paths, f.Path)
	}
	if got := strings.Join(paths, " "); got != "request_spec.filter_expression gateway.filter_expression gateway.weigh_expression" || !strings.Contains(e.Message, "costs more than") {
		t.Errorf("%v of %s", e, got)
	}
}

func TestBadConfiguredExpressionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		legacy map[string]gatewatch.Parts
		want   string
	}{
		{func(c *Config) { c.FilterExpression = `host.free.VCPU >` }, nil, "filter_expression: line 1, column 17: Syntax error"},
		{func(c *Config) { c.FilterExpression = `1 + 1` }, nil, "filter_expression: must be a bool, is int"},
		{func(c *Config) { c.FilterExpression = ` ` }, nil, "filter_expression: must not be empty"},
		{func(c *Config) { c.WeighExpression = `host.zone` }, nil, "weigh_expression: must be a number, is string"},
		{func(c *Config) { c.WeighMultiplier = 2e6 }, nil, "weigh_multiplier: is not between"},
		{func(c *Config) { c.WeighMultiplier = math.NaN() }, nil, "weigh_multiplier: is not between"},
		{func(c *Config) { c.FilterExpression = `!has(facts.cinder)` }, map[string]gatewatch.Parts{"cell1": {}}, "filter_expression: reads facts, which the tables of cells in gateway.legacy do not have"},
	} {
		cfg := Config{Cells: []cellclient.CellConfig{{Name: "cell1", Replicas: []string{"a"}}}}
		c.change(&cfg)
		if _, err := New(cfg, Deps{Dial: lazy, Legacy: c.legacy}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
