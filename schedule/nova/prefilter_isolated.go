package nova

import (
	"slices"

	"cellgate/schedule"
)

// isolatedAggregates (isolate_aggregates): with enable_isolated_aggregate_filtering, hosts are excluded if an
// aggregate of theirs requires a trait that neither the flavor nor the image requires. As in Nova,
// request_level_params do not count. The typed form's required_traits are the flavor's, so they count.
func (p *prefiltering) isolatedAggregates() {
	if p.options.IsolateAggregates {
		traits := p.asked.requiredTraits()
		if p.spec.RequiredTraitsField == "" {
			traits = append(traits, p.spec.RequiredTraits...)
			slices.Sort(traits)
			traits = slices.Compact(traits)
		}
		p.request.Isolated = &schedule.Isolation{Traits: traits}
	}
}
