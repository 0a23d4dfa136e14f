package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"cellgate/gateway"
	"cellgate/gateway/legacy/novadb"
	"cellgate/gateway/placement"
	"cellgate/gateway/placement/cells"
	"cellgate/gateway/rest"
	"cellgate/internal/config"
	"cellgate/internal/lifecycle"
	"cellgate/internal/security"
)

// listenPlacement opens the listener of the Placement API; flag names the setting of its address. It
// gives nil when the API is not enabled.
func (a *assembly) listenPlacement(c config.Placement, flag string) (net.Listener, error) {
	if !c.Enabled {
		return nil, nil
	}
	return a.listen(c.Listen, flag)
}

// addPlacement adds the Placement API on l, when it is enabled. Keystone's tokens admit its callers: the
// roles of the REST API do not count there.
func (a *assembly) addPlacement(of config.Gateway, g *gateway.Gateway, tls *security.Server, l net.Listener) error {
	c := of.Placement
	if !c.Enabled {
		return nil
	}
	k := placement.KeystoneConfig{
		AuthURL: c.Keystone.AuthURL, Username: c.Keystone.Username, UserDomain: c.Keystone.UserDomain,
		ProjectName: c.Keystone.ProjectName, ProjectDomain: c.Keystone.ProjectDomain, CacheFor: c.Keystone.CacheFor,
	}
	var err error
	if k.Password, err = keystonePassword(c); err != nil {
		return err
	}
	hostCell, err := hostCells(of)
	if err != nil {
		return err
	}
	if c.DefaultCell != "" && len(of.Cells) > 1 && hostCell == nil {
		a.log.Warn("the Placement API does not know which cell a compute is of, since gateway.legacy names no database: the computes of all cells but the default one must name theirs in the path, as /cells/NAME",
			"default_cell", c.DefaultCell)
	}
	backend := cells.New(cells.Config{DefaultCell: c.DefaultCell}, cells.Deps{Cells: g.Cells(), HostCell: hostCell, Log: a.log})
	handler := placement.New(placement.Config{Keystone: k, TrustLoopback: c.TrustLoopback, AcceptRepeats: c.AcceptRepeats}, placement.Deps{
		Backend: backend, HasCell: backend.HasCell, Ingress: tls.Ingress(), OnAnswer: a.telemetry.Placement(placement.Requests()).Answered, Log: a.log,
	})
	if c.TrustLoopback {
		handler = tls.ByOwnName(handler, l.Addr(), rest.WriteError)
	}
	a.log.Info("the Placement API is served", "at", l.Addr().String())
	a.add(lifecycle.HTTP("Placement API", handler, tls.ListenerWithoutCertificates(l), tls.ErrorLog()))
	return nil
}

// keystonePassword reads the password of the account that validates tokens; "" without a file.
func keystonePassword(c config.Placement) (string, error) {
	if c.Keystone.PasswordFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.Keystone.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("gateway.placement.keystone.password_file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("gateway.placement.keystone.password_file: %s is empty", c.Keystone.PasswordFile)
	}
	return password, nil
}

// hostCells gives a function that finds the cell of a compute node in Nova's tables. It gives nil when
// gateway.legacy names none. The function asks one cell's database after the other, since nova-compute
// creates its provider only once.
func hostCells(g config.Gateway) (func(ctx context.Context, uuid string) (string, error), error) {
	tables := map[string]novadb.Config{}
	for _, c := range g.Legacy {
		conf, err := readerConfig(c, cellOf(g, c.Cell).UUID)
		if err != nil {
			return nil, err
		}
		if err := conf.Check(); err != nil {
			return nil, fmt.Errorf("gateway.legacy: cell %s: %w", c.Cell, err)
		}
		tables[c.Cell] = conf
	}
	if len(tables) == 0 {
		return nil, nil
	}
	return func(ctx context.Context, uuid string) (string, error) {
		var unread error
		for _, cell := range slices.Sorted(maps.Keys(tables)) {
			found, err := novadb.HasNode(ctx, tables[cell], uuid)
			if found {
				return cell, nil
			}
			if err != nil {
				unread = errors.Join(unread, fmt.Errorf("cell %s: %w", cell, err))
			}
		}
		return "", unread
	}, nil
}
