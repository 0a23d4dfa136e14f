package python

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// Value is a value of Python: from JSON text, or an attribute of one of Nova's objects. The zero value is None. Values
// that share a List or a Dict are read only.
type Value struct {
	Kind Kind
	// Int is the value of a KindInt, and 1 for true.
	Int int64
	// Float is the value of a KindFloat, and the float nearest to a KindLong.
	Float float64
	// Text is the value of a KindText or KindAddress, the digits of a KindLong, and the type's name of a KindOpaque,
	// empty for object.
	Text string
	List []Value
	Dict *Dict
}

// Kind says which fields of a Value count.
type Kind uint8

// The kinds before KindText have no elements and no length.
const (
	KindNone Kind = iota
	KindBool
	KindInt
	// KindLong is an integer beyond int64.
	KindLong
	KindFloat
	KindText
	KindList
	KindDict
	// KindAddress is an IP address of the library netaddr.
	KindAddress
	// KindOpaque is an object of which only the existence and the type matter.
	KindOpaque
)

// Dict is a dictionary that keeps the order of its keys, as Python's do. The zero value is empty.
type Dict struct {
	keys   []string
	values map[string]Value
	// Coerced: a field of a Nova object (CoercedDict), not parsed JSON.
	Coerced bool
}

// IntValue gives an int.
func IntValue(i int64) Value { return Value{Kind: KindInt, Int: i} }

// FloatValue gives a float.
func FloatValue(f float64) Value { return Value{Kind: KindFloat, Float: f} }

// TextValue gives a str.
func TextValue(s string) Value { return Value{Kind: KindText, Text: s} }

// BoolValue gives a bool.
func BoolValue(b bool) Value {
	v := Value{Kind: KindBool}
	if b {
		v.Int = 1
	}
	return v
}

// Get gives the value of a key; None if there is none.
func (d *Dict) Get(key string) Value { return d.values[key] }

// Lookup gives the value of a key; false if there is none.
func (d *Dict) Lookup(key string) (Value, bool) {
	v, ok := d.values[key]
	return v, ok
}

// Set sets the value of a key.
func (d *Dict) Set(key string, v Value) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	if d.values == nil {
		d.values = map[string]Value{}
	}
	d.values[key] = v
}

// Len is the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// All gives the keys with their values, in order.
func (d *Dict) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, key := range d.keys {
			if !yield(key, d.values[key]) {
				return
			}
		}
	}
}

// numberValue parses a JSON number: an integer if it has neither point nor exponent.
func numberValue(s string) Value {
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return IntValue(i)
		}
		f, _ := strconv.ParseFloat(s, 64) // Out of range it is infinite; see Compare.
		return Value{Kind: KindLong, Float: f, Text: strings.TrimPrefix(s, "+")}
	}
	f, _ := strconv.ParseFloat(s, 64)
	return FloatValue(f)
}

// Number gives the value as a float64; false if it is not a number.
func (v *Value) Number() (float64, bool) {
	switch v.Kind {
	case KindBool, KindInt:
		return float64(v.Int), true
	case KindLong, KindFloat:
		return v.Float, true
	}
	return 0, false
}

// Truth is Python's bool(v).
func (v *Value) Truth() bool {
	switch v.Kind {
	case KindNone:
		return false
	case KindBool, KindInt:
		return v.Int != 0
	case KindFloat:
		return v.Float != 0
	case KindText:
		return v.Text != ""
	case KindList:
		return len(v.List) > 0
	case KindDict:
		return v.Dict.Len() > 0
	case KindAddress:
		return v.Text != "0.0.0.0" && v.Text != "::"
	}
	return true
}

// Compare orders two numbers exactly, as Python does, whatever their size and kind; false if one is NaN.
func (v *Value) Compare(o *Value) (order int, ok bool) {
	x, _ := v.Number()
	y, _ := o.Number()
	near := func(v *Value) bool {
		return v.Kind == KindFloat || v.Kind != KindLong && v.Int >= -1<<53 && v.Int <= 1<<53
	}
	switch {
	case x != x || y != y:
		return 0, false
	case v.Kind <= KindInt && o.Kind <= KindInt:
		return cmp.Compare(v.Int, o.Int), true
	case near(v) && near(o), v.Kind == KindFloat && math.IsInf(x, 0), o.Kind == KindFloat && math.IsInf(y, 0):
		return cmp.Compare(x, y), true
	}
	return v.exact().Cmp(o.exact()), true
}

// exact gives a finite number as a rational.
func (v *Value) exact() *big.Rat {
	switch v.Kind {
	case KindFloat:
		return new(big.Rat).SetFloat64(v.Float)
	case KindLong:
		n, _ := new(big.Int).SetString(v.Text, 10) // digits, perhaps with a sign
		return new(big.Rat).SetInt(n)
	}
	return new(big.Rat).SetInt64(v.Int)
}

// Same is Equal, or both are the NaN of JSON. Python has one object for it, and treats an object as equal to itself
// in lists, in dictionaries and for the operator in.
func (v *Value) Same(o *Value) bool {
	return v.Kind == KindFloat && o.Kind == KindFloat && v.Float != v.Float && o.Float != o.Float || v.Equal(o)
}

// Equal is Python's ==.
func (v *Value) Equal(o *Value) bool {
	if _, ok := v.Number(); ok {
		if _, ok := o.Number(); !ok {
			return false
		}
		order, ok := v.Compare(o)
		return ok && order == 0
	}
	if v.Kind != o.Kind {
		return false
	}
	switch v.Kind {
	case KindNone:
		return true
	case KindText, KindAddress:
		return v.Text == o.Text
	case KindList:
		if len(v.List) != len(o.List) {
			return false
		}
		for i := range v.List {
			if !v.List[i].Same(&o.List[i]) {
				return false
			}
		}
		return true
	case KindDict:
		if v.Dict.Len() != o.Dict.Len() {
			return false
		}
		for k, x := range v.Dict.values {
			y, ok := o.Dict.values[k]
			if !ok || !x.Same(&y) {
				return false
			}
		}
		return true
	}
	return false
}

// TypeName is the name of the value's type in Python.
func (v *Value) TypeName() string {
	switch v.Kind {
	case KindNone:
		return "NoneType"
	case KindBool:
		return "bool"
	case KindInt, KindLong:
		return "int"
	case KindFloat:
		return "float"
	case KindText:
		return "str"
	case KindList:
		return "list"
	case KindDict:
		if v.Dict.Coerced {
			return "CoercedDict"
		}
		return "dict"
	case KindAddress:
		return "IPAddress"
	case KindOpaque:
		if v.Text != "" {
			return v.Text
		}
	}
	return "object"
}

// String is Python's str(v).
func (v *Value) String() string {
	if v.Kind == KindText || v.Kind == KindAddress {
		return v.Text
	}
	return v.Repr()
}

// Repr is Python's repr(v).
func (v *Value) Repr() string { return string(v.appendRepr(nil)) }

func (v *Value) appendRepr(b []byte) []byte {
	switch v.Kind {
	case KindNone:
		return append(b, "None"...)
	case KindBool:
		if v.Int != 0 {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case KindInt:
		return strconv.AppendInt(b, v.Int, 10)
	case KindLong:
		return append(b, v.Text...)
	case KindFloat:
		return append(b, floatText(v.Float)...)
	case KindText:
		return appendQuoted(b, v.Text)
	case KindAddress:
		return fmt.Appendf(b, "IPAddress('%s')", v.Text)
	case KindList:
		b = append(b, '[')
		for i := range v.List {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = v.List[i].appendRepr(b)
		}
		return append(b, ']')
	case KindDict:
		b = append(b, '{')
		for i, k := range v.Dict.keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendQuoted(b, k), ": "...)
			x := v.Dict.values[k]
			b = x.appendRepr(b)
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

// Quote is Python's repr of a string.
func Quote(s string) string { return string(appendQuoted(nil, s)) }

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

// IntAsFloat is Int for integers of any length, as the nearest float64.
func IntAsFloat(s string) (float64, bool) {
	if n, ok := Int(s); ok && n != math.MaxInt64 && n != math.MinInt64 {
		return float64(n), true
	} else if !ok {
		return 0, false
	}
	return Float(s)
}
