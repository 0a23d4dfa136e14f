package nova

import (
	"slices"

	"cellgate/schedule"
)

// isolatedAggregates (isolate_aggregates): with
// enable_isolated_aggregate_filtering, no host in an aggregate whose metadata
// requires a trait that neither the flavor nor the image does. Nova does not count
// request_level_params among what they require; the typed form's required_traits
// are the flavor's, and count.
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
