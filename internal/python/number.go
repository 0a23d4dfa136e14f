package python

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Float is float(s). It accepts surrounding white space (but not U+001C to U+001F, unlike str.strip),
// underscores between digits, digits of any script, inf and nan by name, and no hexadecimal. A number
// that is too large is infinite.
func Float(s string) (float64, bool) {
	s = Digits(strings.TrimSpace(s))
	digits := false
	for i := range len(s) {
		switch c := s[i]; {
		case digit(c):
			digits = true
		case c == '_':
			if !between(s, i) {
				return 0, false
			}
		case c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E':
		default:
			return namedFloat(s)
		}
	}
	if !digits {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return f, true
}

// namedFloat parses inf, infinity and nan, in any case, with an optional sign.
func namedFloat(s string) (float64, bool) {
	w := strings.ToLower(strings.TrimLeft(s, "+-"))
	if len(s)-len(w) > 1 {
		return 0, false
	}
	switch w {
	case "nan":
		return math.NaN(), true
	case "inf", "infinity":
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	return 0, false
}

// Int is int(s), with white space, underscores and digits as in Float. Values beyond int64 are clamped.
func Int(s string) (int64, bool) {
	s = Digits(strings.TrimSpace(s))
	for i := range len(s) {
		if s[i] == '_' && !between(s, i) {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// between reports whether the byte at i is between two digits.
func between(s string, i int) bool {
	return i > 0 && i < len(s)-1 && digit(s[i-1]) && digit(s[i+1])
}

// Digits converts the decimal digits of any script to 0 to 9.
func Digits(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) {
			return r
		}
		zero := r // a script's ten digits are consecutive
		for unicode.Is(unicode.Nd, zero-1) {
			zero--
		}
		return '0' + (r-zero)%10
	}, s)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
