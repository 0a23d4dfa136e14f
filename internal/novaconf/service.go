package novaconf

// Service is a section such as [placement]: where a service is, and the account by which Nova calls
// it, as keystoneauth has it for the auth_type password. Empty for what is not set.
type Service struct {
	AuthType, AuthURL, Username, Password                                         string
	UserDomainName, UserDomainID, ProjectName, ProjectDomainName, ProjectDomainID string
	EndpointOverride, RegionName, CAFile                                          string
	// Interfaces are those of the catalog, in the order of preference.
	Interfaces []string
}

// service reads such a section. Its other options are those of keystoneauth, which no scheduler
// adds to, so none is unknown.
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

// routedNetworks notes that Neutron has to be asked, and by which account.
func (t *translation) routedNetworks() {
	option := place{scheduler, "query_placement_for_routed_network_aggregates"}
	if t.values[option].bool && t.Neutron.AuthURL == "" {
		t.note(t.set[option], option.String(), "is on, and [neutron] has no account: requests that name ports or networks are refused")
	}
}
