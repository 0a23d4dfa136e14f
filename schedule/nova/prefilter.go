package nova

import "cellgate/schedule"

// prefiltering is a request on its way through Nova's request filters
// (nova/scheduler/request_filter.py), which narrow what Placement is asked for.
type prefiltering struct {
	*guest
	asked   *resourceRequest
	request *schedule.Request
	options *Options
}

// prefilters are Nova's, in its order. Not here: owner_nova_filter, which asks the
// versions of all computes; docs/reference/nova-placement.md has what happens instead. compute_status_filter and those that read aggregates leave
// conditions that the cells evaluate.
//
// Those that ask for a trait which only computes of newer releases report run since the
// release that brought them; of the others no option is set before that, or the release
// does not have the key.
var prefilters = []struct {
	run   func(*prefiltering)
	since int
}{
	{run: (*prefiltering).tenantAggregate},
	{run: (*prefiltering).imageTypeSupport},
	{run: (*prefiltering).computeStatus},
	{run: (*prefiltering).isolatedAggregates},
	{run: (*prefiltering).imageMetadata},
	{run: (*prefiltering).accelerators},
	{run: (*prefiltering).packedVirtqueue},
	{run: (*prefiltering).routedNetworks},
	{run: (*prefiltering).remoteManagedPorts, since: 25},
	{run: (*prefiltering).ephemeralEncryption},
	{run: (*prefiltering).virtioSound},
	{run: (*prefiltering).tpmSecretSecurity, since: 33},
}

// prefilter runs them all; on a rebuild none, since Placement is not asked then.
func (f *findings) prefilter(s *Spec, asked *resourceRequest, r *schedule.Request) {
	if s.Rebuild() {
		return
	}
	p := &prefiltering{guest: newGuest(f, s), asked: asked, request: r, options: f.options}
	for _, x := range prefilters {
		if f.options.has(x.since) {
			x.run(p)
		}
	}
}

// requireRoot asks for a trait of the root provider.
func (p *prefiltering) requireRoot(path, trait string) {
	p.asked.root.add(p.asked.root.required, path, trait)
}
