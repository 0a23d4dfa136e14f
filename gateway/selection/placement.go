package selection

import (
	"slices"

	"cellgate/internal/wire"
	"cellgate/schedule"
)

// placementBytes serializes a request of the move of an instance, and its rules. A zero
// moving: no instance is moved, or which one bears on no host.
func placementBytes(r *schedule.Request, rules *schedule.Rules, moving schedule.ID) []byte {
	asked := *r
	asked.Moving = moving
	return wire.EncodePlacement(&asked, withRequestFilters(r, rules))
}

// withRequestFilters names the filters that follow from the request and not from the
// configuration: a rule runs the filters that it names.
func withRequestFilters(r *schedule.Request, rules *schedule.Rules) *schedule.Rules {
	var names []string
	if r.Tree != nil && len(r.Tree.Groups) > 0 {
		names = append(names, schedule.TreeFilter)
	}
	if r.Tree.Places() {
		names = append(names, schedule.PlacesFilter)
	}
	if rules.Expression != nil {
		names = append(names, schedule.ConfiguredExpressionFilter)
	}
	if r.Expression != nil {
		names = append(names, schedule.ExpressionFilter)
	}
	out := *rules
	for _, name := range names {
		if !slices.Contains(out.Filters, name) {
			out.Filters = append(slices.Clip(out.Filters), name)
		}
	}
	return &out
}
