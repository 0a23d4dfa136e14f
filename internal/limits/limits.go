package limits

import "math"

const (
	// Subset is the most best hosts of which one is picked: all of them travel.
	Subset = 10_000
	// Weight is the greatest amount of a factor or a weight: it keeps sums of weights
	// finite.
	Weight = 1e100
)

// IsWeight reports whether x is a number of at most Weight, of either sign.
func IsWeight(x float64) bool { return math.Abs(x) <= Weight }
