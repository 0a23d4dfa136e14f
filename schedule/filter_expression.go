package schedule

import (
	"encoding/json"
	"errors"
	"math/bits"
	"sync"
)

// ExpressionFilter applies the request's Expression to the hosts that passed all other filters. The sender of such a
// request names the filter in the rules, so that a table that does not know it refuses the query.
const ExpressionFilter = "ExpressionFilter"

// ConfiguredExpressionFilter applies the Expression of the rules, before ExpressionFilter.
const ConfiguredExpressionFilter = "ConfiguredExpressionFilter"

// Expression is a condition on hosts from a request or from the rules. It is pure and safe for concurrent use: the
// result depends on the host alone.
type Expression interface {
	// Text is the source of the expression: equal texts are equal conditions.
	Text() string
	// Details are the reject details that Ask can give by index, each once.
	Details() []string
	// Ask gives the index of the detail under which the host is rejected, or -1 if it passes. cost is the cost of the
	// call, at least 1, in the unit of ExpressionBudget.
	Ask(r *Request, h HostFacts) (why, cost int)
	// ReadsFacts reports whether the result depends on Namespaces too.
	ReadsFacts() bool
}

// ExpressionBudget is the total cost that the Expressions of a query may have. Beyond it the query ends with
// ErrCostly. Results that a FilterCache keeps cost nothing.
const ExpressionBudget = 1_000_000

// ErrCostly is the error of a query whose Expressions exceed ExpressionBudget.
var ErrCostly = errors.New("the expression costs more over the hosts than a query may")

// HostFacts is a host as an Expression sees it, valid only during the call.
type HostFacts struct{ row *row }

// Host is the host as it was put; do not change it. Its amounts used and its View are out of date: see Used and View.
func (h HostFacts) Host() *Host { return h.row.host }

// Used is the amount used of each of the Host's Resources.
func (h HostFacts) Used() []int64 { return h.row.used }

func (h HostFacts) View() *View { return &h.row.view }

// Zone is the host's first zone by name; empty for none.
func (h HostFacts) Zone() string { return h.row.zone }

// Namespaces are the facts that services, and the host itself, report of a host: JSON by namespace. They are parsed
// at the first use, and immutable.
type Namespaces struct {
	texts map[string]string
	once  sync.Once
	read  map[string]any
}

// NewNamespaces keeps JSON texts, which must not change; nil for no texts.
func NewNamespaces(texts map[string]string) *Namespaces {
	if len(texts) == 0 {
		return nil
	}
	return &Namespaces{texts: texts}
}

// Values are the namespaces as encoding/json parses them: numbers are float64. A text that is not JSON is left out.
// Do not change them.
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

// expressionFilter makes one check for each detail of an Expression. The first one evaluates it; the others report
// its results for the same chunk.
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
