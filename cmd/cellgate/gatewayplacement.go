package main

import (
	"fmt"
	"os"
	"strings"

	"cellgate/gateway"
	"cellgate/gateway/placement"
	"cellgate/gateway/placement/cells"
	"cellgate/internal/config"
	"cellgate/internal/lifecycle"
	"cellgate/internal/security"
)

// addPlacement adds the Placement API, when it is enabled. Its callers have Keystone's tokens: the roles of the REST
// API do not count there.
func (a *assembly) addPlacement(c config.Placement, g *gateway.Gateway, tls *security.Server) error {
	if !c.Enabled {
		return nil
	}
	k := placement.KeystoneConfig{
		AuthURL: c.Keystone.AuthURL, Username: c.Keystone.Username, UserDomain: c.Keystone.UserDomain,
		ProjectName: c.Keystone.ProjectName, ProjectDomain: c.Keystone.ProjectDomain, CacheFor: c.Keystone.CacheFor,
	}
	if c.Keystone.PasswordFile != "" {
		text, err := os.ReadFile(c.Keystone.PasswordFile)
		if err != nil {
			return fmt.Errorf("gateway.placement.keystone.password_file: %w", err)
		}
		k.Password = strings.TrimRight(string(text), "\r\n")
	}
	backend, err := cells.New(cells.Config{DefaultCell: c.DefaultCell}, cells.Deps{Cells: g.Cells(), Log: a.log})
	if err != nil {
		return fmt.Errorf("gateway.placement: %w", err)
	}
	handler, err := placement.New(placement.Config{Keystone: k, TrustLoopback: c.TrustLoopback}, placement.Deps{Backend: backend, Ingress: tls.Ingress(), Log: a.log})
	if err != nil {
		return fmt.Errorf("gateway.placement: %w", err)
	}
	l, err := a.listen(c.Listen, "gateway.placement.listen")
	if err != nil {
		return err
	}
	a.log.Info("the Placement API is served", "at", l.Addr().String())
	a.add(lifecycle.HTTP("Placement API", handler, tls.Listener(l), tls.ErrorLog()))
	return nil
}
