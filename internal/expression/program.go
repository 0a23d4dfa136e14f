package expression

import (
	"errors"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"cellgate/schedule"
)

// Details of rejects, besides the empty one for a false expression and those for the keys that the text
// names.
const (
	unanswerable = "no answer"
	tooCostly    = "too costly"
	missing      = "missing"
)

// Program is a compiled text. It is a schedule.Expression.
type Program struct {
	text    string
	program cel.Program
	// details are those of rejects; byKey has the index of the detail for a missing key.
	details []string
	byKey   map[string]int
	facts   bool
}

func (p *Program) Text() string { return p.text }

func (p *Program) Details() []string { return p.details }

func (p *Program) ReadsFacts() bool { return p.facts }

// hostCost is the cost of a host beyond the steps: building the values that are read.
const hostCost = 5

// Ask returns 0, the first detail, if the expression is false for the host, and -1 if it is true.
func (p *Program) Ask(r *schedule.Request, h schedule.HostFacts) (why, cost int) {
	answer, cost, err := p.eval(r, h)
	switch {
	case err != nil:
		return p.why(err), cost
	case answer == types.True:
		return -1, cost
	case answer == types.False:
		return 0, cost
	}
	return p.at(unanswerable), cost
}

// eval returns the answer and its cost.
func (p *Program) eval(r *schedule.Request, h schedule.HostFacts) (answer ref.Val, cost int, err error) {
	answer, spent, err := p.program.Eval(reading{r, h})
	cost = hostCost
	if steps := spent.ActualCost(); steps != nil {
		cost += int(min(*steps, MaxCost))
	}
	return answer, cost, err
}

// why returns the detail for an error.
func (p *Program) why(err error) int {
	var cut interpreter.EvalCancelledError
	if errors.As(err, &cut) {
		return p.at(tooCostly)
	}
	_, key, lacks := strings.Cut(err.Error(), "no such key: ")
	if !lacks {
		return p.at(unanswerable)
	}
	if at, named := p.byKey[key]; named {
		return at
	}
	return p.at(missing)
}

func (p *Program) at(detail string) int {
	for i := range p.details {
		if p.details[i] == detail {
			return i
		}
	}
	return 0
}

// reading provides the variables that an expression reads, and builds no others.
type reading struct {
	request *schedule.Request
	host    schedule.HostFacts
}

func (v reading) ResolveName(name string) (any, bool) {
	found := byName[name]
	if found == nil {
		return nil, false
	}
	return found.of(v.request, v.host), true
}

func (reading) Parent() cel.Activation { return nil }
