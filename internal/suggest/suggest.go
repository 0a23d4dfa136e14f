package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the known name most like name, the first of several. It returns "" if none is
// similar: with more than len(name)/per changes, a name counts as different.
func Nearest(name string, known []string, per int) string {
	if all := nearest(name, known, per); len(all) > 0 {
		return all[0]
	}
	return ""
}

// nearest returns all known names that are as similar as the most similar one, each once.
func nearest(name string, known []string, per int) (all []string) {
	at := len(name) / per
	for _, k := range known {
		if max(len(name), len(k))-min(len(name), len(k)) > at {
			continue // the distance is that at least
		}
		switch d := Distance(name, k); {
		case d < at, d == at && len(all) == 0:
			all, at = []string{k}, d
		case d == at && !slices.Contains(all, k):
			all = append(all, k)
		}
	}
	return all
}

// Distance is the least number of insertions, deletions and substitutions that
// turn a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// shownMeant is how many equally similar names are shown; if there are more, none is.
const shownMeant = 3

// MeantOf is Meant for all known names that are most like a name (nearest).
func MeantOf(name string, known []string, per int) string {
	all := nearest(name, known, per)
	if len(all) == 0 || len(all) > shownMeant {
		return ""
	}
	for i, k := range all {
		all[i] = fmt.Sprintf("%q", k)
	}
	last := len(all) - 1
	text := all[last]
	if last > 0 {
		text = strings.Join(all[:last], ", ") + " or " + text
	}
	return "; did you mean " + text + "?"
}

// Meant is the end of a sentence that asks whether a name was meant; "" for no name.
func Meant(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", name)
}
