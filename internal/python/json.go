package python

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds how deep lists and objects nest.
const maxJSONDepth = 500

// ParseJSON parses a JSON text as Python's json.loads does, which accepts more than the standard: NaN, Infinity and
// -Infinity are numbers. Half a surrogate pair becomes U+FFFD. Only NotJSON and people read the errors.
func ParseJSON(s string) (Value, error) {
	p := jsonReader{s: s}
	if strings.HasPrefix(s, "\ufeff") {
		return Value{}, p.fail("Unexpected UTF-8 BOM (decode using utf-8-sig)")
	}
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	if p.skip(); p.at < len(s) {
		return Value{}, p.fail("Extra data")
	}
	return v, nil
}

type jsonReader struct {
	s  string
	at int
}

// jsonError is a JSONDecodeError, with the text of Python 3.11. Later versions have another text for a comma before a
// closing bracket.
type jsonError struct {
	what, doc string
	at        int // in bytes
}

func (e *jsonError) Error() string {
	before := e.doc[:e.at]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[1+strings.LastIndexByte(before, '\n'):])
	return fmt.Sprintf("%s: line %d column %d (char %d)", e.what, line, column, utf8.RuneCountInString(before))
}

func (p *jsonReader) fail(what string) error { return p.failAt(p.at, what) }

func (p *jsonReader) failAt(at int, what string) error { return &jsonError{what, p.s, at} }

// NotJSON is the exception of json.loads for an error of ParseJSON. Python's depth limit differs from ParseJSON's,
// but is also a few hundred levels.
func NotJSON(err error) *Exception {
	if err == errJSONDepth {
		return NewException("RecursionError", "maximum recursion depth exceeded")
	}
	return NewException("JSONDecodeError", err.Error())
}

func (p *jsonReader) skip() {
	for p.at < len(p.s) && strings.IndexByte(" \t\n\r", p.s[p.at]) >= 0 {
		p.at++
	}
}

// next is the next byte that is not a space; 0 at the end.
func (p *jsonReader) next() byte {
	if p.skip(); p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *jsonReader) readLiteral(w string) bool {
	if strings.HasPrefix(p.s[p.at:], w) {
		p.at += len(w)
		return true
	}
	return false
}

var errJSONDepth = errors.New("nested too deep")

func (p *jsonReader) value(depth int) (Value, error) {
	if depth > maxJSONDepth {
		return Value{}, errJSONDepth
	}
	switch c := p.next(); {
	case c == '"':
		s, err := p.text()
		return TextValue(s), err
	case c == '[':
		return p.list(depth)
	case c == '{':
		return p.object(depth)
	case p.readLiteral("null"):
		return Value{}, nil
	case p.readLiteral("true"):
		return BoolValue(true), nil
	case p.readLiteral("false"):
		return BoolValue(false), nil
	case p.readLiteral("NaN"):
		return FloatValue(math.NaN()), nil
	case p.readLiteral("Infinity"):
		return FloatValue(math.Inf(1)), nil
	case p.readLiteral("-Infinity"):
		return FloatValue(math.Inf(-1)), nil
	}
	return p.number()
}

func (p *jsonReader) list(depth int) (Value, error) {
	v := Value{Kind: KindList}
	p.at++
	if p.next() == ']' {
		p.at++
		return v, nil
	}
	for {
		e, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		v.List = append(v.List, e)
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return v, nil
		default:
			return Value{}, p.fail("Expecting ',' delimiter")
		}
	}
}

func (p *jsonReader) object(depth int) (Value, error) {
	v := Value{Kind: KindDict, Dict: &Dict{}}
	p.at++
	if p.next() == '}' {
		p.at++
		return v, nil
	}
	for {
		if p.next() != '"' {
			return Value{}, p.fail("Expecting property name enclosed in double quotes")
		}
		key, err := p.text()
		if err != nil {
			return Value{}, err
		}
		if p.next() != ':' {
			return Value{}, p.fail("Expecting ':' delimiter")
		}
		p.at++
		e, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		v.Dict.Set(key, e)
		switch p.next() {
		case ',':
			p.at++
		case '}':
			p.at++
			return v, nil
		default:
			return Value{}, p.fail("Expecting ',' delimiter")
		}
	}
}

// number reads -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][-+]?[0-9]+)?, an integer when it
// has neither point nor exponent.
func (p *jsonReader) number() (Value, error) {
	from := p.at
	digits := func() (n int) {
		for p.at < len(p.s) && digit(p.s[p.at]) {
			p.at++
			n++
		}
		return n
	}
	p.readLiteral("-")
	if !p.readLiteral("0") && digits() == 0 {
		p.at = from
		return Value{}, p.fail("Expecting value")
	}
	end := p.at
	if p.readLiteral(".") {
		if digits() == 0 {
			p.at = end // As in Python: the number ends before the point.
		} else {
			end = p.at
		}
	}
	if p.at == end && (p.readLiteral("e") || p.readLiteral("E")) {
		if !p.readLiteral("-") {
			p.readLiteral("+")
		}
		if digits() == 0 {
			p.at = end
		}
	}
	return numberValue(p.s[from:p.at]), nil
}

// text reads a quoted string.
func (p *jsonReader) text() (string, error) {
	begin := p.at
	p.at++
	from := p.at
	for p.at < len(p.s) && p.s[p.at] >= ' ' && p.s[p.at] != '"' && p.s[p.at] != '\\' {
		p.at++
	}
	if p.at < len(p.s) && p.s[p.at] == '"' {
		p.at++
		return p.s[from : p.at-1], nil // Most have no escape.
	}
	b := []byte(p.s[from:p.at])
	for p.at < len(p.s) {
		c := p.s[p.at]
		p.at++
		switch {
		case c == '"':
			return string(b), nil
		case c < ' ':
			p.at--
			return "", p.fail("Invalid control character at")
		case c != '\\':
			b = append(b, c)
			continue
		}
		if p.at == len(p.s) {
			break
		}
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		b = utf8.AppendRune(b, r)
	}
	return "", p.failAt(begin, "Unterminated string starting at")
}

// escape reads the rest of an escape, after the backslash.
func (p *jsonReader) escape() (rune, error) {
	at, c := p.at, p.s[p.at]
	p.at++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, p.failAt(at-1, `Invalid \escape`)
	}
	r, ok := p.hex()
	if !ok {
		return 0, p.failAt(at, `Invalid \uXXXX escape`)
	}
	if !utf16.IsSurrogate(r) || !strings.HasPrefix(p.s[p.at:], `\u`) {
		return r, nil
	}
	after := p.at
	p.at += 2
	low, ok := p.hex()
	if both := utf16.DecodeRune(r, low); ok && both != utf8.RuneError {
		return both, nil
	}
	p.at = after
	return r, nil
}

// hex reads four hex digits, which must not be the end of the text.
func (p *jsonReader) hex() (rune, bool) {
	if p.at+4 >= len(p.s) {
		return 0, false
	}
	for _, c := range []byte(p.s[p.at : p.at+4]) {
		if strings.IndexByte("0123456789abcdefABCDEF", c) < 0 {
			return 0, false
		}
	}
	n, _ := strconv.ParseUint(p.s[p.at:p.at+4], 16, 16) // Four digits.
	p.at += 4
	return rune(n), true
}
