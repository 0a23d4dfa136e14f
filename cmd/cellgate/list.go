package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// maxPage is the most that one page of a list may hold.
const maxPage = 1000

// limit is how many rows of a list are wanted; 0 for all.
type limit struct{ n int }

func limitFlag(cmd *cobra.Command, what string) *limit {
	l := &limit{}
	cmd.Flags().IntVar(&l.n, "limit", 100, what+" to show; 0 for all")
	return l
}

func (l *limit) check(cmd *cobra.Command) error {
	if l.n < 0 {
		return usage(cmd, fmt.Errorf("--limit: %d is below 0", l.n))
	}
	return nil
}

// pageSize gives how many to ask for when have are there of limit (0: all).
func pageSize(limit, have int) int32 {
	if limit == 0 {
		return maxPage
	}
	return int32(min(limit-have, maxPage))
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// nothing stands in place of a table without rows.
func nothing(w io.Writer, what string, missing []string) error {
	if _, err := fmt.Fprintf(w, "no %s match\n", what); err != nil {
		return err
	}
	return footer(w, what, 0, false, missing)
}

// footer says what a list lacks.
func footer(w io.Writer, what string, shown int, more bool, missing []string) error {
	if more {
		if _, err := fmt.Fprintf(w, "%d %s shown; there are more: --limit 0 shows all\n", shown, what); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		_, err := fmt.Fprintf(w, "without those of %s: no answer\n", strings.Join(missing, ", "))
		return err
	}
	return nil
}
