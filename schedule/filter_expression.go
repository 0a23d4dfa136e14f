package schedule

import (
	"encoding/json"
	"errors"
	"math/bits"
	"sync"
)

// ExpressionFilter asks the hosts that passed all other filters the request's
// Expression. Whoever sends a request with one names the filter in the rules, so that
// a table that knows of none refuses it.
const ExpressionFilter = "ExpressionFilter"

// ConfiguredExpressionFilter asks the Expression of the rules, before ExpressionFilter.
const ConfiguredExpressionFilter = "ConfiguredExpressionFilter"

// Expression is a question about a host that the request brings, or the rules. It is pure and safe
// for concurrent use: a host's answer follows from the host alone.
type Expression interface {
	// Text is what it was made of: equal texts are equal questions.
	Text() string
	// Details are the reject counts' details that Ask speaks of, each once.
	Details() []string
	// Ask gives the index of the detail that the host is rejected under, -1: it passes; and
	// what it cost, at least 1, in what ExpressionBudget is in.
	Ask(r *Request, h HostFacts) (why, cost int)
	// ReadsFacts reports whether the answer follows from Namespaces too.
	ReadsFacts() bool
}

// ExpressionBudget is what the Expressions of a query may cost together: beyond it the query ends
// with ErrCostly. What is not asked again, since it is known (FilterCache), costs nothing.
const ExpressionBudget = 1_000_000

// ErrCostly is the error of a query whose Expressions cost more.
var ErrCostly = errors.New("the expression costs more over the hosts than a query may")

// HostFacts are a host as an Expression sees it. Valid during the call alone.
type HostFacts struct{ row *row }

// Host is as it was put, and never to be changed. Its amounts used and its View are
// those of Used and View.
func (h HostFacts) Host() *Host { return h.row.host }

// Used is what is used of each of the Host's Resources.
func (h HostFacts) Used() []int64 { return h.row.used }

func (h HostFacts) View() *View { return &h.row.view }

// Zone is the host's first zone by name; empty for none.
func (h HostFacts) Zone() string { return h.row.zone }

// Namespaces are what services, and the host itself, say of a host: JSON by
// namespace. They are read when somebody first asks for them, and immutable.
type Namespaces struct {
	texts map[string]string
	once  sync.Once
	read  map[string]any
}

// NewNamespaces keeps texts of JSON, which must not change; nil for none.
func NewNamespaces(texts map[string]string) *Namespaces {
	if len(texts) == 0 {
		return nil
	}
	return &Namespaces{texts: texts}
}

// Values are the namespaces as encoding/json reads them: numbers are float64. A text
// that is no JSON is left out. Never to be changed.
func (n *Namespaces) Values() map[string]any {
	if n == nil {
		return nil
	}
	n.once.Do(func() {
		n.read = make(map[string]any, len(n.texts))
		for name, text := range n.texts {
			var v any
			if json.Unmarshal([]byte(text), &v) == nil {
				n.read[name] = v
			}
		}
	})
	return n.read
}

// expressionFilter makes a check of the filter for each detail of an Expression. The first
// asks, and the others say what it found about the same chunk.
func (s *scan) expressionFilter(filter string, x Expression) {
	r := s.q.Request
	details := x.Details()
	rejected := make([]uint64, len(details))
	for at, detail := range details {
		s.check(filter, detail, func(_ int, c *chunk, m uint64) uint64 {
			if at == 0 {
				clear(rejected)
				for ; m != 0 && s.spent <= ExpressionBudget; m &= m - 1 {
					why, cost := x.Ask(r, HostFacts{c.rows.v[bits.TrailingZeros64(m)]})
					if s.spent += cost; why >= 0 {
						rejected[why] |= m & -m
					}
				}
			}
			return ^rejected[at]
		})
	}
}
