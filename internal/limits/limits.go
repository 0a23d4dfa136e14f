package limits

import "math"

const (
	// Subset is the most best hosts among which one is picked: all of them are sent.
	Subset = 10_000
	// Weight is the largest absolute value of a factor or a weight, which keeps sums of weights finite.
	Weight = 1e100
	// NovaDepth is how deep an object of Nova may nest lists and objects. Nova's own nest about a dozen levels.
	NovaDepth = 64
)

// IsWeight reports whether the absolute value of x is at most Weight.
func IsWeight(x float64) bool { return math.Abs(x) <= Weight }
