package schedule

import (
	"math"
	"math/bits"
)

// ExpressionWeigher weighs the hosts that passed by the request's Weigh, normalised as
// Nova's weighers are. It is a weigher only of requests that have one: whoever sends such
// a request names it in the rules, so that a table that knows of none refuses it.
const ExpressionWeigher = "ExpressionWeigher"

// WeighExpression is a number for a host that the request brings. It is pure and safe for
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

// weighed are the raw weights of a chunk's hosts that passed.
type weighed struct {
	of  *chunk
	col *column
}

// expressionWeigher makes the weigher of the request's Weigh.
func (s *scan) expressionWeigher(i int, multiplier float64) weigher {
	s.weighed = make([]weighed, len(s.t.chunks))
	return weigher{
		multiplier: multiplier, sign: 1, index: i, stored: -1, own: NoBounds(), name: ExpressionWeigher,
		fill: func(at int, _ *chunk) *column { return s.weighed[at].col },
	}
}

// weighHosts asks for the weights of a chunk's hosts that passed, m.
func (s *scan) weighHosts(at int, c *chunk, m uint64) {
	r := s.q.Request
	col := &column{}
	for k := m; k != 0 && s.spent <= ExpressionBudget; k &= k - 1 {
		i := bits.TrailingZeros64(k)
		raw, cost, ok := r.Weigh.Weigh(r, HostFacts{c.rows.v[i]})
		if s.spent += cost; !ok || math.IsNaN(raw) {
			if s.unweighed++; s.unweighed == 1 {
				s.unweighedHost = c.rows.v[i].host.ServiceHost
			}
			raw = 0
		}
		col.v[i] = min(max(raw, -maxRaw), maxRaw)
	}
	col.span(m)
	s.weighed[at] = weighed{c, col}
}
