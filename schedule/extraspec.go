package schedule

import (
	"strings"

	"cellgate/internal/python"
)

// operator is a condition on a value as flavors write it: "<in> avx", ">= 5", "s== gold"
// (nova/scheduler/filters/extra_specs_ops.py). It is parsed once for each query.
type operator struct {
	req  string
	op   string // empty: the whole text is compared
	args []string
	// number is args[0] as a number, if it is one.
	number   float64
	isNumber bool
}

// readOperator never fails. If the first word is not an operator, the value must equal the whole text. A comparison
// of numbers without a numeric operand fails later, in match.
func readOperator(req string) operator {
	o := operator{req: req}
	words := python.Fields(req)
	if len(words) == 0 {
		return o
	}
	switch words[0] {
	case "=", "==", "!=", ">=", "<=":
		o.op, o.args = words[0], words[1:]
		if len(o.args) > 0 {
			o.number, o.isNumber = python.Float(o.args[0])
		}
	case "s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<all-in>", "<or>":
		o.op, o.args = words[0], words[1:]
	}
	return o
}

// match reports whether the value meets the condition. "=" means at least. Only the first word after an operator
// counts, except for <all-in>, and for <or>, where every second word is an alternative. Without an operand nothing
// matches.
func (o *operator) match(v string) (bool, *python.Exception) {
	if o.op == "" {
		return v == o.req, nil
	}
	if len(o.args) == 0 {
		if o.op == "<or>" {
			return false, python.NewException("IndexError", "pop from empty list")
		}
		return false, nil
	}
	arg := o.args[0]
	switch o.op {
	case "<or>":
		for i := 0; i < len(o.args); i += 2 {
			if o.args[i] == v {
				return true, nil
			}
		}
		return false, nil
	case "<in>":
		return strings.Contains(v, arg), nil
	case "<all-in>":
		for _, a := range o.args {
			if !strings.Contains(v, a) {
				return false, nil
			}
		}
		return true, nil
	case "s==":
		return v == arg, nil
	case "s!=":
		return v != arg, nil
	case "s<":
		return v < arg, nil
	case "s<=":
		return v <= arg, nil
	case "s>":
		return v > arg, nil
	case "s>=":
		return v >= arg, nil
	}
	return o.compare(v)
}

func (o *operator) compare(v string) (bool, *python.Exception) {
	n, ok := python.Float(v)
	if !ok {
		return false, python.NotAFloat(v)
	}
	if !o.isNumber {
		return false, python.NotAFloat(o.args[0])
	}
	return o.holds(n), nil
}

// holds compares n with the operand, which must be a number.
func (o *operator) holds(n float64) bool {
	switch o.op {
	case "==":
		return n == o.number
	case "!=":
		return n != o.number
	case "<=":
		return n <= o.number
	}
	return n >= o.number // "=" and ">="
}
