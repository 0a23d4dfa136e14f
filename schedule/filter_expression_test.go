package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// testExpression passes hosts whose fact rank.of is at least least, and whose first class has at
// most used units in use.
type testExpression struct {
	least float64
	used  int64
	cost  int
}

func (x testExpression) Text() string    { return fmt.Sprint(x.least, x.used) }
func (testExpression) Details() []string { return []string{"low", "no rank", "used"} }
func (testExpression) ReadsFacts() bool  { return true }

func (x testExpression) Ask(_ *Request, h HostFacts) (why, cost int) { return x.ask(h), max(1, x.cost) }

func (x testExpression) ask(h HostFacts) int {
	rank, ok := h.Host().Namespaces.Values()["rank"].(map[string]any)
	switch {
	case !ok:
		return 1
	case rank["of"].(float64) < x.least:
		return 0
	case len(h.Used()) > 0 && h.Used()[0] > x.used:
		return 2
	}
	return -1
}

// naive is Ask on the oracle's form of the host.
func (x testExpression) naive(h *Host) (string, bool) {
	switch {
	case h.Namespaces == nil:
		return "no rank", false
	case h.Namespaces.texts["rank"] < fmt.Sprintf(`{"of": %v}`, x.least): // all numbers have one digit
		return "low", false
	case len(h.Resources) > 0 && h.Resources[0].Used > x.used:
		return "used", false
	}
	return "", true
}

func randomNamespaces(rng *rand.Rand) *Namespaces {
	if rng.IntN(4) == 0 {
		return nil
	}
	return NewNamespaces(map[string]string{"rank": fmt.Sprintf(`{"of": %d}`, rng.IntN(6)), "other": `[]`})
}

// A query whose expressions cost more than the budget fails, both on a table and in a FilterCache.
// Cached results cost nothing.
func TestAQueryHasABudgetForItsExpression(t *testing.T) {
	put := func(table *Table, from, to int) *Table {
		e := table.Edit()
		for n := from; n < to; n++ {
			e.PutHost(Host{UUID: fleetHost(n), Namespaces: NewNamespaces(map[string]string{"rank": `{"of": 5}`})})
		}
		return e.Table()
	}
	table := put(NewTable(), 0, 140)
	q := &Query{
		Request: &Request{Expression: testExpression{cost: ExpressionBudget / 150}},
		Rules:   &Rules{Filters: []string{ExpressionFilter}}, Limit: 1,
	}
	halves := &Query{
		Request: &Request{Expression: testExpression{cost: ExpressionBudget / 300}},
		Rules:   &Rules{Filters: []string{ConfiguredExpressionFilter, ExpressionFilter}, Expression: testExpression{cost: ExpressionBudget / 300}}, Limit: 1,
	}
	large := put(table, 140, 200)
	k := NewFilterCache(q.Request, q.Rules)
	for round := range 3 {
		if p, err := table.Propose(q); err != nil || p.Passed != 140 {
			t.Errorf("within the budget: %+v, %v", p, err)
		}
		if p, err := table.Propose(halves); err != nil || p.Passed != 140 {
			t.Errorf("two within the budget: %+v, %v", p, err)
		}
		if p, err := large.Propose(halves); !errors.Is(err, ErrCostly) {
			t.Errorf("two beyond it: %+v, %v", p, err)
		}
		if p, err := large.Propose(q); !errors.Is(err, ErrCostly) {
			t.Errorf("beyond it: %+v, %v", p, err)
		}
		// The chunk that changes each time has twelve hosts.
		for range 3 {
			table = put(table, 130, 131)
			if p, err := k.Propose(table, q); err != nil || p.Passed != 140 {
				t.Errorf("round %d, with what is known: %+v, %v", round, p, err)
			}
		}
		if p, err := k.Propose(large, q); !errors.Is(err, ErrCostly) {
			t.Errorf("round %d, beyond it: %+v, %v", round, p, err)
		}
	}
}

// randomExpression may give the request and the rules an expression each. It then appends the
// expression's filter.
func randomExpression(rng *rand.Rand, r *Request, rules *Rules) {
	randomWeigh(rng, r, rules)
	random := func() Expression {
		return testExpression{least: float64(rng.IntN(5)), used: 2 + rng.Int64N(8)}
	}
	asked := func(filter string) {
		if rules.Filters == nil {
			rules.Filters = DefaultFilters()
		}
		rules.Filters = append(slices.DeleteFunc(slices.Clone(rules.Filters), func(f string) bool { return f == filter }), filter)
	}
	if rng.IntN(3) == 0 {
		rules.Expression = random()
		asked(ConfiguredExpressionFilter)
	}
	if rng.IntN(2) == 0 {
		r.Expression = random()
		asked(ExpressionFilter)
	}
}

// A host must pass both expressions, and the rejects of each are counted apart. A request that
// forces hosts skips the expression of the rules, as it skips Nova's filters.
func TestTheRulesExpressionAndTheRequestsMustHold(t *testing.T) {
	e := NewTable().Edit()
	for n := range 6 {
		e.PutHost(Host{UUID: fleetHost(n), ServiceHost: fmt.Sprint("h", n), Namespaces: NewNamespaces(map[string]string{"rank": fmt.Sprintf(`{"of": %d}`, n)})})
	}
	e.PutHost(Host{UUID: fleetHost(6), ServiceHost: "h6"})
	table := e.Table()
	q := &Query{
		Request: &Request{Expression: testExpression{least: 4}},
		Rules:   &Rules{Filters: []string{ExpressionFilter, ConfiguredExpressionFilter}, Expression: testExpression{least: 2}}, Limit: 1,
	}
	k := NewFilterCache(q.Request, q.Rules)
	for _, ask := range []func() (*Proposal, error){
		func() (*Proposal, error) { return table.Propose(q) },
		func() (*Proposal, error) { return k.Propose(table, q) },
	} {
		p, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		want := []Reject{
			{Filter: ConfiguredExpressionFilter, Detail: "low", Hosts: 2},
			{Filter: ConfiguredExpressionFilter, Detail: "no rank", Hosts: 1},
			{Filter: ExpressionFilter, Detail: "low", Hosts: 2},
		}
		if p.Passed != 2 || !slices.Equal(p.Rejects, want) {
			t.Errorf("%d passed, rejected are %v", p.Passed, p.Rejects)
		}
	}
	forced := &Query{Request: &Request{ForceHosts: []string{"h1", "h6"}}, Rules: q.Rules, Limit: 2}
	if p := propose(t, table, forced); p.Passed != 2 {
		t.Errorf("%d of 2 forced hosts pass: %v", p.Passed, p.Rejects)
	}
	forced.Request.CheckForced = true
	if p := propose(t, table, forced); p.Passed != 0 {
		t.Errorf("%d hosts pass with their check", p.Passed)
	}
}
