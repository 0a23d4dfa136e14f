package selection

import (
	"errors"
	"slices"
	"strings"

	"cellgate/gateway/rules"
	"cellgate/internal/expression"
	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// expressionsAsked gives the sources of a request's expressions: its own fields, and keys of
// the configuration.
func (s *selection) expressionsAsked() []string {
	fields := s.expressionFields
	if s.rules.Expression != nil {
		fields = append(fields[:len(fields):len(fields)], "gateway."+rules.FilterKey)
	}
	if s.rules.Weigh != nil {
		fields = append(fields[:len(fields):len(fields)], "gateway."+rules.WeighKey)
	}
	return fields
}

// setExpressions compiles the expressions in a request's form or hints; path is the form's.
// It removes the hints from the request. A rebuild ignores expressions: the instance stays
// where it is.
func (s *selection) setExpressions(r *schedule.Request, path string) error {
	spec := s.req.GetRequestSpec()
	text, field, err := s.expressionOf(r, spec.GetFilterExpression(), path, "filter_expression", nova.ExpressionHint)
	if err != nil {
		return err
	}
	if text != "" {
		made, err := s.svc.expressions.Compile(text)
		if err := compiled(field, err); err != nil {
			return err
		}
		if !s.rebuilds() {
			r.Expression = made
		}
	}
	if text, field, err = s.expressionOf(r, spec.GetWeighExpression(), path, "weigh_expression", nova.WeighHint); err != nil {
		return err
	}
	if text != "" {
		made, err := s.svc.expressions.CompileWeight(text)
		if err := compiled(field, err); err != nil {
			return err
		}
		if !s.rebuilds() {
			r.Weigh = made
		}
	} else if spec != nil && spec.WeighMultiplier != nil {
		return fault.Invalid(path+".weigh_multiplier", "is set without weigh_expression")
	}
	return nil
}

// compiled gives the error of a text that could not be compiled; nil if err is nil.
func compiled(field string, err error) error {
	var problem *expression.Problem
	switch {
	case errors.As(err, &problem):
		return fault.Invalid(field, "%s", problem)
	case err != nil:
		return fault.Wrap(fault.Internal, err, "an expression could not be compiled")
	}
	return nil
}

// expressionOf gives the text of an expression, from the form or a hint, and the field that has it; "" for none.
func (s *selection) expressionOf(r *schedule.Request, text, path, name, hinting string) (_, field string, err error) {
	field = path + "." + name
	if n := r.Nova; n != nil {
		at := slices.IndexFunc(n.Hints, func(h schedule.Hint) bool { return h.Name == hinting })
		if at >= 0 {
			hinted := n.Hints[at].Values
			n.Hints = slices.Delete(n.Hints, at, at+1)
			hint := path + `.scheduler_hints["` + hinting + `"]`
			switch {
			case !s.svc.HintExpressions:
				return "", "", fault.Invalid(hint, "expressions in hints are not allowed here (gateway.hint_expressions): a server's owner writes them")
			case len(hinted) != 1:
				return "", "", fault.Invalid(hint, "must be one expression, is %d", len(hinted))
			case text != "" && text != hinted[0]:
				return "", "", fault.Invalid(hint, "is another expression than %s", name)
			case text == "":
				field, text = hint, hinted[0]
				if text == "" {
					return "", "", fault.Invalid(field, "must not be empty")
				}
			}
		}
	}
	if text == "" {
		return "", "", nil
	}
	s.expressionFields = append(s.expressionFields, field)
	if s.rebuilds() {
		s.ignored = append(s.ignored, field)
	}
	return text, field, nil
}

// weighsBy adds the weigher of the request's expression to the rules.
func (s *selection) weighsBy(rules *schedule.Rules) *schedule.Rules {
	if s.request.Weigh == nil {
		return rules
	}
	multiplier := 1.0
	if spec := s.req.GetRequestSpec(); spec != nil && spec.WeighMultiplier != nil {
		multiplier = spec.GetWeighMultiplier()
	}
	out := *rules
	out.Weighers = append(slices.Clone(rules.Weighers), schedule.Weigher{Name: schedule.ExpressionWeigher, Multiplier: multiplier})
	return &out
}

// ownField rewrites a cell's error about expressions, so that it names the caller's fields
// and the configuration keys that the expressions came from.
func (s *selection) ownField(err error) error {
	var e *fault.Error
	asked := s.expressionsAsked()
	if len(asked) == 0 || !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Path != "placement.expressions" {
		return err
	}
	out := fault.Invalid(asked[0], "%s", e.Fields[0].Problem)
	for _, field := range asked[1:] {
		out.Fields = append(out.Fields, fault.Field{Path: field, Problem: e.Fields[0].Problem})
	}
	out.Message = strings.Join(asked, " and ") + ": " + e.Fields[0].Problem
	return out
}
