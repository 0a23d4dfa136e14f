package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Codes of a terminal. All are of one length, so that columns stay aligned.
const (
	neutral = "\x1b[39m"
	bold    = "\x1b[01m"
	red     = "\x1b[31m"
	yellow  = "\x1b[33m"
	reset   = "\x1b[0m"
)

// tints are the colours of cells that begin with a word.
var tints = map[string]string{
	"down": red, "forced": red, "unavailable": red, "open": red, "NO_VALID_HOST": red, "failed": red,
	"disabled": yellow, "maintenance": yellow, "half-open": yellow, "no": yellow, "LEGACY": yellow, "SHADOW": yellow,
}

// tint puts a colour around a text on a page that has colours: that of its first word where
// none is given.
func (p *page) tint(text, color string) string {
	if !p.colored {
		return text
	}
	first, _, _ := strings.Cut(text, " ")
	return cmp.Or(color, tints[strings.TrimRight(first, ",:")], neutral) + text + reset
}

// sortBy sorts the rows by a column, as --sort names it.
func (t *table) sortBy(flag string) error {
	name, order, _ := strings.Cut(flag, ":")
	if order != "" && order != "asc" && order != "desc" {
		return fmt.Errorf("--sort %s: %q is none of asc, desc", flag, order)
	}
	var names []string
	for _, h := range t.headers {
		names = append(names, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(h, wideOnly)), " ", "-"))
	}
	column := slices.Index(names, strings.ToLower(name))
	if column < 0 {
		return fmt.Errorf("--sort: there is no column %s; there are %s", name, strings.Join(names, ", "))
	}
	slices.SortStableFunc(t.rows, func(a, b []string) int {
		if order == "desc" {
			a, b = b, a
		}
		return compareCells(a[column], b[column])
	})
	return nil
}

// compareCells compares amounts ("12/256" by what is used), durations, and else texts. "-" is the least.
func compareCells(a, b string) int {
	va, isA := amount(a)
	vb, isB := amount(b)
	if isA && isB {
		return cmp.Or(cmp.Compare(va, vb), cmp.Compare(a, b))
	}
	return cmp.Or(-cmp.Compare(boolInt(a == "-"), boolInt(b == "-")), cmp.Compare(a, b))
}

// amount reads the number that a cell begins with; of a duration, its seconds.
func amount(text string) (float64, bool) {
	if d, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil {
		return d.Seconds(), true
	}
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '-' })
	if end >= 0 {
		text = text[:end]
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
