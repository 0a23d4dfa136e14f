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

// prefilters are all that need no other service, in Nova's order. Not here:
// routed_networks_filter and remote_managed_ports_filter ask Neutron, and
// owner_nova_filter the versions of all computes; docs/nova-placement.md has what
// happens instead. compute_status_filter and those that read aggregates leave
// conditions that the cells evaluate.
var prefilters = []func(*prefiltering){
	(*prefiltering).tenantAggregate,
	(*prefiltering).imageTypeSupport,
	(*prefiltering).computeStatus,
	(*prefiltering).isolatedAggregates,
	(*prefiltering).imageMetadata,
	(*prefiltering).accelerators,
	(*prefiltering).packedVirtqueue,
	(*prefiltering).ephemeralEncryption,
	(*prefiltering).virtioSound,
	(*prefiltering).tpmSecretSecurity,
}

// prefilter runs them all; on a rebuild none, since Placement is not asked then.
func (f *findings) prefilter(s *Spec, asked *resourceRequest, r *schedule.Request) {
	if s.Rebuild() {
		return
	}
	p := &prefiltering{guest: newGuest(f, s), asked: asked, request: r, options: f.options}
	for _, run := range prefilters {
		run(p)
	}
}

// requireRoot asks for a trait of the root provider.
func (p *prefiltering) requireRoot(path, trait string) {
	p.asked.root.add(p.asked.root.required, path, trait)
}
