package spell

import "fmt"

// Nearest gives the known name most like name, or "" when none is alike: with more than
// len(name)/per changes it is another name.
func Nearest(name string, known []string, per int) string {
	best, at := "", len(name)/per+1
	for _, k := range known {
		if d := Distance(name, k); d < at {
			best, at = k, d
		}
	}
	return best
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

// Meant asks whether a name was meant, as the end of a sentence; "" for no name.
func Meant(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", name)
}
