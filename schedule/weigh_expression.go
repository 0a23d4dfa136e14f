package schedule

import (
	"math"
	"math/bits"
	"slices"
)

// ExpressionWeigher weighs the hosts that passed by the request's Weigh, normalised as
// Nova's weighers are. It is a weigher only of requests that have one: whoever sends such
// a request names it in the rules, so that a table that knows of none refuses it.
const ExpressionWeigher = "ExpressionWeigher"

// ConfiguredExpressionWeigher does the same by the Weigh of the rules.
const ConfiguredExpressionWeigher = "ConfiguredExpressionWeigher"

// WeighExpression is a number for a host that the request brings, or the rules. It is pure and safe for
// concurrent use: a host's number follows from the host alone.
type WeighExpression interface {
	// Text is what it was made of: equal texts are equal questions.
	Text() string
	// Weigh gives the host's raw weight, what it cost, as Expression.Ask does, and whether
	// there is one: a host without weighs 0, and is counted in a Warning.
	Weigh(r *Request, h HostFacts) (raw float64, cost int, ok bool)
	// ReadsFacts reports whether the number follows from Namespaces too.
	ReadsFacts() bool
}

// maxRaw bounds raw weights, so that their differences are finite.
const maxRaw = 1e100

// expressionWeights are the raw weights by one expression of the hosts that passed.
type expressionWeights struct {
	weigher string
	by      WeighExpression
	// columns are by chunk; nil for one of which no host passed.
	columns []*column
	// lacking counts the hosts that it gave no weight, of which example is the first.
	lacking int
	example string
}

// expressionWeigher makes the weigher of an expression; false without one.
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

// weighHosts asks every expression for the weights of a chunk's hosts that passed, m.
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
