package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const strategyHintField = `scheduler_hints["cellgate:strategy"]`

// A hint names the strategy, in Nova's form and in the typed one, which has a field for
// it as well; where both do, they must agree.
func TestHintsNameTheStrategy(t *testing.T) {
	cells := func() []*testCell {
		return []*testCell{newCell(1, testHost(1, 8), testHost(2, 4)), newCell(2, testHost(3, 1), testHost(4, 2))}
	}
	hinted := func(hints ...string) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, 1)
		r.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"cellgate:strategy": {Values: hints}}
		return r
	}
	both := func(field, hint string) *cellgatev1.SelectDestinationsRequest {
		r := hinted(hint)
		r.GetRequestSpec().Strategy = field
		return r
	}
	novas := func(strategy string) *cellgatev1.SelectDestinationsRequest {
		return novaAsk(t, 1, func(spec, _ map[string]any) {
			spec["scheduler_hints"] = map[string]any{"cellgate:strategy": []any{strategy}}
		})
	}
	for name, c := range map[string]struct {
		r    *cellgatev1.SelectDestinationsRequest
		want string
	}{
		"hint, pack":          {hinted("pack"), "host003"},
		"hint, spread":        {hinted("spread"), "host001"},
		"both, pack":          {both("pack", "pack"), "host003"},
		"Nova's form, pack":   {novas("pack"), "host003"},
		"Nova's form, spread": {novas("spread"), "host001"},
	} {
		got := start(t, cells(), nil).choose(c.r)
		if h := got.GetDestinations()[0].GetSelected().GetServiceHost(); h != c.want {
			t.Errorf("%s: placed on %s, want %s", name, h, c.want)
		}
		if slices.ContainsFunc(got.GetIgnoredFields(), func(f string) bool { return strings.Contains(f, "strategy") }) {
			t.Errorf("%s: ignored are %v", name, got.GetIgnoredFields())
		}
	}
	w := start(t, cells(), nil)
	for problem, r := range map[string]*cellgatev1.SelectDestinationsRequest{
		"request_spec." + strategyHintField + ": must be one of balanced, nova, pack, spread":      hinted("stack"),
		"request_spec." + strategyHintField + ": must be one strategy, is 2":                       hinted("pack", "pack"),
		"request_spec." + strategyHintField + ": is another strategy than request_spec.strategy":   both("pack", "spread"),
		"nova_request_spec." + strategyHintField + ": must be one of balanced, nova, pack, spread": novas(""),
	} {
		if e := w.refused(r, fault.InvalidRequest); !strings.Contains(fmt.Sprint(e, e.Fields), strings.SplitN(problem, ": ", 2)[1]) {
			t.Errorf("%v %v, want %s", e, e.Fields, problem)
		}
	}
}
