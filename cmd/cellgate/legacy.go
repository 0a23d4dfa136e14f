package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"cellgate/gateway/legacy/importer"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/config"
)

// readerConfig makes the configuration of a legacy cell's reader. uuid may be empty when there is an
// API database.
func readerConfig(c config.LegacyCell, uuid string) (novadb.Config, error) {
	out := novadb.Config{
		Cell: c.Cell, CellUUID: uuid, ServiceDownTime: c.ServiceDownTime,
		Database: novadb.Database{URL: c.Database, PasswordFile: c.PasswordFile},
		API:      novadb.Database{URL: c.API, PasswordFile: c.APIPassword},
		// The reader names what the cell would refuse, and proposes it to nobody.
		Importable: importer.Importable,
		Ratios: novadb.Ratios{
			CPU: c.CPURatio, RAM: c.RAMRatio, Disk: c.DiskRatio,
			InitialCPU: c.InitialCPURatio, InitialRAM: c.InitialRAMRatio, InitialDisk: c.InitialDiskRatio,
		},
	}
	var errs []error
	bad := func(key string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("gateway.legacy: %s of cell %s: %w", key, c.Cell, err))
		}
	}
	var err error
	bad("password_file", passwordFile(c.PasswordFile))
	out.Database.TLS, err = databaseTLS(c.Database, c.CA)
	bad("ca", err)
	bad("api_password_file", passwordFile(c.APIPassword))
	out.API.TLS, err = databaseTLS(c.API, c.APICA)
	bad("api_ca", err)
	return out, errors.Join(errs...)
}

// legacyFiles reports which of the files that gateway.legacy names cannot be used.
func legacyFiles(g config.Gateway) error {
	var errs []error
	for _, c := range g.Legacy {
		_, err := readerConfig(c, "")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// passwordFile says why a file gives no password. An empty path is for no password. novadb reads the
// file again for each new connection.
func passwordFile(path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err == nil && strings.TrimRight(string(text), "\r\n") == "" {
		err = fmt.Errorf("%s is empty", path)
	}
	return err
}

// databaseTLS gives the TLS settings for a database; nil without a CA.
func databaseTLS(database, ca string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil //nolint:nilnil // no TLS, and nothing wrong
	}
	u, err := url.Parse(database)
	if err != nil {
		return nil, errors.New("the database's URL is none") // not shown: it may have a password
	}
	roots, err := readCAs(ca)
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname(), RootCAs: roots}, err
}

// readCAs reads the CAs of a PEM file, or gives the CAs that this machine trusts.
func readCAs(path string) (*x509.CertPool, error) {
	if path == config.SystemCA {
		return x509.SystemCertPool()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", path)
	}
	return pool, nil
}

// cellOf gives the gateway's cell of that name.
func cellOf(g config.Gateway, name string) config.GatewayCell {
	if i := slices.IndexFunc(g.Cells, func(c config.GatewayCell) bool { return c.Name == name }); i >= 0 {
		return g.Cells[i]
	}
	return config.GatewayCell{Name: name}
}
