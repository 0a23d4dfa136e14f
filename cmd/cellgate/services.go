package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"cellgate/gateway/neutron"
	"cellgate/internal/config"
	"cellgate/internal/keystone"
	"cellgate/internal/novaconf"
)

// segments makes the client that asks Neutron which hosts reach a network. It gives nil unless Nova's
// option is on and nova.conf has an account in [neutron].
func segments(on bool, n, p novaconf.Service) (*neutron.Segments, error) {
	if !on || n.AuthURL == "" {
		return nil, nil //nolint:nilnil // requests that name networks are refused, if the option is on
	}
	network, err := serviceOf("neutron", 2, n)
	placement, perr := serviceOf("placement", 1, p)
	if err = errors.Join(err, perr); err != nil {
		return nil, fmt.Errorf("gateway.nova.query_placement_for_routed_network_aggregates: %w", err)
	}
	return &neutron.Segments{Neutron: network, Placement: placement}, nil
}

// servicesProblem reports which files and accounts of other services the gateway cannot use.
func servicesProblem(g config.Gateway, d *configDetails) error {
	var errs []error
	if g.Bus.Enabled {
		_, err := busTLS(g.Bus)
		_, perr := busPlacement(g.Bus, d.placement)
		errs = append(errs, err, perr)
	}
	if g.Placement.Enabled {
		_, err := keystonePassword(g.Placement)
		errs = append(errs, err)
	}
	_, err := segments(g.Nova.RoutedNetworks, d.neutron, d.placement)
	return errors.Join(append(errs, err)...)
}

// serviceTypes are the types in Keystone's catalog, by the section of nova.conf.
var serviceTypes = map[string]string{"placement": "placement", "neutron": "network"}

// serviceOf makes the client of a service from its section of nova.conf.
func serviceOf(section string, version int, p novaconf.Service) (*keystone.Service, error) {
	wrong := func(why string) (*keystone.Service, error) {
		return nil, fmt.Errorf("[%s] of gateway.nova_conf %s", section, why)
	}
	switch {
	case p.AuthURL == "" || p.Username == "" || p.Password == "":
		return wrong("must have auth_url, username and password")
	case p.AuthType != "" && p.AuthType != "password" && p.AuthType != "v3password":
		return wrong(fmt.Sprintf("has auth_type %s; password is supported", p.AuthType))
	}
	out := &keystone.Service{
		Type: serviceTypes[section], Section: section, Version: version,
		Auth: gophercloud.AuthOptions{
			IdentityEndpoint: p.AuthURL, Username: p.Username, Password: p.Password, DomainID: p.UserDomainID, AllowReauth: true,
			Scope: &gophercloud.AuthScope{ProjectName: p.ProjectName, DomainID: p.ProjectDomainID},
		},
		Endpoint: p.EndpointOverride, Region: p.RegionName, Interfaces: p.Interfaces,
	}
	if p.UserDomainID == "" {
		out.Auth.DomainName = p.UserDomainName
	}
	if p.ProjectDomainID == "" {
		out.Auth.Scope.DomainName = p.ProjectDomainName
	}
	if p.CAFile != "" {
		roots, err := readCAs(p.CAFile)
		if err != nil {
			return wrong("cafile: " + err.Error())
		}
		out.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	}
	return out, nil
}
