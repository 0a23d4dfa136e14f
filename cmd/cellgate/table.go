package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// table prints rows under headers, aligned. A header that begins with wideOnly names a column
// that only "-o wide" shows, so that a row fits 100 columns.
type table struct {
	w *tabwriter.Writer
	// hidden says which columns are not shown.
	hidden []bool
}

const wideOnly = "+"

// wide is an output with room for every column.
type wide struct{ io.Writer }

func newTable(w io.Writer, headers ...any) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 4, 2, ' ', 0), hidden: make([]bool, len(headers))}
	_, all := w.(wide)
	texts := make([]string, len(headers))
	for i, h := range headers {
		text, only := strings.CutPrefix(fmt.Sprint(h), wideOnly)
		texts[i], t.hidden[i] = text, only && !all
	}
	t.line(texts)
	return t
}

// row adds a row; an empty cell is shown as "-", and what is no text as printable has it.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = printable(fmt.Sprint(c)); texts[i] == "" {
			texts[i] = "-"
		}
	}
	t.line(texts)
}

// line adds the shown columns of a line; a tabwriter keeps its error for end.
func (t *table) line(texts []string) {
	shown := make([]string, 0, len(texts))
	for i, text := range texts {
		if !t.hidden[i] {
			shown = append(shown, text)
		}
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(shown, "\t"))
}

// printable gives a text whose characters that are not printed, as those that end a line or
// speak to the terminal, are as Go writes them: \n, \x1b.
func printable(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return b.String()
}

// end prints the table.
func (t *table) end() error { return t.w.Flush() }

// of gives "used/capacity" of whole amounts.
func of[N int32 | int64](used, capacity N) string { return fmt.Sprintf("%d/%d", used, capacity) }

// gib shows MiB as GiB.
func gib(mib int64) int64 { return mib >> 10 }
