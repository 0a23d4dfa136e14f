package nova

// tenantAggregate (require_tenant_aggregate): with limit_tenants_to_placement_aggregate, a project is placed in the
// aggregates reserved for it. Only the gateway can know whether any cell has such an aggregate.
func (p *prefiltering) tenantAggregate() {
	if p.options.LimitTenants {
		p.request.Tenant = p.spec.ProjectID
	}
}
