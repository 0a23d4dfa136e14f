package standin

import (
	"strings"
	"testing"

	"cellgate/internal/expression"
	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	"cellgate/schedule"
)

// Rows tell what a host has, so that an expression over hosts is asked; what services
// say of hosts they do not, so that one over facts is refused, and no host is rejected
// for facts that it may have.
func TestExpressionsOverRows(t *testing.T) {
	w := newWorld(t, 3)
	w.update()
	asked := func(text string) *schedule.Query {
		p, err := expression.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		q := plain(1)
		q.Request.Expression = p
		q.Rules.Filters = append(schedule.DefaultFilters(), schedule.ExpressionFilter)
		return q
	}
	if p := w.ask(asked(`host.used.VCPU == 0.0 && host.free.VCPU >= request.resources.VCPU`)); p.Passed != 3 {
		t.Errorf("%d of 3 hosts pass: %v", p.Passed, p.Rejects)
	}
	if p := w.ask(asked(`host.used.VCPU > 0`)); p.Passed != 0 {
		t.Errorf("%d hosts pass", p.Passed)
	}
	configured := plain(1)
	p, err := expression.CompileWeight(`facts.cinder.free_gb`)
	if err != nil {
		t.Fatal(err)
	}
	configured.Rules.Weigh, configured.Rules.Weighers = p, []schedule.Weigher{{Name: schedule.ConfiguredExpressionWeigher, Multiplier: 1}}
	if f := w.raw(wiretest.Query(configured, "", nil)).GetFailure(); f.GetReason() != string(fault.CellUnavailable) || !strings.Contains(f.GetMessage(), "gateway.weigh_expression") {
		t.Errorf("by the configuration, over facts: %v", f)
	}
	f := w.raw(wiretest.Query(asked(`!has(facts.cinder)`), "", nil)).GetFailure()
	if f.GetReason() != string(fault.CellUnavailable) || !strings.Contains(f.GetMessage(), "filter_expression") {
		t.Errorf("over facts: %v", f)
	}
}
