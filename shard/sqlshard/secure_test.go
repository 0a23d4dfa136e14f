package sqlshard

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
)

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "database"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER)
}

// The store reaches the database by TLS, checks the certificate, and reads the password from a
// file. No error contains the password.
func TestTLSAndPasswords(t *testing.T) {
	cert, key := certificate(t)
	const secret = "it's a secret"
	srv := pgtest.New(t, pgtest.Options{CertFile: cert, KeyFile: key, Password: secret})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(file, query string) error {
		s, err := Open(t.Context(), Options{
			Cell: "cell1", CellUUID: "c1", Migrate: true, Create: true, PasswordFile: file,
			URL: "postgres://postgres@" + srv.Addr() + "/secured?" + query,
		})
		if err == nil {
			if by := s.pool.Config().ConnConfig.TLSConfig; by.InsecureSkipVerify || by.RootCAs == nil {
				t.Error("the certificate is not checked")
			}
			mustClose(t, s)
		}
		return err
	}
	if err := open(password, "sslmode=verify-full&sslrootcert="+cert); err != nil {
		t.Errorf("with the certificate and the password: %v", err)
	}
	other, _ := certificate(t)
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("another secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"another authority": open(password, "sslmode=verify-full&sslrootcert="+other),
		"a wrong password":  open(wrong, "sslmode=verify-full&sslrootcert="+cert),
		"no password":       open("", "sslmode=verify-full&sslrootcert="+cert),
		"no such file":      open(wrong+"er", "sslmode=verify-full&sslrootcert="+cert),
	} {
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := Redacted("cockroach://u:hidden@h:1/d?password=alsohidden&sslpassword=hidden-too"); strings.Contains(text, "hidden") {
		t.Errorf("redacted is %s", text)
	}
}

// Each new connection reads the files that the URL names, so a replaced certificate counts without
// a restart.
func TestFilesOfTLSAreReadAnew(t *testing.T) {
	cert, key := certificate(t)
	other, _ := certificate(t)
	srv := pgtest.New(t, pgtest.Options{CertFile: cert, KeyFile: key, Password: "secret"})
	dir := t.TempDir()
	ca, password := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "password")
	put := func(from string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(ca, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(cert)
	s := openAt(t, Options{
		Cell: "cell1", CellUUID: "c1", Migrate: true, Create: true, PasswordFile: password,
		URL: "postgres://postgres@" + srv.Addr() + "/secured?sslmode=verify-full&sslrootcert=" + ca,
	})
	defer mustClose(t, s)
	for _, trusted := range []bool{true, false, true} {
		put(map[bool]string{true: cert, false: other}[trusted])
		s.pool.Reset()
		if _, err := s.Now(t.Context()); (err == nil) != trusted {
			t.Errorf("with the certificate that is trusted %v: %v", trusted, err)
		}
	}
}

func TestURLsThatAreNoShards(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://h/d":            "postgres:// or cockroach://",
		"h:26257/d":              "postgres:// or cockroach://",
		"postgres://u@h:1/":      "names no database",
		"postgres://u@h:1/d?x=%": "cannot be read",
	} {
		if _, err := Open(t.Context(), Options{Cell: "c", URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	opts := testOptions(newDatabase(t))
	opts.URL = strings.Replace(opts.URL, "postgres://", "cockroach://", 1)
	if _, err := Open(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "its URL says CockroachDB") {
		t.Errorf("PostgreSQL under the name of CockroachDB: %v", err)
	}
}

// Without an sslmode that decides, a connection is first tried with TLS. The error still has the server's reason.
func TestOpen_RefusedAfterATryWithTLS_SaysWhy(t *testing.T) {
	opts := testOptions(strings.Replace(pgtest.Start(t).URL("no_such_database"), "sslmode=disable", "sslmode=prefer", 1))
	opts.Create, opts.Migrate = false, false
	_, err := Open(t.Context(), opts)
	if err == nil || !strings.Contains(err.Error(), `database "no_such_database" does not exist`) || state(err) != invalidCatalogName {
		t.Errorf("a database that is not there: %v", err)
	}
}

// If the server is not the kind that the URL names, nothing is written to it.
func TestNoDatabaseIsMadeOnAnotherServer(t *testing.T) {
	srv := pgtest.Start(t)
	name := fmt.Sprintf("not_made_%d", databases.Add(1))
	opts := testOptions(strings.Replace(srv.URL(name), "postgres://", "cockroach://", 1))
	opts.Create = true
	_, opened := Open(t.Context(), opts)
	_, migrated := Migrate(t.Context(), opts)
	for what, err := range map[string]error{"Open": opened, "Migrate": migrated} {
		if err == nil || !strings.Contains(err.Error(), "its URL says CockroachDB") {
			t.Errorf("%s: %v", what, err)
		}
	}
	c, err := pgx.Connect(t.Context(), srv.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if made, err := texts(t.Context(), c, "SELECT datname FROM pg_database WHERE datname = $1", name); err != nil || len(made) > 0 {
		t.Errorf("made: %v, %v", made, err)
	}
}

// A URL without a port gets the default port of the kind of server that it names.
func TestPortsThatURLsDoNotSay(t *testing.T) {
	t.Setenv("PGPORT", "")
	for url, want := range map[string]uint16{
		"postgres://u@h/d":                   5432,
		"cockroach://u@h/d":                  cockroachPort,
		"cockroach://u@h:1/d":                1,
		"cockroach://u@/d?host=h":            cockroachPort,
		"cockroach://u@/d?host=h&port=2":     2,
		"cockroach://u@h/d?sslmode=prefer":   cockroachPort,
		"cockroachdb://u@h/d?sslmode=prefer": cockroachPort,
	} {
		config, _, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if c := config.ConnConfig; c.Port != want || len(c.Fallbacks) > 0 && c.Fallbacks[0].Port != want {
			t.Errorf("%s is of port %d, %v; want %d", url, c.Port, c.Fallbacks, want)
		}
	}
}
