package expression

import (
	"errors"
	"testing"

	"cellgate/schedule"
)

// Any text is refused with its problem, or compiles to a program that always gives a host the same
// answer: the host passes, or is rejected under one detail.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		`host.free.VCPU >= 4`, `facts.cinder.free_gb > 100 && facts.cinder.ssd`, `has(facts.power.watts) && facts.power.watts < 20`,
		`facts.cinder.pools.exists(p, p.gb > 500)`, `"T1" in host.traits`, `request.flavor.name.startsWith("m1")`, `host.service_host.matches("^s[0-9]$")`,
		`1 / 0 == 1`, `[[[1]]] == facts`, `host.`, `"\x00" == ''`, `facts["cinder"]["pools"][9].gb == 1`, `{"a": 1}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Compile(text)
		if err != nil {
			var problem *Problem
			if !errors.As(err, &problem) || problem.Error() == "" {
				t.Fatalf("%q: %T %v", text, err, err)
			}
			return
		}
		first := answerOf(t, p)
		if again := answerOf(t, p); again != first {
			t.Errorf("%q: %q, then %q", text, first, again)
		}
	})
}

// answerOf returns "passes", or the detail under which the host is rejected.
func answerOf(t *testing.T, p *Program) string {
	t.Helper()
	e := schedule.NewTable().Edit()
	e.PutHost(aHost())
	found, err := e.Table().Propose(&schedule.Query{
		Request: &schedule.Request{Expression: p}, Limit: 1,
		Rules: &schedule.Rules{Filters: []string{schedule.ExpressionFilter}, Weighers: []schedule.Weigher{}},
	})
	switch {
	case err != nil:
		t.Fatal(err)
	case found.Passed == 1:
		return "passes"
	case len(found.Rejects) != 1:
		t.Fatalf("rejects %v", found.Rejects)
	}
	return "rejected: " + found.Rejects[0].Detail
}
