package schedule

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// testWeigh weighs a host by its fact rank.of.
type testWeigh struct{ cost int }

func (testWeigh) Text() string     { return "rank.of" }
func (testWeigh) ReadsFacts() bool { return true }

func (x testWeigh) Weigh(_ *Request, h HostFacts) (raw float64, cost int, ok bool) {
	rank, ok := h.Host().Namespaces.Values()["rank"].(map[string]any)
	if !ok {
		return 7, max(1, x.cost), false
	}
	return rank["of"].(float64), max(1, x.cost), true
}

// naive is Weigh, of the host as the oracle has it.
func (testWeigh) naive(h *Host) float64 {
	if h.Namespaces == nil {
		return 0
	}
	text := h.Namespaces.texts["rank"]
	return float64(text[len(text)-2] - '0')
}

// randomWeigh gives a request a weight of its own, and the rules its weigher, last.
func randomWeigh(rng *rand.Rand, r *Request, rules *Rules) {
	if rng.IntN(2) == 0 {
		return
	}
	r.Weigh = testWeigh{}
	rules.Weighers = append(slices.DeleteFunc(slices.Clone(rules.weighers()), func(w Weigher) bool { return w.Name == ExpressionWeigher }),
		Weigher{ExpressionWeigher, oneOf(rng, []float64{1, -2, 0.5, 0})})
}

func rankedHost(n int, of string) Host {
	h := Host{UUID: fleetHost(n), ServiceHost: "host" + strconv.Itoa(n)}
	if of != "" {
		h.Namespaces = NewNamespaces(map[string]string{"rank": `{"of": ` + of + `}`})
	}
	return h
}

func TestHostsAreWeighedByTheRequestsExpression(t *testing.T) {
	e := NewTable().Edit()
	for n, of := range []string{"3", "-1", "", "9", "1e300"} {
		e.PutHost(rankedHost(n, of))
	}
	table := e.Table()
	q := &Query{Request: &Request{Weigh: testWeigh{}}, Rules: &Rules{Filters: []string{}, Weighers: []Weigher{{ExpressionWeigher, 2}}}, Limit: 5}
	p := propose(t, table, q)
	var order []int
	for _, c := range p.Candidates {
		order = append(order, int(slices.Index([]ID{fleetHost(0), fleetHost(1), fleetHost(2), fleetHost(3), fleetHost(4)}, c.Host)))
	}
	if !slices.Equal(order, []int{4, 3, 0, 2, 1}) {
		t.Errorf("the order is %v", order)
	}
	if b := p.Bounds[0]; b.Min != -1 || b.Max != maxRaw {
		t.Errorf("the bounds are %v", b)
	}
	if len(p.Warnings) != 1 || p.Warnings[0] != (Warning{Key: ExpressionWeigher, Hosts: 1, Example: "host2"}) {
		t.Errorf("warned is of %v", p.Warnings)
	}
	if best := p.Candidates[0]; best.Weight != 2 || math.Abs(best.Raw[0]) != maxRaw {
		t.Errorf("the best is %+v", best)
	}
	q.Request = &Request{}
	if _, err := table.Propose(q); err == nil {
		t.Error("a request without an expression is weighed by one")
	}
}

// Weights cost of the same budget, are asked of the hosts that passed alone, and once.
func TestWeightsCostOfTheBudget(t *testing.T) {
	e := NewTable().Edit()
	for n := range 200 {
		h := rankedHost(n, "1")
		h.Disabled = n >= 100
		e.PutHost(h)
	}
	table := e.Table()
	q := &Query{
		Request: &Request{Weigh: testWeigh{cost: ExpressionBudget / 100}},
		Rules:   &Rules{Filters: []string{ComputeFilter}, Weighers: []Weigher{{ExpressionWeigher, 1}}}, Limit: 3,
	}
	k := NewStanding(q.Request, q.Rules)
	for range 3 {
		if p, err := table.Propose(q); err != nil || p.Passed != 100 {
			t.Fatalf("%+v, %v", p, err)
		}
		if p, err := k.Propose(table, q); err != nil || p.Passed != 100 {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	e = table.Edit()
	e.PutHost(rankedHost(150, "1"))
	if p, err := e.Table().Propose(q); !errors.Is(err, ErrCostly) {
		t.Errorf("beyond the budget: %+v, %v", p, err)
	}
}
