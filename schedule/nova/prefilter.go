package nova

import "cellgate/schedule"

// prefiltering is the state of a request in Nova's request filters (nova/scheduler/request_filter.py), which restrict
// what Placement is asked for.
type prefiltering struct {
	*guest
	asked   *resourceRequest
	request *schedule.Request
	options *Options
}

// prefilters are Nova's, in its order. owner_nova_filter is not here, because it needs the versions of all computes;
// docs/reference/nova-placement.md describes the replacement. compute_status_filter and those that read aggregates
// leave conditions that the cells evaluate.
//
// since is the first release of a filter that asks for a trait which older computes do not report. Other filters need
// no since: before their release, their option is not set, or the key is not known.
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

// prefilter runs all request filters; on a rebuild none, because Placement is not asked then.
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

// requireRoot requires a trait of the root provider.
func (p *prefiltering) requireRoot(path, trait string) {
	p.asked.root.add(p.asked.root.required, path, trait)
}
