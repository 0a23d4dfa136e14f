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

// expressionsAsked are where the expressions of a request come from: its own fields, and
// keys of the configuration.
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

// setExpressions compiles the expressions of a request, which its form or its hints have;
// path is the form's. The hints are taken out of the request. On a rebuild they are
// ignored: the instance stays where it is.
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

// compiled is the error of a text that could not be compiled.
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

// expressionOf gives the text of an expression and the field that has it; "" for none.
func (s *selection) expressionOf(r *schedule.Request, text, path, name, hinting string) (_, field string, err error) {
	field = path + "." + name
	if n := r.Nova; n != nil {
		at := slices.IndexFunc(n.Hints, func(h schedule.Hint) bool { return h.Name == hinting })
		if at >= 0 {
			hinted := n.Hints[at].Values
			n.Hints = slices.Delete(n.Hints, at, at+1)
			hint := path + `.scheduler_hints["` + hinting + `"]`
			switch {
			case !s.svc.cfg.HintExpressions:
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

// weighsBy gives the rules with the weigher of the request's expression.
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

// ownField names what a cell says of the expressions by the fields that the caller set, and
// the keys that the configuration has.
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
