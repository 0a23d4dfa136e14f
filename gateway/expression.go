package gateway

import (
	"errors"
	"slices"

	"cellgate/internal/expression"
	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// setExpression compiles the expression of a request, which its form or its hint has;
// path is the form's. The hint is taken out of the request. On a rebuild it is ignored:
// the instance stays where it is.
func (s *selecting) setExpression(r *schedule.Request, text, path string) error {
	field := path + ".filter_expression"
	if n := r.Nova; n != nil {
		at := slices.IndexFunc(n.Hints, func(h schedule.Hint) bool { return h.Name == nova.ExpressionHint })
		if at >= 0 {
			hinted := n.Hints[at].Values
			n.Hints = slices.Delete(n.Hints, at, at+1)
			hint := path + `.scheduler_hints["` + nova.ExpressionHint + `"]`
			switch {
			case !s.g.cfg.HintExpressions:
				return fault.Invalid(hint, "expressions in hints are not allowed here (gateway.hint_expressions): a server's owner writes them")
			case len(hinted) != 1:
				return fault.Invalid(hint, "must be one expression, is %d", len(hinted))
			case text != "" && text != hinted[0]:
				return fault.Invalid(hint, "is another expression than filter_expression")
			case text == "":
				field, text = hint, hinted[0]
				if text == "" {
					return fault.Invalid(field, "must not be empty")
				}
			}
		}
	}
	if text == "" {
		return nil
	}
	made, err := s.g.expressions.Compile(text)
	var problem *expression.Problem
	switch {
	case errors.As(err, &problem):
		return fault.Invalid(field, "%s", problem)
	case err != nil:
		return fault.Wrap(fault.Internal, err, "an expression could not be compiled")
	}
	if s.rebuilds() {
		s.ignored = append(s.ignored, field)
		return nil
	}
	r.Expression, s.expressionField = made, field
	return nil
}

// ownField names what a cell says of the expression by the field that the caller set.
func (s *selecting) ownField(err error) error {
	var e *fault.Error
	if s.expressionField == "" || !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Path != "placement.filter_expression" {
		return err
	}
	return fault.Invalid(s.expressionField, "%s", e.Fields[0].Problem)
}
