package security

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Scheme is the scheme of the URI that gives a certificate its role: cellgate://ROLE/NAME, or for
// agents cellgate://agent/SERVICE_HOST, once for each host.
const Scheme = "cellgate"

// certificateIdentity reads the identity in a certificate. It ignores the common name.
func certificateIdentity(leaf *x509.Certificate) (*Identity, error) {
	var id *Identity
	for _, u := range leaf.URIs {
		if u.Scheme != Scheme {
			continue
		}
		name := strings.TrimPrefix(u.Path, "/")
		if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" {
			return nil, fmt.Errorf("%s is not cellgate://ROLE/NAME", quoted(u.String()))
		}
		switch {
		case id == nil:
			id = &Identity{Role: Role(u.Host), Name: name, Expires: leaf.NotAfter}
		case id.Role != Role(u.Host) || id.Role != Agent:
			return nil, errors.New("it names several callers")
		}
		if id.Role == Agent {
			id.Hosts = append(id.Hosts, name)
		}
	}
	if id == nil {
		return nil, errors.New("it has no URI cellgate://ROLE/NAME")
	}
	if bad := id.check(); bad != "" {
		return nil, errors.New(bad)
	}
	return id, nil
}

// callers verifies callers' certificates. It is built from the CAs of a file, and rebuilt when they
// change.
type callers struct {
	*authorities
	mu sync.Mutex
	// seen are verified chains, by the hash of the whole chain.
	seen map[[sha256.Size]byte]*Identity
}

// maxSeen bounds the chains that are remembered.
const maxSeen = 1 << 16

func parseCallers(texts [][]byte) (*callers, error) {
	pool, err := parsePool(texts)
	if err != nil {
		return nil, err
	}
	return &callers{authorities: pool, seen: map[[sha256.Size]byte]*Identity{}}, nil
}

// identify verifies a chain that begins with the caller's own certificate.
func (c *callers) identify(chain []*x509.Certificate, now time.Time) (*Identity, error) {
	h := sha256.New()
	for _, x := range chain {
		_, _ = h.Write(x.Raw) // hashes never fail
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := c.seen[sum]; id != nil {
		return id, nil
	}
	between := x509.NewCertPool()
	for _, x := range chain[1:] {
		between.AddCert(x)
	}
	paths, err := chain[0].Verify(x509.VerifyOptions{
		Roots: c.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	id, err := certificateIdentity(chain[0])
	if err != nil {
		return nil, err
	}
	// The proof ends with the first certificate of the path that ends.
	for _, x := range paths[0] {
		if x.NotAfter.Before(id.Expires) {
			id.Expires = x.NotAfter
		}
	}
	if len(c.seen) >= maxSeen {
		clear(c.seen)
	}
	c.seen[sum] = id
	return id, nil
}

// authorities are the CAs of a file.
type authorities struct {
	pool *x509.CertPool
	// ends is when the first CA ends.
	ends time.Time
}

// parsePool reads the CAs of a PEM file.
func parsePool(texts [][]byte) (*authorities, error) {
	out, n := &authorities{pool: x509.NewCertPool()}, 0
	for rest := texts[0]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %s: only certificates of CAs belong there", block.Type)
		}
		x, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !x.IsCA {
			return nil, fmt.Errorf("%s is not the certificate of a CA", quoted(x.Subject.String()))
		}
		if out.pool.AddCert(x); n == 0 || x.NotAfter.Before(out.ends) {
			out.ends = x.NotAfter
		}
		n++
	}
	if n == 0 {
		return nil, errors.New("it holds no certificate")
	}
	return out, nil
}

// endOf returns when the first certificate of a process's own chain ends.
func endOf(pair *tls.Certificate) time.Time {
	end := pair.Leaf.NotAfter
	for _, der := range pair.Certificate[1:] {
		if x, err := x509.ParseCertificate(der); err == nil && x.NotAfter.Before(end) {
			end = x.NotAfter
		}
	}
	return end
}

// Ends returns when the server's certificate and the first of its callers' CAs end; zero for none.
func (s *Server) Ends() (own, callersCA time.Time) {
	if pair := s.pair.get(); pair != nil {
		own = endOf(pair)
	}
	if c := s.callers.get(); c != nil {
		callersCA = c.ends
	}
	return own, callersCA
}

// Ends returns when the client's certificate and the first of the servers' CAs end; zero for none, and
// for the CAs that this machine trusts.
func (c *Client) Ends() (own, serversCA time.Time) {
	if pair := c.pair.get(); pair != nil {
		own = endOf(pair)
	}
	if roots := c.roots.get(); roots != nil {
		serversCA = roots.ends
	}
	return own, serversCA
}

// parsePair reads a certificate and its key.
func parsePair(texts [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, err
	}
	return &pair, nil
}
