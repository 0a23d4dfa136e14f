package config

import (
	"fmt"
	"strings"
)

// Problems is everything that is wrong with a configuration, one entry each:
// where, which key, what and what would be right.
type Problems struct{ List []string }

// Error gives the problems, one a line when there are several.
func (p *Problems) Error() string {
	if len(p.List) == 1 {
		return p.List[0]
	}
	return fmt.Sprintf("%d problems with the configuration:\n  %s", len(p.List), strings.Join(p.List, "\n  "))
}

func (p *Problems) add(format string, args ...any) {
	p.List = append(p.List, fmt.Sprintf(format, args...))
}

func (p *Problems) err() error {
	if len(p.List) == 0 {
		return nil
	}
	return p
}

// nearest gives the known name most like name, or "" when none is alike.
func nearest(name string, known []string) string {
	best, at := "", len(name)/2+1
	for _, k := range known {
		if d := distance(name, k); d < at {
			best, at = k, d
		}
	}
	return best
}

// distance is the least number of insertions, deletions and substitutions that
// turn a into b.
func distance(a, b string) int {
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

// unknown words the problem of a key that is not there.
func unknown(what, name string, known []string) string {
	if n := nearest(name, known); n != "" {
		return fmt.Sprintf("unknown %s %s; did you mean %s?", what, name, n)
	}
	return fmt.Sprintf("unknown %s %s; known are %s", what, name, strings.Join(known, ", "))
}
