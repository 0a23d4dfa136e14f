package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// testExpression passes hosts whose fact rank.of is at least least, when no more than
// used are used of their first class.
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

// naive is Ask, of the host as the oracle has it.
func (x testExpression) naive(h *Host) (string, bool) {
	switch {
	case h.Namespaces == nil:
		return "no rank", false
	case h.Namespaces.texts["rank"] < fmt.Sprintf(`{"of": %v}`, x.least): // One digit each.
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

// A query that costs more than its budget ends so, in whichever way it is answered;
// what is known already costs nothing.
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
	large := put(table, 140, 200)
	k := NewStanding(q.Request, q.Rules)
	for round := range 3 {
		if p, err := table.Propose(q); err != nil || p.Passed != 140 {
			t.Errorf("within the budget: %+v, %v", p, err)
		}
		if p, err := large.Propose(q); !errors.Is(err, ErrCostly) {
			t.Errorf("beyond it: %+v, %v", p, err)
		}
		// Twelve hosts are in the chunk that is another each time.
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

// randomExpression gives a request an expression, and the rules its filter, last.
func randomExpression(rng *rand.Rand, r *Request, rules *Rules) {
	randomWeigh(rng, r, rules)
	if rng.IntN(2) == 0 {
		return
	}
	r.Expression = testExpression{least: float64(rng.IntN(5)), used: 2 + rng.Int64N(8)}
	if rules.Filters == nil {
		rules.Filters = DefaultFilters()
	}
	rules.Filters = append(slices.DeleteFunc(slices.Clone(rules.Filters), func(f string) bool { return f == ExpressionFilter }), ExpressionFilter)
}
