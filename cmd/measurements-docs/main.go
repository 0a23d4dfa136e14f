// Command measurements-docs writes docs/reference/measurements.md from the raw results in
// docs/measurements, one file a measurement. make measurements-doc runs it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// result is one measurement: what somebody ran where, and what came out.
type result struct {
	Title   string `json:"title"`
	Shows   string `json:"shows"`
	Command string `json:"command"`
	Date    string `json:"date"`
	Commit  string `json:"commit"`
	Machine string `json:"machine"`
	// Note may be empty.
	Note   string `json:"note"`
	Tables []struct {
		Caption string     `json:"caption"`
		Columns []string   `json:"columns"`
		Rows    [][]string `json:"rows"`
	} `json:"tables"`
}

func main() {
	page, err := render(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measurements-docs:", err)
		os.Exit(1)
	}
}

// render makes the page from the results in a folder, in the order of their files.
func render(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Measurements\n\n`make measurements-doc` writes this page from the raw results in [`docs/measurements`](../measurements).\n"+
		"Each result names its command, so that you can run it on your machine. Other work on a machine changes its numbers:\n"+
		"compare only rows of one run, or runs whose *yardstick* agrees. The yardstick is what a multiplication, a random read of\n"+
		"memory and a byte over loopback take.\n")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r.write(&b, filepath.Base(file))
	}
	return b.Bytes(), nil
}

// decode reads a result. It refuses one that nobody could repeat or read.
func decode(text []byte) (r result, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, err
	}
	for name, value := range map[string]string{"title": r.Title, "shows": r.Shows, "command": r.Command, "date": r.Date, "commit": r.Commit, "machine": r.Machine} {
		if value == "" {
			err = errors.Join(err, fmt.Errorf("%s is missing", name))
		}
	}
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if len(row) != len(t.Columns) {
				err = errors.Join(err, fmt.Errorf("a row of %d cells under %d columns: %v", len(row), len(t.Columns), row))
			}
		}
	}
	return r, err
}

func (r *result) write(b *bytes.Buffer, file string) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n`%s` · %s · %s · %s · [raw](../measurements/%s)\n", r.Title, r.Shows, r.Command, r.Date, r.Commit, r.Machine, file)
	if r.Note != "" {
		fmt.Fprintf(b, "\n%s\n", r.Note)
	}
	for _, t := range r.Tables {
		if t.Caption != "" {
			fmt.Fprintf(b, "\n%s:\n", t.Caption)
		}
		fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
		for _, row := range t.Rows {
			fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		}
	}
}
