package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"

	"cellgate/gateway/legacy"
	"cellgate/internal/config"
)

// readerConfig makes the configuration of a reader of a legacy cell. uuid may be empty
// when there is an API database.
func readerConfig(c config.LegacyCell, uuid string) (legacy.Config, error) {
	out := legacy.Config{
		Cell: c.Cell, CellUUID: uuid, ServiceDownTime: c.ServiceDownTime,
		Database: legacy.Database{URL: c.Database, PasswordFile: c.PasswordFile},
		API:      legacy.Database{URL: c.API, PasswordFile: c.APIPassword},
		Ratios: legacy.Ratios{
			CPU: c.CPURatio, RAM: c.RAMRatio, Disk: c.DiskRatio,
			InitialCPU: c.InitialCPURatio, InitialRAM: c.InitialRAMRatio, InitialDisk: c.InitialDiskRatio,
		},
	}
	var err, apiErr error
	if out.Database.TLS, err = databaseTLS(c.Database, c.CA); err != nil {
		err = fmt.Errorf("gateway.legacy: ca of cell %s: %w", c.Cell, err)
	}
	if out.API.TLS, apiErr = databaseTLS(c.API, c.APICA); apiErr != nil {
		apiErr = fmt.Errorf("gateway.legacy: api_ca of cell %s: %w", c.Cell, apiErr)
	}
	return out, errors.Join(err, apiErr)
}

// databaseTLS is how a database is known; nil without a CA.
func databaseTLS(database, ca string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil //nolint:nilnil // no TLS, and nothing wrong
	}
	u, err := url.Parse(database)
	if err != nil {
		return nil, errors.New("the database's URL is none") // not shown: it may have a password
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	if ca == config.SystemCA {
		return c, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	return c, nil
}

// cellOf gives the gateway's cell of a name.
func cellOf(g config.Gateway, name string) config.GatewayCell {
	if i := slices.IndexFunc(g.Cells, func(c config.GatewayCell) bool { return c.Name == name }); i >= 0 {
		return g.Cells[i]
	}
	return config.GatewayCell{Name: name}
}
