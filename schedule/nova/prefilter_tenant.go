package nova

// tenantAggregate (require_tenant_aggregate): with
// limit_tenants_to_placement_aggregate, a project that aggregates are named for
// is placed in those. Whether there are any, in whichever cell, is for the
// gateway to know.
func (p *prefiltering) tenantAggregate() {
	if p.options.LimitTenants {
		p.request.Tenant = p.spec.ProjectID
	}
}
