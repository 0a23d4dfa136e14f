package novaconf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of an option, as oslo.config has them.
type kind int

const (
	text kind = iota
	boolean
	integer
	number
	list
	// several may be given again; every assignment counts.
	several
)

// value is an option's, read.
type value struct {
	text string
	bool bool
	// num is a number's or an integer's.
	num  float64
	int  int64
	list []string
}

// read reads a value as oslo.config's types do.
func (o *option) read(s string) (value, error) {
	v := value{text: s}
	var err error
	switch o.kind {
	case boolean:
		v.bool, err = readBool(s)
	case integer:
		// One beyond 64 bits counts as the last within.
		if v.int, err = strconv.ParseInt(strings.TrimSpace(s), 10, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return v, fmt.Errorf("%q is not a whole number", s)
		}
		v.num, err = float64(v.int), nil
	case number:
		if v.num, err = parseFloat(s); err != nil || v.num != v.num || v.num-v.num != 0 {
			return v, fmt.Errorf("%q is not a number", s)
		}
	case list:
		v.list = readList(s)
	case text, several:
		if len(o.words) > 0 && s != "" && !slices.Contains(o.words, s) {
			err = fmt.Errorf("%q is none of %s", s, strings.Join(o.words, ", "))
		}
	}
	if err == nil && o.least != nil && v.num < *o.least {
		err = fmt.Errorf("%s is below %v, the least that Nova takes", strings.TrimSpace(s), *o.least)
	}
	return v, err
}

// parseFloat reads what Python's float does but for digits parted by _; hexadecimal
// ones are none.
func parseFloat(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "xX_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, 64)
}

// isFactor reports whether Nova takes an item of a list of NAME=NUMBER. A number too
// great is infinite to it.
func isFactor(item string) bool {
	name, factor, _ := strings.Cut(item, "=")
	_, err := parseFloat(factor)
	return name != "" && (err == nil || errors.Is(err, strconv.ErrRange))
}

func readBool(s string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1", "on", "yes":
		return true, nil
	case "false", "0", "off", "no":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}

// readList splits at commas; commas at the end do not count.
func readList(s string) []string {
	s = strings.TrimRight(strings.TrimSpace(s), ",")
	if s == "" {
		return []string{}
	}
	items := strings.Split(s, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
