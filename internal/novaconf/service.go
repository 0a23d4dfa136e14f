package novaconf

// Service is a section such as [placement]: where a service is, and the account with which Nova calls
// it, in the form of keystoneauth's auth_type password. Fields that are not set are empty.
type Service struct {
	AuthType, AuthURL, Username, Password                                         string
	UserDomainName, UserDomainID, ProjectName, ProjectDomainName, ProjectDomainID string
	EndpointOverride, RegionName, CAFile                                          string
	// Interfaces are interfaces of the catalog, in the order of preference.
	Interfaces []string
}

// service reads such a section. The section's other options belong to keystoneauth, so none counts as
// unknown.
func (t *translation) service(section string) Service {
	get := func(names ...string) string {
		var places []place
		for _, n := range names {
			places = append(places, place{section, n})
		}
		if a := t.last(places...); a != nil {
			return t.text(a)
		}
		return ""
	}
	return Service{
		AuthType: get("auth_type", "auth_plugin"), AuthURL: get("auth_url"),
		Username: get("username", "user_name", "user-name"), Password: get("password"),
		UserDomainName: get("user_domain_name"), UserDomainID: get("user_domain_id"), ProjectName: get("project_name", "tenant_name"),
		ProjectDomainName: get("project_domain_name"), ProjectDomainID: get("project_domain_id"),
		EndpointOverride: get("endpoint_override"), RegionName: get("region_name"), CAFile: get("cafile"),
		Interfaces: readList(get("valid_interfaces")),
	}
}

// routedNetworks adds a note if Neutron must be asked and [neutron] has no account.
func (t *translation) routedNetworks() {
	option := place{scheduler, "query_placement_for_routed_network_aggregates"}
	if t.values[option].bool && t.Neutron.AuthURL == "" {
		t.note(t.set[option], option.String(), "is on, and [neutron] has no account: requests that name ports or networks are refused")
	}
}
