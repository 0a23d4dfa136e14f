package schedule

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// testWeigh weighs a host by its fact rank.of; with down, the smallest is best.
type testWeigh struct {
	cost int
	down bool
}

func (testWeigh) Text() string     { return "rank.of" }
func (testWeigh) ReadsFacts() bool { return true }

func (x testWeigh) Weigh(_ *Request, h HostFacts) (raw float64, cost int, ok bool) {
	rank, ok := h.Host().Namespaces.Values()["rank"].(map[string]any)
	if !ok {
		return 7, max(1, x.cost), false
	}
	if x.down {
		return 9 - rank["of"].(float64), max(1, x.cost), true
	}
	return rank["of"].(float64), max(1, x.cost), true
}

// naive is Weigh on the oracle's form of the host.
func (x testWeigh) naive(h *Host) float64 {
	if h.Namespaces == nil {
		return 0
	}
	text := h.Namespaces.texts["rank"]
	of := float64(text[len(text)-2] - '0')
	if x.down {
		return 9 - of
	}
	return of
}

// randomWeigh may give the request and the rules a weight expression each. It then appends the
// expression's weigher.
func randomWeigh(rng *rand.Rand, r *Request, rules *Rules) {
	weighed := func(weigher string) {
		rules.Weighers = append(slices.Clone(rules.weighers()), Weigher{weigher, oneOf(rng, []float64{1, -2, 0.5, 0})})
	}
	if rng.IntN(3) == 0 {
		rules.Weigh = testWeigh{down: rng.IntN(2) == 0}
		weighed(ConfiguredExpressionWeigher)
	}
	if rng.IntN(2) == 0 {
		r.Weigh = testWeigh{}
		weighed(ExpressionWeigher)
	}
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
	q.Rules.Weighers[0].Name = ConfiguredExpressionWeigher
	if _, err := table.Propose(q); err == nil {
		t.Error("rules without an expression weigh by one")
	}
}

// The two weights are normalised separately, and then added.
func TestTheRulesWeightAndTheRequestsAdd(t *testing.T) {
	e := NewTable().Edit()
	for n, of := range []string{"1", "5", "9", ""} {
		e.PutHost(rankedHost(n, of))
	}
	q := &Query{
		Request: &Request{Weigh: testWeigh{}},
		Rules: &Rules{
			Filters: []string{}, Weigh: testWeigh{down: true},
			Weighers: []Weigher{{ConfiguredExpressionWeigher, 1}, {ExpressionWeigher, 3}},
		}, Limit: 4,
	}
	p := propose(t, e.Table(), q)
	got := map[ID]float64{}
	for _, c := range p.Candidates {
		got[c.Host] = c.Weight
	}
	// Raw weights are 8, 4, 0, 0 and 1, 5, 9, 0.
	for n, want := range []float64{1 + 3*(1./9), 0.5 + 3*(5./9), 3, 0} {
		if w := got[fleetHost(n)]; math.Abs(w-want) > 1e-12 {
			t.Errorf("host %d weighs %v, want %v", n, w, want)
		}
	}
	if want := []Warning{{Key: ConfiguredExpressionWeigher, Hosts: 1, Example: "host3"}, {Key: ExpressionWeigher, Hosts: 1, Example: "host3"}}; !slices.Equal(p.Warnings, want) {
		t.Errorf("warned is of %v", p.Warnings)
	}
}

// Weight expressions share the budget of filters. They run once, and only on hosts that passed.
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
	k := NewFilterCache(q.Request, q.Rules)
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
