package schedule

import (
	"maps"
	"slices"
)

// Strategies are named sets of weighers that a request may ask for:
//
//	nova      Nova's defaults, whatever the gateway is configured to
//	spread    the same: Nova spreads by RAM, CPU and disk
//	balanced  as spread, and by the number of instances as much
//	pack      fill hosts before opening new ones
var strategies = map[string]func() []Weigher{
	"nova": DefaultWeighers, "spread": DefaultWeighers, "balanced": BalancedWeighers, "pack": PackWeighers,
}

// Strategies are the names of all strategies, sorted.
func Strategies() []string { return slices.Sorted(maps.Keys(strategies)) }

// Strategy gives a strategy's weighers; false when there is none of the name.
func Strategy(name string) ([]Weigher, bool) {
	w, ok := strategies[name]
	if !ok {
		return nil, false
	}
	return w(), true
}

// BalancedWeighers spread by the number of instances too, so that hosts of one
// size hold as many small as large ones.
func BalancedWeighers() []Weigher { return append(DefaultWeighers(), Weigher{NumInstancesWeigher, -1}) }

// PackWeighers fill hosts before opening new ones: Nova's documented stacking
// configuration, negative RAM, CPU and disk multipliers.
func PackWeighers() []Weigher {
	w := DefaultWeighers()
	for i := range w {
		switch w[i].Name {
		case RAMWeigher, CPUWeigher, DiskWeigher:
			w[i].Multiplier = -1
		}
	}
	return w
}
