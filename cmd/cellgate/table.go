package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table prints rows under headers, aligned.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, headers ...any) *table {
	t := &table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	t.row(headers...)
	return t
}

// row adds a row; an empty cell is shown as "-".
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = fmt.Sprint(c); texts[i] == "" {
			texts[i] = "-"
		}
	}
	// A tabwriter keeps its error for Flush.
	_, _ = fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// end prints the table.
func (t *table) end() error { return t.w.Flush() }

// of gives "used/capacity" of whole amounts.
func of[N int32 | int64](used, capacity N) string { return fmt.Sprintf("%d/%d", used, capacity) }

// gib shows MiB as GiB.
func gib(mib int64) int64 { return mib >> 10 }
