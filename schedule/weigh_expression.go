package schedule

import (
	"math"
	"math/bits"
	"slices"
)

// ExpressionWeigher weighs the hosts that passed by the request's Weigh, normalized as Nova's weighers are. It exists
// only for requests that have one. The sender names it in the rules, so that a table that does not know it refuses
// the query.
const ExpressionWeigher = "ExpressionWeigher"

// ConfiguredExpressionWeigher does the same with the Weigh of the rules.
const ConfiguredExpressionWeigher = "ConfiguredExpressionWeigher"

// WeighExpression gives a number for a host, from a request or from the rules. It is pure and safe for concurrent
// use: the number depends on the host alone.
type WeighExpression interface {
	// Text is the source of the expression: equal texts give equal numbers.
	Text() string
	// Weigh gives the host's raw weight and the cost of the call, as Expression.Ask does. If ok is false, the host
	// has no weight: it weighs 0, and is counted in a Warning.
	Weigh(r *Request, h HostFacts) (raw float64, cost int, ok bool)
	// ReadsFacts reports whether the number depends on Namespaces too.
	ReadsFacts() bool
}

// maxRaw bounds raw weights, so that their differences are finite.
const maxRaw = 1e100

// expressionWeights are an expression's raw weights of the hosts that passed.
type expressionWeights struct {
	weigher string
	by      WeighExpression
	// columns are by chunk; nil for a chunk without hosts that passed.
	columns []*column
	// lacking counts the hosts without a weight; example is the first of them.
	lacking int
	example string
}

// expressionWeigher sets up the weigher of an expression; false if there is no expression.
func (s *scan) expressionWeigher(i int, named Weigher) bool {
	var by WeighExpression
	switch named.Name {
	case ExpressionWeigher:
		by = s.q.Request.Weigh
	case ConfiguredExpressionWeigher:
		by = s.q.Rules.Weigh
	}
	if by == nil {
		return false
	}
	w := &expressionWeights{weigher: named.Name, by: by, columns: make([]*column, len(s.t.chunks))}
	s.asked = append(s.asked, w)
	s.weighers[i] = weigher{
		multiplier: named.Multiplier, sign: 1, index: i, stored: -1, own: NoBounds(), name: named.Name,
		fill: func(at int, _ *chunk) *column { return w.columns[at] },
	}
	return true
}

// weighHosts evaluates every expression for the hosts m of a chunk, which passed.
func (s *scan) weighHosts(at int, c *chunk, m uint64) {
	r := s.q.Request
	for _, w := range s.asked {
		col := &column{}
		for k := m; k != 0 && s.spent <= ExpressionBudget; k &= k - 1 {
			i := bits.TrailingZeros64(k)
			raw, cost, ok := w.by.Weigh(r, HostFacts{c.rows.v[i]})
			if s.spent += cost; !ok || math.IsNaN(raw) {
				if w.lacking++; w.lacking == 1 {
					w.example = c.rows.v[i].host.ServiceHost
				}
				raw = 0
			}
			col.v[i] = min(max(raw, -maxRaw), maxRaw)
		}
		col.span(m)
		w.columns[at] = col
	}
}

// unweighed reports whether an expression gave some host no weight.
func (s *scan) unweighed() bool {
	return slices.ContainsFunc(s.asked, func(w *expressionWeights) bool { return w.lacking > 0 })
}
