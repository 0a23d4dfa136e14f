package novaconf

import (
	"fmt"
	"slices"
	"strings"

	"cellgate/internal/python"
)

// kind is the type of an option, as in oslo.config.
type kind int

const (
	text kind = iota
	boolean
	integer
	number
	list
	// several may be repeated; every assignment counts.
	several
)

// value is the parsed value of an option.
type value struct {
	text string
	bool bool
	// num is set for a number and an integer.
	num  float64
	int  int64
	list []string
}

// plain is the value in the form of Settings.Values.
func (v value) plain(k kind) any {
	switch k {
	case boolean:
		return v.bool
	case integer:
		return int(v.int)
	case number:
		return v.num
	case list:
		return v.list
	}
	return v.text
}

// read parses a value as oslo.config's types do.
func (o *option) read(s string) (value, error) {
	v := value{text: s}
	var err error
	switch o.kind {
	case boolean:
		v.bool, err = readBool(s)
	case integer:
		// Values beyond 64 bits are clamped.
		n, ok := python.Int(s)
		if !ok {
			return v, fmt.Errorf("%q is not a whole number", s)
		}
		v.int, v.num = n, float64(n)
	case number:
		n, ok := python.Float(s)
		if !ok || n != n || n-n != 0 {
			return v, fmt.Errorf("%q is not a number", s)
		}
		v.num = n
	case list:
		v.list = readList(s)
	case text, several:
		if len(o.values) > 0 && s != "" && !slices.Contains(o.values, s) {
			err = fmt.Errorf("%q is none of %s", s, strings.Join(o.values, ", "))
		}
	}
	if err == nil && o.least != nil && v.num < *o.least {
		err = fmt.Errorf("%s is below %v, the least that Nova takes", python.Strip(s), *o.least)
	}
	return v, err
}

// isFactor reports whether Nova accepts an item of a list of NAME=NUMBER. Nova reads a number that is
// too large as infinite.
func isFactor(item string) bool {
	name, factor, _ := strings.Cut(item, "=")
	_, ok := python.Float(factor)
	return name != "" && ok
}

func readBool(s string) (bool, error) {
	switch strings.ToLower(python.Strip(s)) {
	case "true", "1", "on", "yes":
		return true, nil
	case "false", "0", "off", "no":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}

// readList splits at commas; trailing commas are ignored.
func readList(s string) []string {
	s = strings.TrimRight(python.Strip(s), ",")
	if s == "" {
		return []string{}
	}
	items := strings.Split(s, ",")
	for i := range items {
		items[i] = python.Strip(items[i])
	}
	return items
}
