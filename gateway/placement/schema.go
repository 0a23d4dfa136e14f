package placement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// schema is the part of JSON Schema that Placement uses. Zero fields demand nothing. It is written here because
// callers read the error texts of Python's jsonschema, which no Go library gives.
type schema struct {
	// types are the allowed types: string, integer, number, object, array, null.
	types []string
	// For objects. closed refuses properties that neither properties nor patterns name.
	properties    map[string]*schema
	patterns      []patternSchema
	required      []string
	closed        bool
	minProperties int
	// For arrays.
	items    *schema
	minItems int
	unique   bool
	// For strings.
	minLength, maxLength int
	pattern              *regexp.Regexp
	uuid                 bool
	enum                 []string
	// For numbers.
	minimum, maximum *float64
	// nullOrUUID demands null or a uuid.
	nullOrUUID bool
}

// patternSchema is the schema of properties whose names match.
type patternSchema struct {
	name *regexp.Regexp
	*schema
}

// violation is the first way in which a value breaks a schema, the shallowest one if there are several.
type violation struct {
	text, keyword string
	path          []step
}

// step leads from a value to one inside it: by a key of the body, and by keys of the schema.
type step struct{ body, schema string }

func (v *violation) Error() string {
	var body, schema strings.Builder
	for _, s := range v.path {
		body.WriteString(s.body)
		schema.WriteString(s.schema)
	}
	return fmt.Sprintf("%s\n\nFailed validating '%s' in schema%s\n\nOn instance%s", v.text, v.keyword, &schema, &body)
}

// check gives how v breaks the schema; nil if it does not. v comes from parseJSON.
func (s *schema) check(v any) *violation {
	var all []*violation
	s.walk(v, nil, &all)
	var first *violation
	for _, one := range all {
		if first == nil || len(one.path) < len(first.path) {
			first = one
		}
	}
	return first
}

// report adds a violation of a keyword.
type report func(keyword, format string, args ...any)

// walk adds how v, at path, breaks the schema.
func (s *schema) walk(v any, path []step, all *[]*violation) {
	bad := func(keyword, format string, args ...any) {
		*all = append(*all, &violation{text: fmt.Sprintf(format, args...), keyword: keyword, path: slices.Clone(path)})
	}
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(t string) bool { return isOfType(v, t) }) {
		quoted := make([]string, len(s.types))
		for i, t := range s.types {
			quoted[i] = "'" + t + "'"
		}
		bad("type", "%s is not of type %s", pyRepr(v), strings.Join(quoted, ", "))
	}
	if s.nullOrUUID && v != nil {
		if _, ok := v.(string); ok {
			uuidText.walk(v, path, all)
		} else {
			bad("anyOf", "%s is not valid under any of the given schemas", pyRepr(v))
		}
	}
	switch v := v.(type) {
	case string:
		s.walkText(v, bad)
	case json.Number:
		s.walkNumber(v, bad)
	case []any:
		if len(v) < s.minItems {
			bad("minItems", "%s is too short", pyRepr(v))
		}
		if s.unique && hasEqual(v) {
			bad("uniqueItems", "%s has non-unique elements", pyRepr(v))
		}
		if s.items != nil {
			for i, item := range v {
				s.items.walk(item, append(path, step{fmt.Sprintf("[%d]", i), "['items']"}), all)
			}
		}
	case map[string]any:
		s.walkObject(v, path, bad, all)
	}
}

func (s *schema) walkText(v string, bad report) {
	if strings.ContainsRune(v, 0) {
		bad("format", "%s has a NUL character, which no text may have", pyRepr(v))
	}
	length := utf8.RuneCountInString(v)
	if length < s.minLength {
		bad("minLength", "%s is too short", pyRepr(v))
	}
	if s.maxLength > 0 && length > s.maxLength {
		bad("maxLength", "%s is too long", pyRepr(v))
	}
	if s.pattern != nil && !s.pattern.MatchString(v) {
		bad("pattern", "%s does not match %s", pyRepr(v), pyRepr(s.pattern.String()))
	}
	if s.uuid {
		if _, ok := CanonicalUUID(v); !ok {
			bad("format", "%s is not a 'uuid'", pyRepr(v))
		}
	}
	if s.enum != nil && !slices.Contains(s.enum, v) {
		bad("enum", "%s is not one of %s", pyRepr(v), pyRepr(s.enum))
	}
}

func (s *schema) walkNumber(v json.Number, bad report) {
	n, ok := new(big.Float).SetString(v.String())
	if !ok {
		return
	}
	if s.minimum != nil && n.Cmp(big.NewFloat(*s.minimum)) < 0 {
		bad("minimum", "%s is less than the minimum of %s", v, pyNumber(*s.minimum))
	}
	if s.maximum != nil && n.Cmp(big.NewFloat(*s.maximum)) > 0 {
		bad("maximum", "%s is greater than the maximum of %s", v, pyNumber(*s.maximum))
	}
}

func (s *schema) walkObject(v map[string]any, path []step, bad report, all *[]*violation) {
	if len(v) < s.minProperties {
		bad("minProperties", "%s does not have enough properties", pyRepr(v))
	}
	for _, name := range s.required {
		if _, ok := v[name]; !ok {
			bad("required", "'%s' is a required property", name)
		}
	}
	var extra []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		key, known := "["+pyRepr(name)+"]", false
		if p, ok := s.properties[name]; ok {
			known = true
			p.walk(v[name], append(path, step{key, "['properties']" + key}), all)
		}
		for _, p := range s.patterns {
			if p.name.MatchString(name) {
				known = true
				p.walk(v[name], append(path, step{key, "['patternProperties'][" + pyRepr(p.name.String()) + "]"}), all)
			}
		}
		if !known {
			extra = append(extra, pyRepr(name))
		}
	}
	if !s.closed || len(extra) == 0 {
		return
	}
	verb := "was"
	if len(extra) > 1 {
		verb = "were"
	}
	if len(s.patterns) == 0 {
		bad("additionalProperties", "Additional properties are not allowed (%s %s unexpected)", strings.Join(extra, ", "), verb)
		return
	}
	var names []string
	for _, p := range s.patterns {
		names = append(names, pyRepr(p.name.String()))
	}
	slices.Sort(names)
	verb = "does"
	if len(extra) > 1 {
		verb = "do"
	}
	bad("additionalProperties", "%s %s not match any of the regexes: %s", strings.Join(extra, ", "), verb, strings.Join(names, ", "))
}

func isOfType(v any, t string) bool {
	switch t {
	case "string":
		_, ok := v.(string)
		return ok
	case "null":
		return v == nil
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "number":
		_, ok := v.(json.Number)
		return ok
	case "integer":
		_, ok := wholeNumber(v)
		return ok
	}
	return false
}

// wholeNumber gives a JSON number as an integer; 1.0 is one, as in jsonschema.
func wholeNumber(v any) (*big.Int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	if i, ok := new(big.Int).SetString(n.String(), 10); ok {
		return i, true
	}
	// An exponent of millions would make a number with millions of digits, which no field accepts.
	if f, err := n.Float64(); err != nil || f > 1e300 || f < -1e300 {
		return nil, false
	}
	f, ok := new(big.Float).SetString(n.String())
	if !ok || !f.IsInt() {
		return nil, false
	}
	i, _ := f.Int(nil)
	return i, true
}

func hasEqual(list []any) bool {
	seen := map[string]bool{}
	for _, v := range list {
		key := pyRepr(v)
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// pyNumber writes a bound as Python does: whole numbers without a fraction and an exponent.
func pyNumber(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1e16 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

// pyRepr writes a value as Python's repr does.
func pyRepr(v any) string {
	var b strings.Builder
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case json.Number:
		return v.String()
	case string:
		quote := "'"
		if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
			quote = `"`
		}
		b.WriteString(quote)
		b.WriteString(strings.NewReplacer(`\`, `\\`, quote, `\`+quote, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(v))
		b.WriteString(quote)
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return pyRepr(list)
	case []any:
		b.WriteString("[")
		for i, item := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(pyRepr(item))
		}
		b.WriteString("]")
	case map[string]any:
		b.WriteString("{")
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(pyRepr(name) + ": " + pyRepr(v[name]))
		}
		b.WriteString("}")
	default:
		return fmt.Sprint(v)
	}
	return b.String()
}

// jsonError is a text of Python's json module.
type jsonError string

func (e jsonError) Error() string { return string(e) }

// parseJSON reads one JSON value, numbers as json.Number.
func parseJSON(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, jsonError("Expecting value: line 1 column 1 (char 0)")
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, jsonError("Extra data")
	}
	return v, nil
}
