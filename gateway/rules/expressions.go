package rules

import (
	"errors"
	"math"

	"cellgate/internal/expression"
	"cellgate/internal/fault"
	"cellgate/schedule"
)

const (
	FilterKey = "filter_expression"
	WeighKey  = "weigh_expression"
	// maxMultiplier bounds weigh_multiplier, as the schema bounds a request's.
	maxMultiplier = 1e6
)

// configuredExpressions are the configuration's expressions, compiled; nil for none.
type configuredExpressions struct {
	filter     *expression.Program
	weigh      *expression.Weight
	multiplier float64
}

// configuredIn compiles the expressions of a configuration.
func configuredIn(cfg Config) (configuredExpressions, error) {
	c := configuredExpressions{multiplier: cfg.WeighMultiplier}
	var err error
	if cfg.FilterExpression != "" {
		if c.filter, err = expression.Compile(cfg.FilterExpression); err != nil {
			return c, fault.Invalid(FilterKey, "%v", err)
		}
	}
	if cfg.WeighExpression != "" {
		if c.weigh, err = expression.CompileWeight(cfg.WeighExpression); err != nil {
			return c, fault.Invalid(WeighKey, "%v", err)
		}
	}
	return c, nil
}

// CheckExpressions reports the problems of a configuration's expressions, by key. legacy:
// there are cells under upgrade, whose rows have no facts.
func CheckExpressions(filter, weigh string, multiplier float64, legacy bool) []fault.Field {
	var bad []fault.Field
	problem := func(key string, err error, reads bool) {
		var field *fault.Error
		switch {
		case errors.As(err, &field):
			bad = append(bad, field.Fields...)
		case reads && legacy:
			bad = append(bad, fault.Field{Path: key, Problem: "reads facts, which the tables of cells in gateway.legacy do not have: such a cell would answer no request"})
		}
	}
	f, err := configuredIn(Config{FilterExpression: filter})
	problem(FilterKey, err, f.filter != nil && f.filter.ReadsFacts())
	w, err := configuredIn(Config{WeighExpression: weigh})
	problem(WeighKey, err, w.weigh != nil && w.weigh.ReadsFacts())
	if !(math.Abs(multiplier) <= maxMultiplier) {
		bad = append(bad, fault.Field{Path: "weigh_multiplier", Problem: "is not between -1000000 and 1000000"})
	}
	return bad
}

// in adds the configured expressions to rules. A strategy replaces the configured weight, as
// it replaces the configured weighers.
func (c configuredExpressions) in(rules *schedule.Rules, strategy string) *schedule.Rules {
	if c.filter != nil {
		rules.Expression = c.filter
	}
	if _, replaced := schedule.Strategy(strategy); c.weigh != nil && !replaced {
		rules.Weigh = c.weigh
		rules.Weighers = append(rules.Weighers, schedule.Weigher{Name: schedule.ConfiguredExpressionWeigher, Multiplier: c.multiplier})
	}
	return rules
}
