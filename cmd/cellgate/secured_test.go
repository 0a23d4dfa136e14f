package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellgate/internal/security"
	"cellgate/internal/security/testca"
)

// ownHost is the host that the agents' credentials are for.
const ownHost = "cell1-r01-h001"

// secured is a gateway and a cell with TLS, which know callers by certificates
// and by tokens.
type secured struct {
	dir         string
	ca, foreign *testca.CA
	caFile      string
	// tokens are valid, one per role. expired is a token that was valid.
	tokens           map[security.Role]string
	expired          string
	grpc, http, cell string
	// cellHTTP is where the cell serves its metrics.
	cellHTTP string
	certs    int
	// webs are the HTTP clients of the credentials used so far.
	webs map[*security.Client]http.RoundTripper
}

// newSecured creates the files: a CA, certificates of the servers, tokens.
func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{dir: t.TempDir(), ca: testca.New("ours"), foreign: testca.New("foreign"), tokens: map[security.Role]string{}, webs: map[*security.Client]http.RoundTripper{}}
	s.caFile = testca.Put(s.dir, "ca.pem", s.ca.PEM)
	s.ca.Write(s.dir, "server", testca.Leaf{Server: true})
	var lines strings.Builder
	for _, role := range security.Roles() {
		id := security.Identity{Role: role, Name: string(role) + "-1"}
		if role == security.Agent {
			id.Hosts = []string{ownHost}
		}
		secret, line, err := security.NewToken(id)
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[role] = secret
		lines.WriteString(line)
	}
	s.expired = "cellgate_expired"
	fmt.Fprintf(&lines, "- {sha256: %x, role: operator, name: old, expires: 2020-01-01T00:00:00Z}\n", sha256.Sum256([]byte(s.expired)))
	testca.Put(s.dir, "tokens.yaml", []byte(lines.String()))
	return s
}

func (s *secured) path(name string) string { return filepath.Join(s.dir, name) }

func (s *secured) serverFlags() []string {
	return []string{
		"--tls-cert", s.path("server.pem"), "--tls-key", s.path("server-key.pem"), "--tls-client-ca", s.caFile,
		"--tls-client-cert-optional", "--tls-tokens", s.path("tokens.yaml"),
	}
}

// startSecured runs a cell and a gateway over it.
func startSecured(t *testing.T) *secured {
	t.Helper()
	s := newSecured(t)
	cell := launch(t, true, append(append(cellArgs(t.TempDir()), "--metrics", "127.0.0.1:0"), s.serverFlags()...)...)
	s.cellHTTP = cell.await(`msg="metrics are served" metrics=(\S+)`)[1]
	s.cell = cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	cell.await(`msg="cell is ready"`)
	token := testca.Put(s.dir, "gateway-token", []byte(s.tokens[security.Gateway]+"\n"))
	gw := launch(t, true, append([]string{
		"gateway", "--cell", "cell1=" + s.cell, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--cell-tls-ca", s.caFile, "--cell-tls-token-file", token,
	}, s.serverFlags()...)...)
	found := gw.await(`msg="gateway starts".* grpc=(\S+) http=(\S+)`)
	s.grpc, s.http = found[1], found[2]
	return s
}

// client is a client that knows the servers.
func (s *secured) client(t *testing.T, c security.ClientConfig) *security.Client {
	t.Helper()
	c.CA = s.caFile
	out, err := security.NewClient(c, silent)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *secured) withToken(t *testing.T, secret string) *security.Client {
	t.Helper()
	return s.client(t, security.ClientConfig{TokenFile: testca.Put(t.TempDir(), "token", []byte(secret))})
}

func (s *secured) withCertificate(t *testing.T, ca *testca.CA, to time.Time, uri string) *security.Client {
	t.Helper()
	s.certs++
	cert, key := ca.Write(s.dir, fmt.Sprintf("client%d", s.certs), testca.Leaf{URIs: []string{uri}, To: to})
	return s.client(t, security.ClientConfig{Cert: cert, Key: key})
}
