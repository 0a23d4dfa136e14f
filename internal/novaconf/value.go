package novaconf

import (
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
	num  float64
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
		var n int64
		if n, err = strconv.ParseInt(strings.TrimSpace(s), 10, 64); err != nil {
			return v, fmt.Errorf("%q is not a whole number", s)
		}
		v.num = float64(n)
	case number:
		if v.num, err = strconv.ParseFloat(strings.TrimSpace(s), 64); err != nil || v.num != v.num || v.num-v.num != 0 {
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
