package selection

import (
	"slices"

	"cellgate/internal/wire"
	"cellgate/schedule"
)

// placementBytes serializes a request and its rules. moving is the instance that is moved;
// zero if none is, or if that does not affect the choice of hosts.
func placementBytes(r *schedule.Request, rules *schedule.Rules, moving schedule.ID) []byte {
	asked := *r
	asked.Moving = moving
	return wire.EncodePlacement(&asked, withRequestFilters(r, rules))
}

// withRequestFilters adds the filters that follow from the request instead of the
// configuration: cells run only the filters that the rules name.
func withRequestFilters(r *schedule.Request, rules *schedule.Rules) *schedule.Rules {
	var names []string
	if r.Tree != nil && len(r.Tree.Groups) > 0 {
		names = append(names, schedule.TreeFilter)
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
