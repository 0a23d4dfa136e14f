package expression

import (
	"cel.dev/cel-go/common/types"

	"cellgate/schedule"
)

// Weight is a compiled text that computes a host's raw weight. It is a schedule.WeighExpression.
type Weight struct{ Program }

var _ schedule.WeighExpression = (*Weight)(nil)

// CompileWeight is Compile for a text that results in a number.
func CompileWeight(text string) (*Weight, error) {
	p, err := compile(text, "a number", types.DoubleKind, types.IntKind, types.UintKind)
	if err != nil {
		return nil, err
	}
	return &Weight{*p}, nil
}

// Weigh returns ok = false if the text has no answer, or if the answer is no number.
func (w *Weight) Weigh(r *schedule.Request, h schedule.HostFacts) (raw float64, cost int, ok bool) {
	answer, cost, err := w.eval(r, h)
	if err != nil {
		return 0, cost, false
	}
	switch x := answer.(type) {
	case types.Double:
		return float64(x), cost, true
	case types.Int:
		return float64(x), cost, true
	case types.Uint:
		return float64(x), cost, true
	}
	return 0, cost, false
}
