package config

import "slices"

// checkPlacement checks the keys of the Placement API that must fit each other.
func (l *loader) checkPlacement(g Gateway) {
	p := g.Placement
	if !p.Enabled {
		return
	}
	l.address("gateway.placement.listen", p.Listen)
	if host, _, err := splitAddress(p.Listen, 1); err == nil && !IsLoopback(host) && !g.Insecure && !g.TLS.Encrypts() {
		l.bad("gateway.placement.listen", "%s is not a loopback address: set gateway.tls.cert and gateway.tls.key for TLS; or give --insecure to let tokens cross the network in the clear", p.Listen)
	}
	l.apart("gateway.http", g.HTTP, "gateway.placement.listen", p.Listen)
	l.apart("gateway.grpc", g.GRPC, "gateway.placement.listen", p.Listen)
	if p.DefaultCell != "" && !slices.ContainsFunc(g.Cells, func(c GatewayCell) bool { return c.Name == p.DefaultCell }) {
		l.bad("gateway.placement.default_cell", "there is no cell %q in gateway.cells", p.DefaultCell)
	}
	switch k := p.Keystone; {
	case k.AuthURL == "" && !p.TrustLoopback:
		l.bad("gateway.placement.keystone.auth_url", "must be set, or trust_loopback: else nobody may ask")
	case k.AuthURL != "":
		l.needed("gateway.placement.keystone.username", k.Username)
		l.needed("gateway.placement.keystone.password_file", k.PasswordFile)
		l.needed("gateway.placement.keystone.project_name", k.ProjectName)
	}
}
