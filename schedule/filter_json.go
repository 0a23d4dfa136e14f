package schedule

import (
	"slices"
	"strings"

	"cellgate/internal/python"
)

// JSONFilter evaluates the hint query for each host: a list of an operator and its arguments. An argument may be such
// a list, or "$attribute.key" of the host (filters/json_filter.py).
const JSONFilter = "JsonFilter"

func (s *scan) jsonFilter() {
	hint := s.nova.hint("query")
	if len(hint) == 0 || onlyEmpty(hint) {
		return
	}
	var q *jsonTerm
	err := python.NewException("TypeError", "<class 'oslo_versionedobjects.fields.CoercedList'> can't be decoded")
	if len(hint) == 1 {
		var v python.Value
		var bad error
		if v, bad = python.ParseJSON(hint[0]); bad != nil {
			err = python.NotJSON(bad)
		} else {
			q, err = readTerm(&v), nil
		}
	}
	ask := func(r *row) (bool, *python.Exception) {
		if err != nil {
			return false, err
		}
		answer, err := q.answer(r)
		if err != nil {
			return false, err
		}
		if answer.Kind == python.KindList {
			return slices.ContainsFunc(answer.List, func(v python.Value) bool { return v.Truth() }), nil
		}
		return answer.Truth(), nil
	}
	if err == nil && q.shared() {
		s.perPlatform(JSONFilter, ask)
		return
	}
	s.perHost(JSONFilter, ask)
}

// JSONTerms counts the values in a JsonFilter hint, lists and their elements included; 0 if it is not JSON. The cost
// for each host is proportional to it.
func JSONTerms(query string) int {
	v, err := python.ParseJSON(query)
	if err != nil {
		return 0
	}
	return terms(&v)
}

func terms(v *python.Value) int {
	n := 1
	for i := range v.List {
		n += terms(&v.List[i])
	}
	if v.Dict != nil {
		for _, e := range v.Dict.All() {
			n += terms(&e)
		}
	}
	return n
}

// jsonTerm is a question or an argument of one, parsed once for each query.
type jsonTerm struct {
	// path is that of an attribute; nil for none.
	path []string
	// value is set if the term is neither an attribute nor a question.
	value python.Value
	// question: the term has op and args, or raises an exception when evaluated.
	question bool
	op       string
	args     []jsonTerm
	raises   *python.Exception
}

// readTerm parses a question: the value at the top, or any list below it.
func readTerm(v *python.Value) *jsonTerm {
	t := &jsonTerm{question: true}
	if !v.Truth() {
		return t // An empty question is true.
	}
	switch v.Kind {
	case python.KindList:
		t.readQuestion(v.List)
	case python.KindText:
		var letters []python.Value
		for _, r := range v.Text {
			letters = append(letters, python.TextValue(string(r)))
		}
		t.readQuestion(letters)
	case python.KindDict:
		t.raises = python.NewException("KeyError", "0")
	default:
		t.raises = python.NewException("TypeError", "'"+v.TypeName()+"' object is not subscriptable")
	}
	return t
}

var jsonOperators = []string{"=", "<", ">", "in", "<=", ">=", "not", "or", "and"}

func (t *jsonTerm) readQuestion(l []python.Value) {
	switch cmd := &l[0]; {
	case cmd.Kind == python.KindList || cmd.Kind == python.KindDict:
		t.raises = python.NewException("TypeError", "unhashable type: '"+cmd.TypeName()+"'")
		return
	case cmd.Kind != python.KindText || !slices.Contains(jsonOperators, cmd.Text):
		t.raises = python.NewException("KeyError", cmd.Repr())
		return
	}
	t.op = l[0].Text
	for i := range l[1:] {
		arg := &l[1+i]
		switch {
		case arg.Kind == python.KindList:
			t.args = append(t.args, *readTerm(arg))
		case arg.Kind == python.KindText && strings.HasPrefix(arg.Text, "$"):
			t.args = append(t.args, jsonTerm{path: strings.Split(arg.Text[1:], ".")})
		case arg.Kind == python.KindText && arg.Text == "", arg.Kind == python.KindNone: // Skipped.
		default:
			t.args = append(t.args, jsonTerm{value: *arg})
		}
	}
}

// shared reports whether the answer is the same for all hosts of a platform.
func (t *jsonTerm) shared() bool {
	if t.path != nil && !ofPlatform(t.path[0]) {
		return false
	}
	for i := range t.args {
		if !t.args[i].shared() {
			return false
		}
	}
	return true
}

// answer evaluates a term for a host. Arguments without a value are skipped.
func (t *jsonTerm) answer(r *row) (python.Value, *python.Exception) {
	switch {
	case t.path != nil:
		return t.lookUp(r)
	case !t.question:
		return t.value, nil
	case t.raises != nil:
		return python.Value{}, t.raises
	case t.op == "":
		return python.BoolValue(true), nil
	}
	var room [4]python.Value
	args := room[:0]
	for i := range t.args {
		a, err := t.args[i].answer(r)
		if err != nil {
			return python.Value{}, err
		}
		if a.Kind != python.KindNone {
			args = append(args, a)
		}
	}
	return t.apply(args)
}

func (t *jsonTerm) lookUp(r *row) (python.Value, *python.Exception) {
	v, _ := r.attribute(t.path[0])
	for _, key := range t.path[1:] {
		switch v.Kind {
		case python.KindNone:
			return python.Value{}, nil
		case python.KindDict:
			v = v.Dict.Get(key)
		default:
			return python.Value{}, python.NewException("AttributeError", "'"+v.TypeName()+"' object has no attribute 'get'")
		}
	}
	return v, nil
}

func (t *jsonTerm) apply(args []python.Value) (python.Value, *python.Exception) {
	switch t.op {
	case "not": // Negates each argument; the question is then true if any of these is.
		flipped := python.Value{Kind: python.KindList}
		for i := range args {
			flipped.List = append(flipped.List, python.BoolValue(!args[i].Truth()))
		}
		return flipped, nil
	case "or":
		return python.BoolValue(slices.ContainsFunc(args, func(v python.Value) bool { return v.Truth() })), nil
	case "and":
		return python.BoolValue(!slices.ContainsFunc(args, func(v python.Value) bool { return !v.Truth() })), nil
	}
	if len(args) < 2 {
		return python.BoolValue(false), nil
	}
	first, in, all := &args[0], false, true
	for i := range args[1:] {
		arg := &args[1+i]
		if t.op == "=" || t.op == "in" {
			in, all = in || first.Same(arg), all && first.Equal(arg)
			continue
		}
		ok, err := ordered(t.op, first, arg)
		if err != nil {
			return python.Value{}, err
		}
		all = all && ok
	}
	if t.op == "in" {
		return python.BoolValue(in), nil
	}
	return python.BoolValue(all), nil
}

// ordered compares by Python's rules of order.
func ordered(op string, a, b *python.Value) (bool, *python.Exception) {
	_, numbers := a.Number()
	_, number := b.Number()
	switch {
	case numbers && number:
		order, ok := a.Compare(b)
		return ok && holds(op, order < 0, order == 0), nil
	case a.Kind == python.KindText && b.Kind == python.KindText, a.Kind == python.KindAddress && b.Kind == python.KindAddress: // both are the host's own
		return holds(op, a.Text < b.Text, a.Text == b.Text), nil
	case a.Kind == python.KindList && b.Kind == python.KindList:
		for i := range min(len(a.List), len(b.List)) {
			if !a.List[i].Same(&b.List[i]) {
				return ordered(op, &a.List[i], &b.List[i])
			}
		}
		return holds(op, len(a.List) < len(b.List), len(a.List) == len(b.List)), nil
	}
	return false, python.NewException(
		"TypeError",
		"'"+op+"' not supported between instances of '"+a.TypeName()+"' and '"+b.TypeName()+"'",
	)
}

func holds(op string, less, same bool) bool {
	switch op {
	case "<":
		return less
	case "<=":
		return less || same
	case ">":
		return !less && !same
	}
	return !less
}
