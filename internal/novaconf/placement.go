package novaconf

// Placement is [placement]: where the Placement API is, and the account by which Nova calls it, as
// keystoneauth has it for the auth_type password. Empty for what is not set.
type Placement struct {
	AuthType, AuthURL, Username, Password                                         string
	UserDomainName, UserDomainID, ProjectName, ProjectDomainName, ProjectDomainID string
	EndpointOverride, RegionName, CAFile                                          string
	// Interfaces are those of the catalog, in the order of preference.
	Interfaces []string
}

// placement reads [placement]. Its other options are those of keystoneauth, which no scheduler
// adds to, so none is unknown.
func (t *translation) placement() Placement {
	get := func(names ...string) string {
		var places []place
		for _, n := range names {
			places = append(places, place{"placement", n})
		}
		if a := t.last(places...); a != nil {
			return t.text(a)
		}
		return ""
	}
	return Placement{
		AuthType: get("auth_type", "auth_plugin"), AuthURL: get("auth_url"),
		Username: get("username", "user_name", "user-name"), Password: get("password"),
		UserDomainName: get("user_domain_name"), UserDomainID: get("user_domain_id"), ProjectName: get("project_name", "tenant_name"),
		ProjectDomainName: get("project_domain_name"), ProjectDomainID: get("project_domain_id"),
		EndpointOverride: get("endpoint_override"), RegionName: get("region_name"), CAFile: get("cafile"),
		Interfaces: readList(get("valid_interfaces")),
	}
}
