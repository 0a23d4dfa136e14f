package nova

import "cellgate/schedule"

// isolatedAggregates (isolate_aggregates): with
// enable_isolated_aggregate_filtering, no host in an aggregate whose metadata
// requires a trait that neither the flavor nor the image does.
func (p *prefiltering) isolatedAggregates() {
	if p.options.IsolateAggregates {
		p.request.Isolated = &schedule.Isolation{Traits: p.asked.requiredTraits()}
	}
}
