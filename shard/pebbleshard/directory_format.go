package pebbleshard

import (
	"fmt"
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
	want := formatText(opts)
	if text == want {
		return nil
	}
	is, must := strings.Split(text, "\n"), strings.Split(want, "\n")
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("has an empty %s file: it is damaged; bring the file back, or give a new directory", formatFile)
	case is[0] != must[0]:
		return fmt.Errorf("is not a cellgate shard: line 1 of its %s file is %q, not %q; give an empty or a new directory", formatFile, is[0], must[0])
	case len(is) > 1 && strings.HasPrefix(is[1], "format ") && is[1] != must[1]:
		return fmt.Errorf("has %q in its %s file, and this program reads %q; use the program that wrote it, bring the file back, or give a new directory", is[1], formatFile, must[1])
	case len(is) != len(must) || is[1] != must[1] || !strings.HasPrefix(is[2], "cell ") || !strings.HasPrefix(is[3], "uuid ") || is[4] != "":
		return fmt.Errorf("has a damaged %s file: %q; bring the file back, or give a new directory", formatFile, text)
	}
	return fmt.Errorf("is of %s, %s, not of %s, %s; give each cell its own directory", is[2], is[3], must[2], must[3])
}
