package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cellgate/internal/suggest"
)

// Codes for a terminal. All have the same length, so that columns stay aligned.
const (
	neutral = "\x1b[39m"
	bold    = "\x1b[01m"
	red     = "\x1b[31m"
	yellow  = "\x1b[33m"
	reset   = "\x1b[0m"
)

// tints are the colours of cells, by the word that a cell begins with.
var tints = map[string]string{
	"down": red, "forced": red, "unavailable": red, "open": red, "NO_VALID_HOST": red, "failed": red,
	"disabled": yellow, "maintenance": yellow, "half-open": yellow, "no": yellow, "LEGACY": yellow, "SHADOW": yellow,
}

// tint colours a text, if the page has colours. Without a color it takes the one of the text's first
// word.
func (p *page) tint(text, color string) string {
	if !p.colored {
		return text
	}
	first, _, _ := strings.Cut(text, " ")
	return cmp.Or(color, tints[strings.TrimRight(first, ",:")], neutral) + text + reset
}

// pageWidth bounds the columns of a line of a client's table, where its words allow it. -o wide has no
// bound.
const pageWidth = 100

// leastColumn is the least width to which columns breaks a column of words. A wider word stays whole.
const leastColumn = 24

// leastWidth gives the least width for column i of lines.
func leastWidth(lines [][]string, i int) int {
	least := leastColumn
	for _, line := range lines {
		if i < len(line) {
			for _, word := range strings.Fields(line[i]) {
				least = max(least, utf8.RuneCountInString(word))
			}
		}
	}
	return least
}

// columns writes lines of cells, aligned. It breaks the widest columns of words until a line fits the
// page's width. The first line may be a header.
func (p *page) columns(lines [][]string, header bool) {
	const gap = 2
	var widths []int
	for _, line := range lines {
		for i, text := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for p.width > 0 {
		excess := -gap - p.width
		for _, w := range widths {
			excess += w + gap
		}
		if excess <= 0 {
			break
		}
		widest := -1
		for i, w := range widths {
			breakable := func(line []string) bool { return i < len(line) && strings.Contains(line[i], " ") }
			if (widest < 0 || w > widths[widest]) && slices.ContainsFunc(lines, breakable) && w > leastWidth(lines, i) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest] = max(leastWidth(lines, widest), widths[widest]-excess)
	}
	for n, line := range lines {
		cells, most := make([][]string, len(line)), 1
		for i, text := range line {
			cells[i] = broken(text, widths[i])
			most = max(most, len(cells[i]))
		}
		color := ""
		if header && n == 0 {
			color = bold
		}
		for k := range most {
			var b strings.Builder
			at, end := 0, 0 // columns written, and where the next cell begins
			for i := range cells {
				if k < len(cells[i]) {
					b.WriteString(strings.Repeat(" ", end-at))
					b.WriteString(p.tint(cells[i][k], color))
					at = end + utf8.RuneCountInString(cells[i][k])
				}
				end += widths[i] + gap
			}
			fmt.Fprintln(&p.Buffer, b.String())
		}
	}
}

// broken breaks a text into lines of a width. It keeps parts between commas together where they fit,
// else words. A wider word stays whole.
func broken(text string, width int) []string {
	var words []string
	for _, part := range strings.SplitAfter(text, ", ") {
		if utf8.RuneCountInString(strings.TrimRight(part, " ")) <= width {
			words = append(words, part)
		} else {
			words = append(words, strings.SplitAfter(part, " ")...)
		}
	}
	var lines []string
	line := ""
	for _, word := range words {
		if line != "" && utf8.RuneCountInString(line)+utf8.RuneCountInString(strings.TrimRight(word, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line += word
	}
	return append(lines, line)
}

// sortBy sorts the rows by the column that --sort names.
func (t *table) sortBy(flag string) error {
	name, order, _ := strings.Cut(flag, ":")
	if order != "" && order != "asc" && order != "desc" {
		return noneOf("--sort "+flag, order, []string{"asc", "desc"})
	}
	names := t.columnNames()
	column := slices.Index(names, strings.ToLower(name))
	if column < 0 {
		return fmt.Errorf("--sort: there is no column %s; there are %s%s", name, strings.Join(names, ", "), suggest.MeantOf(strings.ToLower(name), names, 2))
	}
	slices.SortStableFunc(t.rows, func(a, b []string) int {
		if order == "desc" {
			a, b = b, a
		}
		return compareCells(a[column], b[column])
	})
	return nil
}

// columnNames gives the names of the columns for --sort.
func (t *table) columnNames() (names []string) {
	for _, h := range t.headers {
		names = append(names, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(h, wideOnly)), " ", "-"))
	}
	return names
}

// compareCells compares amounts (of "12/256" the amount in use) and durations as numbers, and else
// texts. "-" is the least.
func compareCells(a, b string) int {
	va, isA := amount(a)
	vb, isB := amount(b)
	switch {
	case isA && isB:
		return cmp.Or(cmp.Compare(va, vb), cmp.Compare(a, b))
	case a == "-" && b != "-":
		return -1
	case b == "-" && a != "-":
		return 1
	}
	return cmp.Compare(a, b)
}

// amount reads the number that a cell begins with, or a duration in seconds.
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
