package pebbleshard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// FormatVersion is the version of the layout in doc.go and keys.go, and of the rows in storagev1. This package reads
// and writes only this version.
const FormatVersion = 1

// formatTitle is the first line of FORMAT.
const formatTitle = "cellgate shard"

// formatText is the text of FORMAT, four lines: the title, the version of the layout, the cell's name and its uuid.
func formatText(opts Options) string {
	return fmt.Sprintf("%s\nformat %d\ncell %s\nuuid %s\n", formatTitle, FormatVersion, opts.Cell, opts.CellUUID)
}

// checkFormat says what in FORMAT differs from the options, the most important first. The caller puts the directory's
// name before its errors.
func checkFormat(text string, opts Options) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("has an empty %s file: it is damaged; bring the file back, or give a new directory", formatFile)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != formatTitle {
		return fmt.Errorf("is not a cellgate shard: line 1 of its %s file is %q, not %q; give an empty or a new directory", formatFile, lines[0], formatTitle)
	}
	version, err := lineOf(lines, 1, "format ")
	if err != nil {
		return err
	}
	// Only text that this program would write: no sign, no leading zeros.
	n, err := strconv.Atoi(version)
	if err != nil || n < 1 || strconv.Itoa(n) != version {
		return damaged(2, lines[1], "a format version, a whole number from 1")
	}
	if n != FormatVersion {
		return fmt.Errorf("has format version %d, this program reads version %d; use the program that wrote it, or give a new directory", n, FormatVersion)
	}
	cell, err := lineOf(lines, 2, "cell ")
	if err != nil {
		return err
	}
	uuid, err := lineOf(lines, 3, "uuid ")
	switch {
	case err != nil:
		return err
	case len(lines) > 4:
		return damaged(5, lines[4], "nothing: there are four lines")
	case cell != opts.Cell || uuid != opts.CellUUID:
		return fmt.Errorf("is of cell %q (uuid %q), not of cell %q (uuid %q); give each cell its own directory", cell, uuid, opts.Cell, opts.CellUUID)
	}
	return nil
}

// lineOf gives the text after key in line i, counted from 0.
func lineOf(lines []string, i int, key string) (string, error) {
	if i >= len(lines) {
		return "", damaged(i+1, "", fmt.Sprintf("%q and a value", key))
	}
	value, ok := strings.CutPrefix(lines[i], key)
	if !ok {
		return "", damaged(i+1, lines[i], fmt.Sprintf("%q and a value", key))
	}
	return value, nil
}

// damaged is the error of a line of FORMAT, counted from 1.
func damaged(line int, is, want string) error {
	if is == "" {
		is = "missing"
	} else {
		is = strconv.Quote(is)
	}
	return errors.New("has a damaged " + formatFile + " file: line " + strconv.Itoa(line) + " is " + is + ", must be " + want +
		"; bring the file back, or give a new directory")
}
