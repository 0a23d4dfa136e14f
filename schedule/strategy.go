package schedule

import (
	"maps"
	"slices"
)

// strategies are named sets of weighers that a request may ask for:
//
//	nova      Nova's defaults, whatever the gateway is configured to
//	spread    the same: Nova spreads by RAM, CPU and disk
//	balanced  as spread, and by the number of instances as much
//	pack      fill hosts before opening new ones
var strategies = map[string]func() []Weigher{
	"nova": DefaultWeighers, "spread": DefaultWeighers, "balanced": BalancedWeighers, "pack": PackWeighers,
}

// Strategies lists the names of all strategies, sorted.
func Strategies() []string { return slices.Sorted(maps.Keys(strategies)) }

// Strategy gives a strategy's weighers; false if the name is unknown.
func Strategy(name string) ([]Weigher, bool) {
	w, ok := strategies[name]
	if !ok {
		return nil, false
	}
	return w(), true
}

// BalancedWeighers also spread by the number of instances, so that hosts of one size hold similar numbers of them.
func BalancedWeighers() []Weigher { return append(DefaultWeighers(), Weigher{NumInstancesWeigher, -1}) }

// PackWeighers fill hosts before they use empty ones. This is Nova's documented stacking configuration: negative
// multipliers of RAM, CPU and disk.
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
