package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// CA issues certificates.
type CA struct {
	// PEM is the CA's own certificate.
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf describes a certificate to issue.
type Leaf struct {
	// URIs make it a caller's certificate; Server makes it one of a server on this machine.
	URIs   []string
	Server bool
	// Name is a server's name, in place of this machine's names.
	Name string
	// From and To bound its validity; zero for an hour around now.
	From, To time.Time
}

// New makes a CA.
func New(name string) *CA {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	return &CA{PEM: encode("CERTIFICATE", der), cert: must(x509.ParseCertificate(der)), key: key}
}

// Issue makes a certificate and its key, both PEM.
func (ca *CA) Issue(l Leaf) (cert, key []byte) {
	own := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	if l.From.IsZero() {
		l.From = time.Now().Add(-time.Hour)
	}
	if l.To.IsZero() {
		l.To = time.Now().Add(time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "operator"}, NotBefore: l.From, NotAfter: l.To,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if l.Server {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	if l.Name != "" {
		template.DNSNames, template.IPAddresses = []string{l.Name}, nil
	}
	for _, u := range l.URIs {
		template.URIs = append(template.URIs, must(url.Parse(u)))
	}
	der := must(x509.CreateCertificate(rand.Reader, template, ca.cert, &own.PublicKey, ca.key))
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(own)))
}

// Write writes a certificate and its key into dir, replacing older ones, and returns their paths.
func (ca *CA) Write(dir, name string, l Leaf) (cert, key string) {
	c, k := ca.Issue(l)
	return Put(dir, name+".pem", c), Put(dir, name+"-key.pem", k)
}

// Put replaces a file of dir atomically and returns its path.
func Put(dir, name string, text []byte) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
	return path
}

func serial() *big.Int { return must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))) }

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
