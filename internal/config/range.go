package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Range is the allowed range of a number or a duration, in the form of the tag range: LEAST..MOST, both
// inclusive. >LEAST.. excludes the least; without MOST there is no upper bound; a prefix 0| also allows
// 0, which stands for a default. Or the range is any.
type Range string

// bounds parses a range. Durations are in nanoseconds.
func (r Range) bounds(kind KeyKind) (least, most float64, err error) {
	if r == "any" {
		return math.Inf(-1), math.Inf(1), nil
	}
	from, to, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(string(r), "0|"), ">"), "..")
	if !ok {
		return 0, 0, fmt.Errorf("%q is not LEAST..MOST", r)
	}
	read := func(text string) float64 {
		var x float64
		var bad error
		if kind == Duration {
			var d time.Duration
			d, bad = time.ParseDuration(text)
			x = float64(d)
		} else {
			x, bad = strconv.ParseFloat(text, 64)
		}
		if bad != nil {
			err = bad
		}
		return x
	}
	least, most = read(from), math.Inf(1)
	if to != "" {
		most = read(to)
	}
	return least, most, err
}

// problem says why a value is not in the range; "" if it is.
func (r Range) problem(v reflect.Value) string {
	kind := kindOf(v.Type())
	least, most, err := r.bounds(kind)
	if err != nil {
		panic("config: range " + err.Error()) // a defect: TestKeys_All_AreDescribed reads them all
	}
	above, x := strings.HasPrefix(string(r), ">"), 0.0
	switch v.Kind() {
	case reflect.Float64:
		x = v.Float()
	case reflect.Uint64:
		x = float64(v.Uint())
	default:
		x = float64(v.Int())
	}
	// NaN is in no range.
	if x > least && x <= most || x == least && !above || x == 0 && strings.HasPrefix(string(r), "0|") {
		return ""
	}
	text := func(end float64) string {
		if kind == Duration {
			return time.Duration(end).String()
		}
		return strconv.FormatFloat(end, 'f', -1, 64)
	}
	switch {
	case math.IsInf(most, 1) && above:
		return fmt.Sprintf("%v is not above %s", v.Interface(), strings.TrimSuffix(text(least), "s"))
	case math.IsInf(most, 1):
		return fmt.Sprintf("%v is below %s", v.Interface(), text(least))
	case above:
		return fmt.Sprintf("%v is not above %s and at most %s", v.Interface(), text(least), text(most))
	case most >= 1e21:
		return fmt.Sprintf("%v is not between %v and %v", v.Interface(), least, most)
	}
	return fmt.Sprintf("%v is not between %s and %s", v.Interface(), text(least), text(most))
}

// checkRanges reports the values of a struct that are out of their range, or not what they must be.
func (l *loader) checkRanges(v reflect.Value, path string) {
	for i := range v.NumField() {
		f, field := v.Type().Field(i), v.Field(i)
		at := path + "." + f.Tag.Get("yaml")
		switch {
		case field.Kind() == reflect.Struct:
			l.checkRanges(field, at)
		case kindOf(field.Type()) == Table:
			for j := range field.Len() {
				l.checkRanges(field.Index(j), fmt.Sprintf("%s[%d]", at, j))
			}
		case field.Kind() == reflect.String:
			l.mustBe(f.Tag.Get("must"), at, field.String())
			if f.Tag.Get("reload") == "file" {
				l.namesFile(at, field.String())
			}
		default:
			if r := Range(f.Tag.Get("range")); r != "" {
				if problem := r.problem(field); problem != "" {
					l.outOfRange[at] = true
					l.bad(at, "%s", problem)
				}
			}
		}
	}
}
