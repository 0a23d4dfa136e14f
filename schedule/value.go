package schedule

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"cellgate/internal/python"
)

// value is a value as Nova's filters see it in Python: a value from JSON text, or an attribute of a host state.
// Filters compare values and their text, so both follow Python's rules here.
type value struct {
	kind kind
	i    int64 // of an integer; 1 for true
	f    float64
	s    string // of a string; the digits of an integer beyond int64; an opaque one's type
	list []value
	dict *dict
}

type kind uint8

const (
	absent kind = iota
	boolean
	integer
	long // an integer beyond int64
	float
	text
	list
	object  // a dictionary
	address // an IP address; s is its text
	opaque  // an object of Nova of which only the existence matters
)

// dict keeps the order of its keys, as Python's does.
type dict struct {
	keys []string
	v    map[string]value
	// coerced: a field of a Nova object (CoercedDict), not parsed JSON.
	coerced bool
}

func intValue(i int64) value     { return value{kind: integer, i: i} }
func floatValue(f float64) value { return value{kind: float, f: f} }
func textValue(s string) value   { return value{kind: text, s: s} }

func boolValue(b bool) value {
	v := value{kind: boolean}
	if b {
		v.i = 1
	}
	return v
}

func (d *dict) get(key string) value { return d.v[key] }

func (d *dict) set(key string, v value) {
	if _, ok := d.v[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.v[key] = v
}

// numberValue parses a JSON number: an integer if it has neither point nor exponent.
func numberValue(s string) value {
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return intValue(i)
		}
		f, _ := strconv.ParseFloat(s, 64) // Out of range it is infinite; see compare.
		return value{kind: long, f: f, s: strings.TrimPrefix(s, "+")}
	}
	f, _ := strconv.ParseFloat(s, 64)
	return floatValue(f)
}

// number gives the value as a float64; false if it is not a number.
func (v *value) number() (float64, bool) {
	switch v.kind {
	case boolean, integer:
		return float64(v.i), true
	case long, float:
		return v.f, true
	}
	return 0, false
}

// truth is Python's bool(v).
func (v *value) truth() bool {
	switch v.kind {
	case absent:
		return false
	case boolean, integer:
		return v.i != 0
	case float:
		return v.f != 0
	case text:
		return v.s != ""
	case list:
		return len(v.list) > 0
	case object:
		return len(v.dict.keys) > 0
	case address:
		return v.s != "0.0.0.0" && v.s != "::"
	}
	return true
}

// compare orders two numbers exactly, as Python does, whatever their size and kind; false if one is NaN.
func (v *value) compare(o *value) (order int, ok bool) {
	x, _ := v.number()
	y, _ := o.number()
	near := func(v *value) bool { return v.kind == float || v.kind != long && v.i >= -1<<53 && v.i <= 1<<53 }
	switch {
	case x != x || y != y:
		return 0, false
	case v.kind <= integer && o.kind <= integer:
		return cmp.Compare(v.i, o.i), true
	case near(v) && near(o), v.kind == float && math.IsInf(x, 0), o.kind == float && math.IsInf(y, 0):
		return cmp.Compare(x, y), true
	}
	return v.exact().Cmp(o.exact()), true
}

// exact gives a finite number as a rational.
func (v *value) exact() *big.Rat {
	switch v.kind {
	case float:
		return new(big.Rat).SetFloat64(v.f)
	case long:
		n, _ := new(big.Int).SetString(v.s, 10) // digits, perhaps with a sign
		return new(big.Rat).SetInt(n)
	}
	return new(big.Rat).SetInt64(v.i)
}

// same is equal, or both are the NaN of JSON. Python has one object for it, and treats an object as equal to itself
// in lists, in dictionaries and for the operator in.
func (v *value) same(o *value) bool {
	return v.kind == float && o.kind == float && v.f != v.f && o.f != o.f || v.equal(o)
}

// equal is Python's ==.
func (v *value) equal(o *value) bool {
	if _, ok := v.number(); ok {
		if _, ok := o.number(); !ok {
			return false
		}
		order, ok := v.compare(o)
		return ok && order == 0
	}
	if v.kind != o.kind {
		return false
	}
	switch v.kind {
	case absent:
		return true
	case text, address:
		return v.s == o.s
	case list:
		if len(v.list) != len(o.list) {
			return false
		}
		for i := range v.list {
			if !v.list[i].same(&o.list[i]) {
				return false
			}
		}
		return true
	case object:
		if len(v.dict.keys) != len(o.dict.keys) {
			return false
		}
		for k, x := range v.dict.v {
			y, ok := o.dict.v[k]
			if !ok || !x.same(&y) {
				return false
			}
		}
		return true
	}
	return false
}

// typeName is the name of the value's type in Python.
func (v *value) typeName() string {
	switch v.kind {
	case absent:
		return "NoneType"
	case boolean:
		return "bool"
	case integer, long:
		return "int"
	case float:
		return "float"
	case text:
		return "str"
	case list:
		return "list"
	case object:
		if v.dict.coerced {
			return "CoercedDict"
		}
		return "dict"
	case address:
		return "IPAddress"
	case opaque:
		if v.s != "" {
			return v.s
		}
	}
	return "object"
}

// String is Python's str(v).
func (v *value) String() string {
	if v.kind == text || v.kind == address {
		return v.s
	}
	return string(v.repr(nil))
}

// repr appends Python's repr(v).
func (v *value) repr(b []byte) []byte {
	switch v.kind {
	case absent:
		return append(b, "None"...)
	case boolean:
		if v.i != 0 {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case integer:
		return strconv.AppendInt(b, v.i, 10)
	case long:
		return append(b, v.s...)
	case float:
		return append(b, floatText(v.f)...)
	case text:
		return appendQuoted(b, v.s)
	case address:
		return fmt.Appendf(b, "IPAddress('%s')", v.s)
	case list:
		b = append(b, '[')
		for i := range v.list {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = v.list[i].repr(b)
		}
		return append(b, ']')
	case object:
		b = append(b, '{')
		for i, k := range v.dict.keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendQuoted(b, k), ": "...)
			x := v.dict.v[k]
			b = x.repr(b)
		}
		return append(b, '}')
	}
	return append(b, "<object>"...)
}

// floatText is Python's repr of a float: the shortest digits, with an exponent below 1e-4 and from 1e16.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// appendQuoted appends Python's repr of a string.
func appendQuoted(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	const hex = "0123456789abcdef"
	b = append(b, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0x100 && !unicode.IsPrint(r):
			b = append(b, '\\', 'x', hex[r>>4], hex[r&15])
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, quote)
}

// parseBigInt is python.Int for integers of any length, as the nearest float64.
func parseBigInt(s string) (float64, bool) {
	if n, ok := python.Int(s); ok && n != math.MaxInt64 && n != math.MinInt64 {
		return float64(n), true
	} else if !ok {
		return 0, false
	}
	return python.Float(s)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
