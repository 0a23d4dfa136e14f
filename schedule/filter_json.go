package schedule

import (
	"slices"
	"strings"
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
	err := &pyError{"TypeError", "<class 'oslo_versionedobjects.fields.CoercedList'> can't be decoded"}
	if len(hint) == 1 {
		var v value
		var bad error
		if v, bad = parseJSON(hint[0]); bad != nil {
			err = notJSON(bad)
		} else {
			q, err = readTerm(&v), nil
		}
	}
	ask := func(r *row) (bool, *pyError) {
		if err != nil {
			return false, err
		}
		answer, err := q.answer(r)
		if err != nil {
			return false, err
		}
		if answer.kind == list {
			return slices.ContainsFunc(answer.list, func(v value) bool { return v.truth() }), nil
		}
		return answer.truth(), nil
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
	v, err := parseJSON(query)
	if err != nil {
		return 0
	}
	return v.terms()
}

func (v *value) terms() int {
	n := 1
	for i := range v.list {
		n += v.list[i].terms()
	}
	if v.dict != nil {
		for _, e := range v.dict.v {
			n += e.terms()
		}
	}
	return n
}

// jsonTerm is a question or an argument of one, parsed once for each query.
type jsonTerm struct {
	// path is that of an attribute; nil for none.
	path []string
	// value is set if the term is neither an attribute nor a question.
	value value
	// question: the term has op and args, or raises an exception when evaluated.
	question bool
	op       string
	args     []jsonTerm
	raises   *pyError
}

// readTerm parses a question: the value at the top, or any list below it.
func readTerm(v *value) *jsonTerm {
	t := &jsonTerm{question: true}
	if !v.truth() {
		return t // An empty question is true.
	}
	switch v.kind {
	case list:
		t.readQuestion(v.list)
	case text:
		var letters []value
		for _, r := range v.s {
			letters = append(letters, textValue(string(r)))
		}
		t.readQuestion(letters)
	case object:
		t.raises = &pyError{"KeyError", "0"}
	default:
		t.raises = &pyError{"TypeError", "'" + v.typeName() + "' object is not subscriptable"}
	}
	return t
}

var jsonOperators = []string{"=", "<", ">", "in", "<=", ">=", "not", "or", "and"}

func (t *jsonTerm) readQuestion(l []value) {
	switch cmd := &l[0]; {
	case cmd.kind == list || cmd.kind == object:
		t.raises = &pyError{"TypeError", "unhashable type: '" + cmd.typeName() + "'"}
		return
	case cmd.kind != text || !slices.Contains(jsonOperators, cmd.s):
		t.raises = &pyError{"KeyError", string(cmd.repr(nil))}
		return
	}
	t.op = l[0].s
	for i := range l[1:] {
		arg := &l[1+i]
		switch {
		case arg.kind == list:
			t.args = append(t.args, *readTerm(arg))
		case arg.kind == text && strings.HasPrefix(arg.s, "$"):
			t.args = append(t.args, jsonTerm{path: strings.Split(arg.s[1:], ".")})
		case arg.kind == text && arg.s == "", arg.kind == absent: // Skipped.
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
func (t *jsonTerm) answer(r *row) (value, *pyError) {
	switch {
	case t.path != nil:
		return t.lookUp(r)
	case !t.question:
		return t.value, nil
	case t.raises != nil:
		return value{}, t.raises
	case t.op == "":
		return boolValue(true), nil
	}
	var room [4]value
	args := room[:0]
	for i := range t.args {
		a, err := t.args[i].answer(r)
		if err != nil {
			return value{}, err
		}
		if a.kind != absent {
			args = append(args, a)
		}
	}
	return t.apply(args)
}

func (t *jsonTerm) lookUp(r *row) (value, *pyError) {
	v, _ := r.attribute(t.path[0])
	for _, key := range t.path[1:] {
		switch v.kind {
		case absent:
			return value{}, nil
		case object:
			v = v.dict.get(key)
		default:
			return value{}, &pyError{"AttributeError", "'" + v.typeName() + "' object has no attribute 'get'"}
		}
	}
	return v, nil
}

func (t *jsonTerm) apply(args []value) (value, *pyError) {
	switch t.op {
	case "not": // Negates each argument; the question is then true if any of these is.
		flipped := value{kind: list}
		for i := range args {
			flipped.list = append(flipped.list, boolValue(!args[i].truth()))
		}
		return flipped, nil
	case "or":
		return boolValue(slices.ContainsFunc(args, func(v value) bool { return v.truth() })), nil
	case "and":
		return boolValue(!slices.ContainsFunc(args, func(v value) bool { return !v.truth() })), nil
	}
	if len(args) < 2 {
		return boolValue(false), nil
	}
	first, in, all := &args[0], false, true
	for i := range args[1:] {
		arg := &args[1+i]
		if t.op == "=" || t.op == "in" {
			in, all = in || first.same(arg), all && first.equal(arg)
			continue
		}
		ok, err := ordered(t.op, first, arg)
		if err != nil {
			return value{}, err
		}
		all = all && ok
	}
	if t.op == "in" {
		return boolValue(in), nil
	}
	return boolValue(all), nil
}

// ordered compares by Python's rules of order.
func ordered(op string, a, b *value) (bool, *pyError) {
	_, numbers := a.number()
	_, number := b.number()
	switch {
	case numbers && number:
		order, ok := a.compare(b)
		return ok && holds(op, order < 0, order == 0), nil
	case a.kind == text && b.kind == text, a.kind == address && b.kind == address: // both are the host's own
		return holds(op, a.s < b.s, a.s == b.s), nil
	case a.kind == list && b.kind == list:
		for i := range min(len(a.list), len(b.list)) {
			if !a.list[i].same(&b.list[i]) {
				return ordered(op, &a.list[i], &b.list[i])
			}
		}
		return holds(op, len(a.list) < len(b.list), len(a.list) == len(b.list)), nil
	}
	return false, &pyError{
		"TypeError",
		"'" + op + "' not supported between instances of '" + a.typeName() + "' and '" + b.typeName() + "'",
	}
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
