package nova

// computeStatus (compute_status_filter) excludes hosts whose provider has the trait of a disabled compute, whatever
// the options.
func (p *prefiltering) computeStatus() {
	root := p.asked.root
	root.add(root.forbidden, p.spec.Path+".request_level_params.root_forbidden", "COMPUTE_STATUS_DISABLED")
}
