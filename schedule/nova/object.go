package nova

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Keys of a versioned object (oslo.versionedobjects, obj_to_primitive).
const (
	nameKey      = "nova_object.name"
	namespaceKey = "nova_object.namespace"
	versionKey   = "nova_object.version"
	dataKey      = "nova_object.data"
	changesKey   = "nova_object.changes"
)

// object is the data of a versioned object that is being read. Its methods report a value of the wrong type, and then
// give the zero value. Absent fields and null are the same. The nil object has no fields.
type object struct {
	*findings
	path string
	data map[string]any
	read map[string]bool
}

// object opens v as the versioned object of that name. It gives nil for null, and, after reporting it, for an invalid
// object.
func (f *findings) object(path string, v any, name string) *object {
	if v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		f.invalid(path, "must be a %s object, not %s", name, kind(v))
		return nil
	}
	before := len(f.fields)
	head := func(key string) string {
		s, ok := m[key].(string)
		if !ok {
			f.invalid(at(path, key), "must be there and a string: this is to be a versioned object of type %s", name)
		}
		return s
	}
	if got := head(nameKey); got != name && len(f.fields) == before {
		f.invalid(at(path, nameKey), "must be %q, not %q", name, got)
	}
	if len(f.fields) > before {
		return nil // Not this object at all; further problems would say the same.
	}
	namespace, version := head(namespaceKey), head(versionKey)
	if namespace != "nova" && len(f.fields) == before {
		f.invalid(at(path, namespaceKey), "must be %q, not %q", "nova", namespace)
	}
	if len(f.fields) == before {
		if p := versionProblem(name, version); p != "" {
			f.invalid(at(path, versionKey), "%s", p)
		}
	}
	data, ok := m[dataKey].(map[string]any)
	if !ok {
		f.invalid(at(path, dataKey), "must be there and an object")
	}
	if len(f.fields) > before {
		return nil
	}
	for _, k := range sortedKeys(m) {
		switch k {
		case nameKey, namespaceKey, versionKey, dataKey, changesKey:
		default:
			f.ignore(at(path, k))
		}
	}
	return &object{findings: f, path: path, data: data, read: make(map[string]bool, len(data))}
}

// get gives the value of a field and marks it as read.
func (o *object) get(key string) any {
	if o == nil {
		return nil
	}
	o.read[key] = true
	return o.data[key]
}

func (o *object) at(key string) string { return o.path + "." + key }

// known marks fields that do not affect the choice of host.
func (o *object) known(keys ...string) {
	for _, k := range keys {
		o.get(k)
	}
}

// rest reports the fields that were not read.
func (o *object) rest() {
	if o == nil {
		return
	}
	for _, k := range sortedKeys(o.data) {
		if !o.read[k] {
			o.ignore(o.at(k))
		}
	}
}

// field reads a field of a JSON type; want names it for people.
func field[T any](o *object, key, want string) T {
	v := o.get(key)
	x, ok := v.(T)
	if v != nil && !ok {
		o.invalid(o.at(key), "must be %s, not %s", want, kind(v))
	}
	return x
}

func (o *object) text(key string) string { return field[string](o, key, "a string") }

func (o *object) flag(key string) bool { return field[bool](o, key, "true or false") }

// dict reads a dictionary with any values.
func (o *object) dict(key string) map[string]any {
	return field[map[string]any](o, key, "an object")
}

// list reads a list with any elements.
func (o *object) list(key string) []any { return field[[]any](o, key, "a list") }

// amount reads an integer of 0 to MaxInt32.
func (o *object) amount(key string) int64 {
	v := o.get(key)
	if o == nil || v == nil {
		return 0
	}
	n, problem := integer(v)
	if problem == "" {
		problem = amountProblem(n)
	}
	if problem != "" {
		o.invalid(o.at(key), "%s", problem)
		return 0
	}
	return n
}

// required reports a field that is absent or null.
func (o *object) required(keys ...string) {
	if o == nil {
		return
	}
	for _, k := range keys {
		if o.data[k] == nil {
			o.invalid(o.at(k), "is required")
		}
	}
}

// texts reads a list of strings. In a primitive, sets are lists too.
func (o *object) texts(key string) []string {
	v := o.get(key)
	if o == nil || v == nil {
		return nil
	}
	return o.findings.texts(o.at(key), v)
}

func (f *findings) texts(path string, v any) []string {
	list, ok := v.([]any)
	if !ok {
		f.invalid(path, "must be a list of strings, not %s", kind(v))
		return nil
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			f.invalid(fmt.Sprintf("%s[%d]", path, i), "must be a string, not %s", kind(e))
			continue
		}
		out = append(out, s)
	}
	return out
}

// child opens a field that holds an object.
func (o *object) child(key, name string) *object {
	v := o.get(key)
	if o == nil {
		return nil
	}
	return o.object(o.at(key), v, name)
}

// integer converts a JSON number, in any type that decoders give.
func integer(v any) (n int64, problem string) {
	switch x := v.(type) {
	case int:
		return int64(x), ""
	case int64:
		return x, ""
	case json.Number:
		i, err := x.Int64()
		if err != nil {
			return 0, fmt.Sprintf("must be an integer, not %s", x)
		}
		return i, ""
	case float64:
		// Beyond 2^53 several integers have the same float64.
		if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			return 0, fmt.Sprintf("must be an integer, not %v", x)
		}
		return int64(x), ""
	}
	return 0, "must be an integer, not " + kind(v)
}

func amountProblem(n int64) string {
	switch {
	case n < 0:
		return fmt.Sprintf("must not be negative, is %d", n)
	case n > math.MaxInt32:
		return fmt.Sprintf("must be at most %d, is %d", math.MaxInt32, n)
	}
	return ""
}

// kind names a JSON type for people.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case float64, int, int64, json.Number:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}

// at is the path of a key that is not a plain identifier.
func at(path, key string) string {
	return path + `["` + strings.ReplaceAll(key, `"`, `\"`) + `"]`
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m)) // without iterators, which allocate
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
